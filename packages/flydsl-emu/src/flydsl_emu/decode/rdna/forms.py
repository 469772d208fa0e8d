"""Opcodes prepared for decoding: where each operand's bits are and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from flydsl_emu.decode.instruction import Operand
from flydsl_emu.decode.rdna.layout import layouts
from flydsl_emu.decode.rdna.operands import (
    fixed,
    halves,
    packed_halves,
    scalars,
    sources,
    vectors,
)
from flydsl_emu.decode.table import Entry, Slot, load_table

__all__ = ["NO_MODS", "Form", "load_forms", "slot_table"]

NO_MODS: Mapping[str, int] = MappingProxyType({})
Table = Mapping[int, Operand]

_DUAL_FIELDS = {
    "VOPDX": {"vdst": (56, 8), "src0": (0, 9), "vsrc1": (9, 8)},
    "VOPDY": {"vdst": (49, 7), "src0": (32, 9), "vsrc1": (41, 8)},
    "VOPD3X": {},
    "VOPD3Y": {},
}
_SHORT = ("VOP1", "VOP2", "VOPC")


@dataclass(frozen=True, slots=True)
class Form:
    """One opcode.

    Attributes:
        entry: Its line of the decode table.
        name: Mnemonic.
        encoding: Encoding suffix.
        slots: Its operands.
        plan: Per operand: table, shift and mask of the field within the instruction.
        literal: Whether a literal always follows.
    """

    entry: Entry
    name: str
    encoding: str
    slots: tuple[Slot, ...]
    plan: tuple[tuple[Table, int, int], ...]
    literal: bool


def slot_table(form: str, slot: Slot, negate: bool = False, absolute: bool = False) -> Table:
    """Return the table of a slot; 16-bit operands of long encodings name low halves."""
    short = form in _SHORT
    kind, count = slot.kind, slot.count
    if slot.field == "=":
        return fixed(kind, count)
    if slot.field.startswith(("src", "ssrc")) or slot.field == "soff":
        return sources(kind, count, "packed" if short else "low", negate, absolute)
    if kind == "h":
        if short:
            return packed_halves(negate, absolute)
        return halves(False, negate, absolute)
    if kind == "s":
        return scalars(count)
    return vectors(count, negate, absolute)


@cache
def load_forms(arch: str, isa: str) -> Mapping[str, Mapping[int, Form]]:
    """Return the prepared opcodes of `arch` by format and opcode."""
    table = load_table(arch)
    places = {name: layout.fields for name, layout in layouts(isa).items()} | _DUAL_FIELDS
    return {
        form: {opcode: _form(form, places[form], entry) for opcode, entry in entries.items()}
        for form, entries in table.items()
    }


def _form(form: str, places: Mapping[str, tuple[int, int]], entry: Entry) -> Form:
    plan = []
    for slot in entry.slots:
        if slot.field in ("lit", "imm") or slot.kind == "m":
            continue
        shift, width = places.get(slot.field, (0, 0))
        plan.append((slot_table(form, slot), shift, (1 << width) - 1))
    return Form(
        entry,
        entry.name,
        entry.encoding,
        entry.slots,
        tuple(plan),
        any(s.field == "lit" for s in entry.slots),
    )
