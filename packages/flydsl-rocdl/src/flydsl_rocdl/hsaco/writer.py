"""Serialising a linked code object: string tables, program headers, section headers, the file."""

from __future__ import annotations

from flydsl_rocdl.hsaco import elf
from flydsl_rocdl.hsaco.sections import PAGE, Layout, OutputSection

__all__ = ["StringTable", "program_headers", "write_file"]

_PT_LOAD, _PT_DYNAMIC, _PT_NOTE, _PT_PHDR = 1, 2, 4, 6
_PT_GNU_STACK, _PT_GNU_RELRO = 0x6474E551, 0x6474E552
_PF_X, _PF_W, _PF_R = 1, 2, 4


class StringTable:
    """An ELF string table under construction."""

    def __init__(self) -> None:
        self.data = bytearray(1)
        self._offsets: dict[str, int] = {"": 0}

    def add(self, text: str) -> int:
        """Return the offset of `text`, adding it unless it is there."""
        at = self._offsets.get(text)
        if at is None:
            at = self._offsets[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return at


def _range(sections: list[OutputSection]) -> tuple[int, int, int, int]:
    """Return (offset, address, file size, memory size) of consecutive sections."""
    first, last = sections[0], sections[-1]
    file_end = first.offset
    for section in sections:
        if section.type != elf.SHT_NOBITS:
            file_end = section.offset + section.size
    memory = last.address + last.size - first.address
    return first.offset, first.address, file_end - first.offset, memory


def program_headers(layout: Layout, dynamic: OutputSection, count: int) -> bytes:
    """Return the program header table, which starts right after the file header."""
    out = []

    def header(kind: int, flags: int, where: tuple[int, int, int, int], align: int) -> None:
        offset, address, file_size, memory = where
        out.append(
            elf.PROGRAM_HEADER.pack(kind, flags, offset, address, address, file_size, memory, align)
        )

    start, size = elf.HEADER.size, count * elf.PROGRAM_HEADER.size
    header(_PT_PHDR, _PF_R, (start, start, size, size), 8)
    for number, segment in enumerate(layout.segments):
        flags = _PF_R
        if segment[0].flags & elf.SHF_WRITE:
            flags |= _PF_W
        if segment[0].flags & elf.SHF_EXECINSTR:
            flags |= _PF_X
        where = _range(segment)
        if number == 0:  # the headers belong to the first segment
            end = where[0] + where[2]
            where = (0, 0, end, end)
        header(_PT_LOAD, flags, where, max(PAGE, *(s.align for s in segment)))
    header(_PT_DYNAMIC, _PF_R | _PF_W, _range([dynamic]), 8)
    relro = [s for segment in layout.segments for s in segment if s.relro]
    header(_PT_GNU_RELRO, _PF_R, _range(relro), 1)
    header(_PT_GNU_STACK, _PF_R | _PF_W, (0, 0, 0, 0), 0)
    notes = [s for segment in layout.segments for s in segment if s.type == elf.SHT_NOTE]
    if notes:
        header(_PT_NOTE, _PF_R, _range(notes), notes[0].align)
    return b"".join(out)


def _section_header(section: OutputSection, name: int, links: dict[int, int]) -> bytes:
    link = 0 if section.link is None else links[id(section.link)]
    return elf.SECTION_HEADER.pack(
        name, section.type, section.flags, section.address, section.offset, section.size,
        link, section.info, section.align, section.entry_size,
    )  # fmt: skip


def write_file(
    obj: elf.ElfFile, sections: list[OutputSection], strtab: OutputSection, headers: bytes
) -> bytes:
    """Return the bytes of the code object.

    Args:
        obj: The relocatable object, for the identification and flags.
        sections: Placed sections in index order, then unallocated ones and the symbol table.
        strtab: The symbol names, which end the file.
        headers: The program header table.
    """
    names = StringTable()
    shstrtab = OutputSection(".shstrtab", elf.SHT_STRTAB, 0, 1)
    every = [*sections, shstrtab, strtab]
    name_offsets = [names.add(section.name) for section in every]
    shstrtab.append(bytes(names.data), len(names.data), 1)

    body = bytearray(elf.HEADER.size) + headers
    for section in every:
        if section.type == elf.SHT_NOBITS:
            continue
        if not section.flags & elf.SHF_ALLOC:
            section.offset = -(-len(body) // section.align) * section.align
        body += bytes(section.offset - len(body))
        body += section.data
    body += bytes(-len(body) % 8)
    for section in every:
        if section.type == elf.SHT_NOBITS and not section.flags & elf.SHF_ALLOC:
            section.offset = len(body)
    links = {id(section): index for index, section in enumerate(every, start=1)}
    table_at = len(body)
    body += bytes(elf.SECTION_HEADER.size)
    for section, name in zip(every, name_offsets, strict=True):
        body += _section_header(section, name, links)
    ident = b"\x7fELF\x02\x01\x01" + bytes((obj.os_abi, obj.abi_version)) + bytes(7)
    body[: elf.HEADER.size] = elf.HEADER.pack(
        ident, elf.ET_DYN, elf.EM_AMDGPU, 1, 0, elf.HEADER.size, table_at, obj.flags,
        elf.HEADER.size, elf.PROGRAM_HEADER.size, len(headers) // elf.PROGRAM_HEADER.size,
        elf.SECTION_HEADER.size, len(every) + 1, len(every) - 1,
    )  # fmt: skip
    return bytes(body)
