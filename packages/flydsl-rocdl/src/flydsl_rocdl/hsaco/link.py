"""The built-in linker: one relocatable AMDGPU object becomes a loadable code object.

The result has the layout that LLVM's ``lld -shared`` gives the same object: read-only, code,
relocated read-only and writable segments, each starting on its own page, dynamic symbols for every
exported definition, both hash tables, and dynamic relocations for addresses that are only known
when the object is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flydsl.errors import CompilerBug, TargetError
from flydsl_rocdl.hsaco import elf, relocate
from flydsl_rocdl.hsaco.elf import ElfFile, ElfSymbol, read_elf
from flydsl_rocdl.hsaco.hashes import gnu_hash_order, gnu_hash_section, sysv_hash_section
from flydsl_rocdl.hsaco.sections import (
    Layout,
    OutputSection,
    assign_addresses,
    gather,
    memory_order,
)
from flydsl_rocdl.hsaco.writer import StringTable, program_headers, write_file

__all__ = ["link_object"]


@dataclass(slots=True)
class _Link:
    """State of one link."""

    obj: ElfFile
    outputs: list[OutputSection]
    places: dict[int, tuple[OutputSection, int]]
    exported: list[ElfSymbol] = field(default_factory=list)
    got: dict[int, int] = field(default_factory=dict)
    """Slot number of each symbol index that needs one."""
    absolute: list[tuple[OutputSection, int, int, int]] = field(default_factory=list)
    """Load-time addresses: (section, offset, symbol index, addend)."""

    def synthetic(self, name: str, kind: int, flags: int, align: int) -> OutputSection:
        section = OutputSection(name, kind, flags, align)
        self.outputs.append(section)
        return section

    def address(self, symbol: ElfSymbol) -> int:
        """Return a symbol's address; 0 for one in a dropped section."""
        if symbol.section == elf.SHN_ABS:
            return symbol.value
        place = self.places.get(symbol.section)
        return 0 if place is None else place[0].address + place[1] + symbol.value


def _check_symbols(obj: ElfFile) -> None:
    used = {r.symbol for rs in obj.relocations.values() for r in rs}
    undefined = sorted(
        s.name for s in obj.symbols[1:] if s.section == elf.SHN_UNDEF and s.index in used
    )
    if undefined:
        raise TargetError(
            f"the device code calls {', '.join(undefined)}, which nothing defines",
            code="FLY-T620",
            value=undefined,
            hint="only intrinsics and functions of the same module can be used in a kernel",
        )
    for symbol in obj.symbols:
        if symbol.section in (elf.SHN_AMDGPU_LDS, elf.SHN_COMMON):
            raise CompilerBug(f"{symbol.name} was left for the linker to place", code="FLY-B602")


def _scan(link: _Link) -> None:
    """Find the table slots and the load-time relocations that the object needs."""
    symbols = link.obj.symbols
    wanted = set()
    for section, relocations in link.obj.relocations.items():
        place = link.places.get(section)
        if place is None or not place[0].flags & elf.SHF_ALLOC:
            continue
        out, base = place
        for relocation in relocations:
            if relocation.type in relocate.GOT_TYPES:
                wanted.add(relocation.symbol)
            elif relocation.type == relocate.R_ABS64:
                if not out.flags & elf.SHF_WRITE:
                    raise CompilerBug(
                        f"read-only section {out.name} holds the address of "
                        f"{symbols[relocation.symbol].name}",
                        code="FLY-B603",
                    )
                link.absolute.append(
                    (out, base + relocation.offset, relocation.symbol, relocation.addend)
                )
    ordered = [s.index for s in symbols if s.bind] + [s.index for s in symbols if not s.bind]
    link.got = {index: slot for slot, index in enumerate(i for i in ordered if i in wanted)}


