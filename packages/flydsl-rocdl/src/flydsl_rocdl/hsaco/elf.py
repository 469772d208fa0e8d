"""Reading ELF64 little-endian files: the part of the format that AMD code objects use.

Sources: the System V ABI (ELF-64 object file format) and the "Code Object" chapter of LLVM's AMDGPU
user guide.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from flydsl.errors import UserValueError

__all__ = ["ElfFile", "ElfRelocation", "ElfSection", "ElfSymbol", "read_elf"]

EM_AMDGPU: Final = 224
ET_REL: Final = 1
ET_DYN: Final = 3

SHT_PROGBITS: Final = 1
SHT_SYMTAB: Final = 2
SHT_STRTAB: Final = 3
SHT_RELA: Final = 4
SHT_HASH: Final = 5
SHT_DYNAMIC: Final = 6
SHT_NOTE: Final = 7
SHT_NOBITS: Final = 8
SHT_DYNSYM: Final = 11
SHT_GROUP: Final = 17
SHT_GNU_HASH: Final = 0x6FFFFFF6

SHF_WRITE: Final = 1
SHF_ALLOC: Final = 2
SHF_EXECINSTR: Final = 4
SHF_MERGE: Final = 0x10
SHF_STRINGS: Final = 0x20
SHF_INFO_LINK: Final = 0x40
SHF_GROUP: Final = 0x200
SHF_EXCLUDE: Final = 0x80000000

SHN_UNDEF: Final = 0
SHN_AMDGPU_LDS: Final = 0xFF00
SHN_ABS: Final = 0xFFF1
SHN_COMMON: Final = 0xFFF2

STB_LOCAL: Final = 0
STB_WEAK: Final = 2
STT_SECTION: Final = 3
STT_FILE: Final = 4
STV_DEFAULT: Final = 0
STV_INTERNAL: Final = 1
STV_HIDDEN: Final = 2

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELA = struct.Struct("<QQq")
DYNAMIC = struct.Struct("<qQ")


@dataclass(frozen=True, slots=True)
class ElfSection:
    """One section; `data` is empty for a section without file contents."""

    index: int
    name: str
    type: int
    flags: int
    address: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int
    data: bytes = field(repr=False)

    @property
    def allocated(self) -> bool:
        """Whether the section occupies memory at run time."""
        return bool(self.flags & SHF_ALLOC)


@dataclass(frozen=True, slots=True)
class ElfSymbol:
    """One symbol table entry; `section` is a section index or a reserved ``SHN_*`` value."""

    index: int
    name: str
    value: int
    size: int
    bind: int
    type: int
    visibility: int
    section: int

    @property
    def exported(self) -> bool:
        """Whether the dynamic symbol table lists a definition of this symbol."""
        return (
            self.bind != STB_LOCAL
            and self.visibility not in (STV_HIDDEN, STV_INTERNAL)
            and self.section != SHN_UNDEF
        )

    @property
    def preemptible(self) -> bool:
        """Whether another module's definition may replace this one."""
        return self.exported and self.visibility == STV_DEFAULT


@dataclass(frozen=True, slots=True)
class ElfRelocation:
    """One relocation with addend; `symbol` indexes the symbol table."""

    offset: int
    type: int
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class ElfFile:
    """A parsed file.

    Attributes:
        type: ``ET_REL`` or ``ET_DYN``.
        os_abi, abi_version: Bytes 7 and 8 of the identification.
        flags: Processor flags: machine and target-id features.
        sections: All sections, by index.
        symbols: The symbol table (dynamic symbols when there is no other).
        relocations: Relocations by the index of the section they change.
    """

    type: int
    os_abi: int
    abi_version: int
    flags: int
    sections: tuple[ElfSection, ...]
    symbols: tuple[ElfSymbol, ...]
    relocations: Mapping[int, tuple[ElfRelocation, ...]]

    def section(self, name: str) -> ElfSection | None:
        """Return the first section called `name`, or None."""
        return next((s for s in self.sections if s.name == name), None)

    def symbol(self, name: str) -> ElfSymbol | None:
        """Return the first symbol called `name`, or None."""
        return next((s for s in self.symbols if s.name == name), None)

    def bytes_at(self, address: int, size: int) -> bytes:
        """Return `size` bytes at a virtual address of an allocated section.

        Raises:
            KeyError: No section holds the range.
        """
        for section in self.sections:
            if section.allocated and section.address <= address < section.address + section.size:
                start = address - section.address
                return section.data[start : start + size]
        raise KeyError(f"no section at address {address:#x}")

    def notes(self) -> Iterator[tuple[str, int, bytes]]:
        """Yield ``(owner, type, description)`` of every note."""
        for section in self.sections:
            if section.type != SHT_NOTE:
                continue
            at = 0
            while at + 12 <= len(section.data):
                name_size, size, kind = struct.unpack_from("<III", section.data, at)
                at += 12
                owner = section.data[at : at + name_size].rstrip(b"\0").decode("ascii", "replace")
                at += (name_size + 3) & ~3
                yield owner, kind, section.data[at : at + size]
                at += (size + 3) & ~3


def _text(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode()


def _sections(data: bytes, offset: int, count: int, names_index: int) -> tuple[ElfSection, ...]:
    raw = [SECTION_HEADER.unpack_from(data, offset + 64 * i) for i in range(count)]
    names = data[raw[names_index][4] : raw[names_index][4] + raw[names_index][5]]
    out = []
    for index, (name, kind, flags, addr, at, size, link, info, align, entry) in enumerate(raw):
        body = b"" if kind in (SHT_NOBITS, 0) else data[at : at + size]
        out.append(
            ElfSection(
                index, _text(names, name), kind, flags, addr, size, link, info, align, entry, body
            )
        )
    return tuple(out)


def _symbols(sections: tuple[ElfSection, ...]) -> tuple[ElfSymbol, ...]:
    tables = [s for s in sections if s.type == SHT_SYMTAB] or [
        s for s in sections if s.type == SHT_DYNSYM
    ]
    if not tables:
        return ()
    names = sections[tables[0].link].data
    return tuple(
        ElfSymbol(i, _text(names, name), value, size, info >> 4, info & 15, other & 3, section)
        for i, (name, info, other, section, value, size) in enumerate(
            SYMBOL.iter_unpack(tables[0].data)
        )
    )


def read_elf(data: bytes) -> ElfFile:
    """Parse an AMDGPU object or code object.

    Raises:
        UserValueError: `data` is not a 64-bit little-endian AMDGPU ELF file.
    """
    if len(data) < HEADER.size or data[:6] != b"\x7fELF\x02\x01":
        raise UserValueError("not a 64-bit little-endian ELF file", code="FLY-U620")
    ident, kind, machine, _, _, _, sh_at, flags, _, _, _, _, sh_count, sh_names = (
        HEADER.unpack_from(data)
    )
    if machine != EM_AMDGPU:
        raise UserValueError(
            "the ELF file is for another machine", code="FLY-U621", value=machine, allowed="224"
        )
    sections = _sections(data, sh_at, sh_count, sh_names)
    relocations: dict[int, tuple[ElfRelocation, ...]] = {}
    for section in sections:
        if section.type == SHT_RELA:
            relocations[section.info] = relocations.get(section.info, ()) + tuple(
                ElfRelocation(at, info & 0xFFFFFFFF, info >> 32, addend)
                for at, info, addend in RELA.iter_unpack(section.data)
            )
    return ElfFile(kind, ident[7], ident[8], flags, sections, _symbols(sections), relocations)
