"""Loads a relocatable ELF object of the host into executable memory.

Only what the toy's objects contain: code and read-only data, and on x86-64 the PC-relative
relocations between them. Anything else is refused by name.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from dataclasses import dataclass
from typing import Final

from flydsl.errors import TargetError

__all__ = ["Image"]

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_ALLOCATED: Final = 2
_SYMBOL_TABLE: Final = 2
_RELOCATIONS: Final = 4
_NO_BITS: Final = 8
_X86_PC_RELATIVE: Final = (2, 4)
"""R_X86_64_PC32 and R_X86_64_PLT32."""


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


class Image:
    """An object in executable memory; it stays there until `close`.

    Args:
        data: The ELF object.

    Raises:
        TargetError: It is no ELF object, or needs more than this loader does.
    """

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise TargetError("the toy runtime loads 64-bit little-endian ELF", code="FLY-T532")
        table, entry, count = (
            struct.unpack_from("<Q", data, 40)[0],
            *struct.unpack_from("<HH", data, 58),
        )
        self._data = data
        self._sections = [self._section(table + i * entry) for i in range(count)]
        self._places = self._place()
        size = max((self._places[i] + self._sections[i].size for i in self._places), default=0)
        protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        self._memory = mmap.mmap(-1, max(size, 1), prot=protection)
        self._anchor: ctypes.c_char | None = ctypes.c_char.from_buffer(self._memory)
        self._base = ctypes.addressof(self._anchor)
        for index, place in self._places.items():
            section = self._sections[index]
            if section.kind != _NO_BITS:
                content = data[section.offset : section.offset + section.size]
                self._memory[place : place + section.size] = content
        self._symbols = self._read_symbols()
        for section in self._sections:
            if section.kind == _RELOCATIONS and section.info in self._places:
                self._relocate(section)

    def address(self, name: str) -> int:
        """Return the address of a symbol.

        Raises:
            KeyError: The object does not define it.
        """
        for found, _, address in self._symbols:
            if found == name and address is not None:
                return address
        raise KeyError(name)

    def close(self) -> None:
        """Unmap the code."""
        self._anchor = None
        self._memory.close()

    def _section(self, at: int) -> _Section:
        _, kind, flags, _, offset, size, link, info, align, _ = _SECTION.unpack_from(self._data, at)
        return _Section(kind, flags, offset, size, link, info, align)

    def _place(self) -> dict[int, int]:
        places: dict[int, int] = {}
        end = 0
        for index, section in enumerate(self._sections):
            if section.flags & _ALLOCATED:
                align = max(1, section.align)
                places[index] = -(-end // align) * align
                end = places[index] + section.size
        return places

    def _read_symbols(self) -> list[tuple[str, int, int | None]]:
        """Return (name, section index, address or None when undefined) of every symbol."""
        out: list[tuple[str, int, int | None]] = []
        for section in self._sections:
            if section.kind != _SYMBOL_TABLE:
                continue
            names = self._sections[section.link].offset
            for at in range(section.offset, section.offset + section.size, _SYMBOL.size):
                name, _, _, index, value, _ = _SYMBOL.unpack_from(self._data, at)
                start = names + name
                text = self._data[start : self._data.index(b"\0", start)].decode()
                place = self._places.get(index)
                out.append((text, index, None if place is None else self._base + place + value))
        return out

    def _relocate(self, section: _Section) -> None:
        machine = struct.unpack_from("<H", self._data, 18)[0]
        place = self._places[section.info]
        for at in range(section.offset, section.offset + section.size, _RELOCATION.size):
            offset, info, addend = _RELOCATION.unpack_from(self._data, at)
            name, _, address = self._symbols[info >> 32]
            kind = info & 0xFFFFFFFF
            if address is None:
                raise TargetError(f"the toy runtime cannot resolve {name!r}", code="FLY-T532")
            if machine != 62 or kind not in _X86_PC_RELATIVE:
                raise TargetError(
                    f"the toy runtime cannot apply relocation {kind} of machine {machine}",
                    code="FLY-T532",
                )
            value = address + addend - (self._base + place + offset)
            struct.pack_into("<i", self._memory, place + offset, value)