def _build_symbol_tables(link: _Link) -> dict[str, OutputSection]:
    """Create the dynamic symbol sections; symbol values are written once addresses are known."""
    names = StringTable()
    exported = [s for s in link.obj.symbols if s.exported]
    offsets = {s.index: names.add(s.name) for s in exported}
    order = gnu_hash_order([s.name for s in exported])
    link.exported = [exported[i] for i in order]
    ordered_names = [s.name for s in link.exported]

    dynsym = link.synthetic(".dynsym", elf.SHT_DYNSYM, elf.SHF_ALLOC, 8)
    gnu = link.synthetic(".gnu.hash", elf.SHT_GNU_HASH, elf.SHF_ALLOC, 8)
    sysv = link.synthetic(".hash", elf.SHT_HASH, elf.SHF_ALLOC, 4)
    dynstr = link.synthetic(".dynstr", elf.SHT_STRTAB, elf.SHF_ALLOC, 1)
    dynsym.entry_size, dynsym.link, dynsym.info = elf.SYMBOL.size, dynstr, 1
    body = bytes(elf.SYMBOL.size) + b"".join(
        elf.SYMBOL.pack(offsets[s.index], s.bind << 4 | s.type, s.visibility, 0, 0, s.size)
        for s in link.exported
    )
    dynsym.append(body, len(body), 8)
    gnu.link = sysv.link = dynsym
    sysv.entry_size = 4
    table = gnu_hash_section(ordered_names)
    gnu.append(table, len(table), 8)
    table = sysv_hash_section(ordered_names)
    sysv.append(table, len(table), 4)
    dynstr.append(bytes(names.data), len(names.data), 1)
    return {"dynsym": dynsym, "dynstr": dynstr, "gnu": gnu, "sysv": sysv}


def _dynamic_relocations(link: _Link, got: OutputSection | None) -> list[tuple[int, int, int, int]]:
    """Return (type, dynamic symbol, place, addend), relative ones first."""
    numbers = {s.index: i for i, s in enumerate(link.exported, start=1)}
    places = [(out.address + at, index, addend) for out, at, index, addend in link.absolute]
    if got is not None:
        places += [(got.address + 8 * slot, index, 0) for index, slot in link.got.items()]
    out = []
    for place, index, addend in places:
        symbol = link.obj.symbols[index]
        if symbol.preemptible:
            out.append((relocate.R_ABS64, numbers[index], place, addend))
        else:
            out.append((relocate.R_RELATIVE64, 0, place, link.address(symbol) + addend))
    return sorted(out, key=lambda r: (r[0] != relocate.R_RELATIVE64, r[1], r[2]))


def _apply_all(link: _Link, got: OutputSection | None) -> None:
    symbols = link.obj.symbols
    for index, relocations in link.obj.relocations.items():
        place = link.places.get(index)
        if place is None:
            continue
        out, base = place
        allocated = bool(out.flags & elf.SHF_ALLOC)
        for relocation in relocations:
            at = base + relocation.offset
            if relocation.type in relocate.GOT_TYPES and got is not None:
                target = got.address + 8 * link.got[relocation.symbol]
            elif relocation.type == relocate.R_ABS64 and allocated:
                continue  # a load-time relocation carries the addend itself
            else:
                target = link.address(symbols[relocation.symbol])
            relocate.apply(out.data, at, out.address + at, relocation, target)


def _fill_dynsym(link: _Link, dynsym: OutputSection) -> None:
    for number, symbol in enumerate(link.exported, start=1):
        place = link.places.get(symbol.section)
        section = elf.SHN_ABS if place is None else place[0].index
        at = number * elf.SYMBOL.size
        dynsym.data[at + 6 : at + 8] = section.to_bytes(2, "little")
        dynsym.data[at + 8 : at + 16] = link.address(symbol).to_bytes(8, "little")


def _fill_dynamic(
    dynamic: OutputSection,
    tables: dict[str, OutputSection],
    rela: OutputSection | None,
    relative: int,
) -> None:
    entries: list[tuple[int, int]] = []
    if rela is not None:
        entries += [(7, rela.address), (8, rela.size), (9, elf.RELA.size)]
        if relative:
            entries.append((0x6FFFFFF9, relative))
    entries += [
        (6, tables["dynsym"].address),
        (11, elf.SYMBOL.size),
        (5, tables["dynstr"].address),
        (10, tables["dynstr"].size),
        (0x6FFFFEF5, tables["gnu"].address),
        (4, tables["sysv"].address),
        (0, 0),
    ]
    dynamic.data = bytearray(b"".join(elf.DYNAMIC.pack(*entry) for entry in entries))


