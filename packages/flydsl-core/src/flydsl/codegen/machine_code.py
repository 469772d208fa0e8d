"""Host machine code: the text of an object file, and memory to run it from.

A host stub is position independent and refers to nothing outside itself, so its ``.text`` bytes,
followed by the constants that they refer to, can be kept in a cache and mapped executable later
without LLVM.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import platform
import struct
import sys
from dataclasses import dataclass
from functools import cache

from flydsl.errors import CompilerBug, TargetError

__all__ = ["HOST_FEATURES", "HOST_TRIPLES", "MachineCode", "MappedCode", "host_triple"]

HOST_TRIPLES = {
    "x86_64": "x86_64-unknown-linux-gnu",
    "amd64": "x86_64-unknown-linux-gnu",
    "aarch64": "aarch64-unknown-linux-gnu",
    "arm64": "aarch64-unknown-linux-gnu",
}
"""By `platform.machine`. Always the ELF triple: on macOS too a stub follows the same calling
convention for pointers and 32-bit results, and ELF is the one object format that is read here."""

HOST_FEATURES = {"aarch64-unknown-linux-gnu": "+reserve-x18"}
"""macOS and Android keep register x18 for themselves."""

_PROCESSOR = platform.machine().lower()
_SHT_RELA, _SHT_REL, _SHF_WRITE, _SHF_ALLOC, _STT_FUNC = 4, 9, 1, 2, 2
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_MACHINES = {62: "x86_64", 183: "aarch64"}
_X86_PC32 = 2
_ARM_PAGE = 275
_ARM_LOW_BITS = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
"""Relocations with which code reaches constants, by the ELF supplements of both processors: the
distance; the distance in pages; the place in its page, in units of 1 << bits."""


def host_triple() -> str:
    """Return the LLVM triple that host stubs are compiled for.

    Raises:
        TargetError: Stubs cannot be compiled for this kind of processor or operating system.
    """
    triple = HOST_TRIPLES.get(_PROCESSOR)
    if triple is None or sys.platform == "win32":
        raise TargetError(
            "launchers cannot be compiled for this host",
            code="FLY-T430",
            value=f"{platform.machine()} on {sys.platform}",
            allowed="x86-64 and AArch64 on Linux and macOS",
        )
    return triple


def _string(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Position-independent code, to be put at the beginning of a page.

    Attributes:
        data: Instruction bytes, and the constants that they refer to.
        entry: Offset of the function to call.
        machine: ``"x86_64"`` or ``"aarch64"``.
    """

    data: bytes
    entry: int
    machine: str

    @classmethod
    def from_object(cls, data: bytes, symbol: str) -> MachineCode:
        """Extract the code section of an ELF64 relocatable object, and its constants.

        Args:
            data: The object file.
            symbol: Name of the function to call.

        Raises:
            CompilerBug: The code refers to something outside its section, or the symbol is missing.
        """
        if data[:6] != b"\x7fELF\x02\x01":
            raise CompilerBug("the host object is no little-endian ELF64 file", code="FLY-B430")
        (number,) = struct.unpack_from("<H", data, 18)
        machine = _MACHINES.get(number, str(number))
        table, size, count, names_at = struct.unpack_from("<Q10xHHH", data, 40)
        sections = [_SECTION.unpack_from(data, table + i * size) for i in range(count)]
        names = [_string(data, sections[names_at][4] + s[0]) for s in sections]
        text_at = names.index(".text") if ".text" in names else 0
        code, places = _laid_out(data, sections, names, text_at)
        symbols = sections[names.index(".symtab")]
        strings = sections[symbols[6]]
        found = list(_SYMBOL.iter_unpack(data[symbols[4] : symbols[4] + symbols[5]]))
        for section in sections:
            kind, offset, extent, target = section[1], section[4], section[5], section[7]
            if kind in (_SHT_RELA, _SHT_REL) and target == text_at and extent:
                if kind == _SHT_REL:
                    raise CompilerBug("the host code has relocations of old form", code="FLY-B430")
                for where, info, addend in _RELOCATION.iter_unpack(data[offset : offset + extent]):
                    _, _, _, index, value, _ = found[info >> 32]
                    if index not in places:
                        raise CompilerBug("the host code has relocations", code="FLY-B430")
                    to = places[index] + value + addend
                    _relocate(code, machine, info & 0xFFFFFFFF, where, to)
        for name_at, info, _, index, value, _ in found:
            named = index == text_at and info & 15 == _STT_FUNC
            if named and _string(data, strings[4] + name_at) == symbol:
                return cls(bytes(code), value, machine)
        raise CompilerBug(f"the host object does not define {symbol}", code="FLY-B430")


