"""Output sections of a code object: which input sections they gather, and where they go."""

from __future__ import annotations

from dataclasses import dataclass, field

from flydsl_rocdl.hsaco import elf

__all__ = ["Layout", "OutputSection", "assign_addresses", "gather", "memory_order"]

PAGE = 4096

_MERGED_PREFIXES = (
    ".data.rel.ro",
    ".bss.rel.ro",
    ".text",
    ".rodata",
    ".data",
    ".bss",
    ".init_array",
    ".fini_array",
)
_RELRO = {".data.rel.ro", ".bss.rel.ro", ".init_array", ".fini_array", ".dynamic", ".got"}
_DROPPED_TYPES = {0, elf.SHT_SYMTAB, elf.SHT_STRTAB, elf.SHT_RELA, elf.SHT_GROUP}
_FIRST_LLVM_TYPE, _LAST_LLVM_TYPE = 0x6FFF4C00, 0x6FFF4CFF


@dataclass(slots=True)
class OutputSection:
    """A section of the code object while it is being built."""

    name: str
    type: int
    flags: int
    align: int = 1
    entry_size: int = 0
    data: bytearray = field(default_factory=bytearray)
    size: int = 0
    address: int = 0
    offset: int = 0
    link: OutputSection | None = None
    info: int = 0
    index: int = 0

    @property
    def relro(self) -> bool:
        """Whether the loader may make the section read-only after relocation."""
        return bool(self.flags & elf.SHF_WRITE) and (
            self.name in _RELRO or self.name == ".relro_padding"
        )

    def append(self, data: bytes, size: int, align: int) -> int:
        """Add an input section and return its offset in this one."""
        self.align = max(self.align, align)
        at = -(-self.size // align) * align
        if self.type != elf.SHT_NOBITS:
            self.data.extend(bytes(at - len(self.data)))
            self.data.extend(data)
        self.size = at + size
        return at


@dataclass(slots=True)
class Layout:
    """Addresses and file offsets once assigned.

    `segments` lists the sections of each loadable segment, `end` is the file offset after the last
    allocated section.
    """

    segments: list[list[OutputSection]]
    end: int


def _output_name(name: str) -> str:
    for prefix in _MERGED_PREFIXES:
        if name == prefix or name.startswith(prefix + "."):
            return prefix
    return name


def gather(
    obj: elf.ElfFile,
) -> tuple[list[OutputSection], dict[int, tuple[OutputSection, int]]]:
    """Group the input sections by output name, in input order.

    Returns:
        The output sections, and for each kept input section index its output section and offset.
    """
    outputs: dict[str, OutputSection] = {}
    places: dict[int, tuple[OutputSection, int]] = {}
    for section in obj.sections:
        if (
            section.type in _DROPPED_TYPES
            or _FIRST_LLVM_TYPE <= section.type <= _LAST_LLVM_TYPE
            or section.flags & elf.SHF_EXCLUDE
            or section.name == ".note.GNU-stack"
            or (section.allocated and not section.size)
        ):
            continue
        name = _output_name(section.name)
        flags = section.flags & ~(elf.SHF_GROUP | elf.SHF_INFO_LINK)
        out = outputs.get(name)
        if out is None:
            out = outputs[name] = OutputSection(
                name, section.type, flags, entry_size=section.entry_size
            )
        else:
            if out.entry_size != section.entry_size:
                out.entry_size = 0
            out.flags |= flags
        if out.entry_size == 0:
            out.flags &= ~(elf.SHF_MERGE | elf.SHF_STRINGS)
        places[section.index] = (out, out.append(section.data, section.size, section.align or 1))
    return list(outputs.values()), places


def _rank(section: OutputSection) -> int:
    """Order: notes, read-only tables, read-only data, code, RELRO, data, zero data, unallocated."""
    if not section.flags & elf.SHF_ALLOC:
        return 9
    if section.flags & elf.SHF_WRITE:
        if section.relro:
            return 5 if section.name != ".relro_padding" else 6
        return 8 if section.type == elf.SHT_NOBITS else 7
    if section.flags & elf.SHF_EXECINSTR:
        return 3
    if section.type == elf.SHT_NOTE:
        return 0
    return 2 if section.type == elf.SHT_PROGBITS else 1


def memory_order(sections: list[OutputSection]) -> list[OutputSection]:
    """Return the sections in the order of addresses, unallocated ones last."""
    return sorted(sections, key=_rank)


def _segment_key(section: OutputSection) -> tuple[int, bool]:
    return section.flags & (elf.SHF_WRITE | elf.SHF_EXECINSTR), section.relro


def assign_addresses(ordered: list[OutputSection], header_size: int) -> Layout:
    """Give every allocated section its address and file offset.

    A segment begins on a page of its own in memory but directly after its predecessor in the file,
    so that address and offset agree modulo the page size.
    """
    segments: list[list[OutputSection]] = [[]]
    address = offset = header_size
    key: tuple[int, bool] = (0, False)
    for section in ordered:
        if not section.flags & elf.SHF_ALLOC:
            break
        fresh = _segment_key(section) != key
        if fresh:
            key = _segment_key(section)
            segments.append([])
            address = -(-address // PAGE) * PAGE + address % PAGE
        start = -(-address // section.align) * section.align
        if fresh:
            offset += (start - offset) % PAGE
        elif section.type != elf.SHT_NOBITS:
            offset += start - address
        section.address, section.offset = start, offset
        segments[-1].append(section)
        if section.name == ".relro_padding":
            # It takes memory up to the next page; the next segment counts on from its beginning.
            section.size = -start % PAGE
            address = start
            continue
        address = start + section.size
        if section.type != elf.SHT_NOBITS:
            offset += section.size
    return Layout([s for s in segments if s], offset)