def _symbol_table(link: _Link, dynamic: OutputSection) -> tuple[OutputSection, OutputSection]:
    """Return ``.symtab`` and ``.strtab``: locals, hidden definitions made local, then the rest."""
    names = StringTable()
    kept = []
    for symbol in link.obj.symbols[1:]:
        place = link.places.get(symbol.section)
        if symbol.type == elf.STT_SECTION or symbol.section == elf.SHN_UNDEF:
            continue
        if symbol.name.startswith(".L") and symbol.bind == elf.STB_LOCAL:
            continue
        if place is None and symbol.section != elf.SHN_ABS:
            continue
        local = symbol.bind == elf.STB_LOCAL or not symbol.exported
        section = elf.SHN_ABS if place is None else place[0].index
        info = symbol.type if local else symbol.bind << 4 | symbol.type
        entry = elf.SYMBOL.pack(
            names.add(symbol.name), info, symbol.visibility, section,
            link.address(symbol), symbol.size,
        )  # fmt: skip
        kept.append((not local, entry))
    entry = elf.SYMBOL.pack(
        names.add("_DYNAMIC"), 0, elf.STV_HIDDEN, dynamic.index, dynamic.address, 0
    )
    kept.append((False, entry))
    kept.sort(key=lambda item: item[0])
    symtab = OutputSection(".symtab", elf.SHT_SYMTAB, 0, 8, elf.SYMBOL.size)
    symtab.info = 1 + sum(not is_global for is_global, _ in kept)
    body = bytes(elf.SYMBOL.size) + b"".join(entry for _, entry in kept)
    symtab.append(body, len(body), 8)
    strtab = OutputSection(".strtab", elf.SHT_STRTAB, 0, 1)
    strtab.append(bytes(names.data), len(names.data), 1)
    symtab.link = strtab
    return symtab, strtab


def _place(link: _Link) -> tuple[list[OutputSection], Layout, int]:
    ordered = memory_order(link.outputs)
    for index, section in enumerate(ordered, start=1):
        section.index = index
    segment_count = 1
    previous: tuple[int, bool] = (0, False)
    for section in ordered:
        if section.flags & elf.SHF_ALLOC:
            key = (section.flags & (elf.SHF_WRITE | elf.SHF_EXECINSTR), section.relro)
            segment_count += key != previous
            previous = key
    notes = any(s.type == elf.SHT_NOTE for s in ordered)
    headers = segment_count + 4 + int(notes)
    layout = assign_addresses(ordered, elf.HEADER.size + headers * elf.PROGRAM_HEADER.size)
    return ordered, layout, headers


def link_object(data: bytes) -> bytes:
    """Link one relocatable object into a code object.

    Args:
        data: What LLVM's AMDGPU back end emitted for triple ``amdgcn-amd-amdhsa``.

    Returns:
        The code object, ready for a device runtime to load.

    Raises:
        TargetError: The object refers to symbols that it does not define (all are named).
        CompilerBug: The object uses something a kernel module never should.
    """
    obj = read_elf(data)
    if obj.type != elf.ET_REL:
        raise CompilerBug("the linker was given a file that is not relocatable", code="FLY-B604")
    _check_symbols(obj)
    outputs, places = gather(obj)
    link = _Link(obj, outputs, places)
    _scan(link)
    tables = _build_symbol_tables(link)
    rela = got = None
    relocation_count = len(link.absolute) + len(link.got)
    if relocation_count:
        rela = link.synthetic(".rela.dyn", elf.SHT_RELA, elf.SHF_ALLOC, 8)
        rela.entry_size, rela.link = elf.RELA.size, tables["dynsym"]
        rela.append(b"", relocation_count * elf.RELA.size, 8)
    writable = elf.SHF_WRITE | elf.SHF_ALLOC
    dynamic = link.synthetic(".dynamic", elf.SHT_DYNAMIC, writable, 8)
    dynamic.entry_size, dynamic.link = elf.DYNAMIC.size, tables["dynstr"]
    relative = sum(not obj.symbols[i].preemptible for _, _, i, _ in link.absolute)
    relative += sum(not obj.symbols[i].preemptible for i in link.got)
    entries = 7 + (3 if relocation_count else 0) + (1 if relative else 0)
    dynamic.append(b"", entries * elf.DYNAMIC.size, 8)
    if link.got:
        got = link.synthetic(".got", elf.SHT_PROGBITS, writable, 8)
        got.append(bytes(8 * len(link.got)), 8 * len(link.got), 8)
    link.synthetic(".relro_padding", elf.SHT_NOBITS, writable, 1)

    ordered, layout, header_count = _place(link)
    _apply_all(link, got)
    if rela is not None:
        rela.data = bytearray(
            b"".join(
                elf.RELA.pack(place, number << 32 | kind, addend)
                for kind, number, place, addend in _dynamic_relocations(link, got)
            )
        )
    _fill_dynsym(link, tables["dynsym"])
    _fill_dynamic(dynamic, tables, rela, relative)
    symtab, strtab = _symbol_table(link, dynamic)
    headers = program_headers(layout, dynamic, header_count)
    return write_file(obj, [*ordered, symtab], strtab, headers)