def _laid_out(
    data: bytes, sections: list[tuple[int, ...]], names: list[str], text_at: int
) -> tuple[bytearray, dict[int, int]]:
    """Return code with the constants behind it, and where in it sections are, by number.

    Raises:
        CompilerBug: The code needs something else than constants.
    """
    text = sections[text_at]
    code, places = bytearray(data[text[4] : text[4] + text[5]]), {text_at: 0}
    for index, section in enumerate(sections):
        flags, offset, extent, alignment = section[2], section[4], section[5], section[8]
        # Unwind tables are loaded too, but a stub is not unwound through.
        if not flags & _SHF_ALLOC or not extent or index == text_at or names[index] == ".eh_frame":
            continue
        if flags & _SHF_WRITE or not names[index].startswith(".rodata"):
            raise CompilerBug(f"the host code needs a section {names[index]}", code="FLY-B430")
        code += bytes(-len(code) % max(alignment, 1))
        places[index] = len(code)
        code += data[offset : offset + extent]
    return code, places


def _relocate(code: bytearray, machine: str, kind: int, where: int, to: int) -> None:
    """Let the instruction at an offset of `code` refer to another one; code begins a page.

    Raises:
        CompilerBug: The relocation is none of those that reach constants.
    """
    (word,) = struct.unpack_from("<I", code, where)
    if machine == "x86_64" and kind == _X86_PC32:
        word = (to - where) & 0xFFFFFFFF
    elif machine == "aarch64" and kind == _ARM_PAGE:
        pages = (to >> 12) - (where >> 12)
        word |= (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    elif machine == "aarch64" and kind in _ARM_LOW_BITS:
        word |= ((to & 0xFFF) >> _ARM_LOW_BITS[kind]) << 10
    else:
        raise CompilerBug("the host code has relocations", code="FLY-B430", value=kind)
    struct.pack_into("<I", code, where, word)


class MappedCode:
    """Machine code in executable memory, for as long as this object lives.

    Args:
        code: What to map.

    Raises:
        TargetError: The code is for another processor, or the system refuses executable memory.
    """

    __slots__ = ("_view", "address", "size")

    def __init__(self, code: MachineCode) -> None:
        if HOST_TRIPLES.get(_PROCESSOR) != HOST_TRIPLES.get(code.machine):
            raise TargetError(
                "host code for another processor", code="FLY-T431", value=code.machine
            )
        self.size = len(code.data)
        self._view = _anonymous(code.data) or _file_backed(code.data)
        if self._view is None:
            raise TargetError(
                "the operating system refuses executable memory for the launcher",
                code="FLY-T432",
                hint="allow memory mappings with PROT_EXEC for this process, or set TMPDIR to a "
                "file system that is not mounted noexec",
            )
        self.address = self._view.base + code.entry


class _Mapping:
    """An executable mapping that is removed with its object."""

    __slots__ = ("_unmap", "base", "length")

    def __init__(self, base: int, length: int) -> None:
        self.base = base
        self.length = length
        self._unmap = _libc().munmap

    def __del__(self) -> None:
        self._unmap(self.base, self.length)


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int64,
    ]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc


if sys.platform != "win32":
    _libc()  # at import, for it takes a part of the time of a first call


_FAILED = ctypes.c_void_p(-1).value


def _anonymous(data: bytes) -> _Mapping | None:
    """Map fresh memory, write to it, then make it executable instead of writable."""
    libc = _libc()
    length = -(-len(data) // mmap.PAGESIZE) * mmap.PAGESIZE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    base = libc.mmap(None, length, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if base in (None, _FAILED):
        return None
    mapping = _Mapping(base, length)
    ctypes.memmove(base, data, len(data))
    if libc.mprotect(base, length, mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    _flush_instruction_cache(base, len(data))
    return mapping


def _file_backed(data: bytes) -> _Mapping | None:
    """Map a file executable: hardened systems refuse written anonymous memory but allow files."""
    import tempfile

    libc = _libc()
    length = -(-len(data) // mmap.PAGESIZE) * mmap.PAGESIZE

    def in_memory() -> int:
        return os.memfd_create("flydsl-stub")

    def on_disk() -> int:
        return os.open(tempfile.gettempdir(), os.O_TMPFILE | os.O_RDWR, 0o700)

    for make in (in_memory, on_disk):
        # AttributeError: only Linux has these.
        with contextlib.suppress(OSError, AttributeError):
            descriptor = make()
            try:
                os.write(descriptor, data)
                protection = mmap.PROT_READ | mmap.PROT_EXEC
                base = libc.mmap(None, length, protection, mmap.MAP_PRIVATE, descriptor, 0)
            finally:
                os.close(descriptor)
            if base not in (None, _FAILED):
                return _Mapping(base, length)
    return None


def _flush_instruction_cache(base: int, length: int) -> None:
    """Make written instructions visible where the processor does not do so itself (AArch64)."""
    if _PROCESSOR in ("x86_64", "amd64"):
        return
    for library in (None, "libgcc_s.so.1"):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(library).__clear_cache(
                ctypes.c_void_p(base), ctypes.c_void_p(base + length)
            )
            return
