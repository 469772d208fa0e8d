"""A reader for the little-endian ELF64 files that hold AMD code objects."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from flydsl.errors import TargetError

__all__ = ["ElfFile", "ElfRelocation", "ElfSection", "ElfSegment", "ElfSymbol", "read_elf"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")

_MACHINE_AMDGPU = 224
_SHT_SYMTAB = 2
_SHT_RELA = 4
_SHT_NOBITS = 8
_SHT_DYNSYM = 11


@dataclass(frozen=True, slots=True)
class ElfSection:
    """One section header with its contents (empty for a section without bytes in the file)."""

    name: str
    type: int
    flags: int
    address: int
    size: int
    link: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ElfSegment:
    """One program header with its file contents; `memory_size` may exceed ``len(data)``."""

    type: int
    flags: int
    address: int
    memory_size: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ElfSymbol:
    """One symbol; `section` is the index of its section, 0 for an undefined one."""

    name: str
    value: int
    size: int
    type: int
    section: int


@dataclass(frozen=True, slots=True)
class ElfRelocation:
    """One relocation with addend; `symbol` indexes the dynamic symbol table."""

    offset: int
    type: int
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class ElfFile:
    """A parsed file: `flags` is ``e_flags``, `dynamic` the relocations of ``.rela.dyn``."""

    type: int
    flags: int
    sections: tuple[ElfSection, ...]
    segments: tuple[ElfSegment, ...]
    symbols: tuple[ElfSymbol, ...]
    dynamic_symbols: tuple[ElfSymbol, ...]
    dynamic: tuple[ElfRelocation, ...]

    def section(self, name: str) -> ElfSection | None:
        """Return the first section called `name`, or None."""
        return next((s for s in self.sections if s.name == name), None)

    def symbol(self, name: str) -> ElfSymbol | None:
        """Return the defined symbol called `name`, or None."""
        for table in (self.symbols, self.dynamic_symbols):
            for symbol in table:
                if symbol.name == name and symbol.section:
                    return symbol
        return None


def read_elf(data: bytes) -> ElfFile:
    """Parse an AMDGPU ELF file.

    Raises:
        TargetError: The bytes are no little-endian ELF64 file for AMDGPU, or are cut short.
    """
    if len(data) < _HEADER.size or data[:4] != b"\x7fELF":
        raise TargetError("these bytes are not an ELF file", code="FLY-T701", value=data[:16])
    try:
        return _parse(data)
    except (struct.error, IndexError, ValueError) as error:
        raise TargetError(f"the ELF file is damaged: {error}", code="FLY-T701") from error


def _parse(data: bytes) -> ElfFile:
    head = _HEADER.unpack_from(data, 0)
    ident, file_type, machine = head[0], head[1], head[2]
    if ident[4:6] != b"\x02\x01" or machine != _MACHINE_AMDGPU:
        raise TargetError(
            "this ELF file is not a 64-bit AMDGPU code object", code="FLY-T701", value=machine
        )
    phoff, shoff, flags, phentsize, phnum = head[5], head[6], head[7], head[9], head[10]
    shentsize, shnum, shstrndx = head[11], head[12], head[13]
    headers = [_SECTION.unpack_from(data, shoff + i * shentsize) for i in range(shnum)]
    names = headers[shstrndx] if shnum else None
    sections = []
    for h in headers:
        body = b"" if h[1] == _SHT_NOBITS else data[h[4] : h[4] + h[5]]
        name = _string(data, names[4] + h[0]) if names else ""
        sections.append(ElfSection(name, h[1], h[2], h[3], h[5], h[6], body))
    segments = []
    for i in range(phnum):
        kind, pflags, offset, vaddr, _, filesz, memsz, _ = _SEGMENT.unpack_from(
            data, phoff + i * phentsize
        )
        segments.append(ElfSegment(kind, pflags, vaddr, memsz, data[offset : offset + filesz]))
    relocations: list[ElfRelocation] = []
    for section in sections:
        if section.type == _SHT_RELA and file_type == 3:
            for offset, info, addend in _RELA.iter_unpack(section.data):
                relocations.append(ElfRelocation(offset, info & 0xFFFFFFFF, info >> 32, addend))
    return ElfFile(
        file_type,
        flags,
        tuple(sections),
        tuple(segments),
        _symbols(sections, _SHT_SYMTAB),
        _symbols(sections, _SHT_DYNSYM),
        tuple(relocations),
    )


def _symbols(sections: list[ElfSection], kind: int) -> tuple[ElfSymbol, ...]:
    out: list[ElfSymbol] = []
    for section in sections:
        if section.type != kind:
            continue
        strings = sections[section.link].data
        for name, info, _, index, value, size in _SYMBOL.iter_unpack(section.data):
            out.append(ElfSymbol(_string(strings, name), value, size, info & 15, index))
    return tuple(out)


def _string(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode("utf-8", "replace")
