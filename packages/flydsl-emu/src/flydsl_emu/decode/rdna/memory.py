"""DS, FLAT, GLOBAL, SCRATCH and buffer encodings.

Formats keep the names they have on gfx9: ``FLAT0`` flat, ``FLAT1`` scratch, ``FLAT2`` global,
``MUBUF`` buffers. Cache policies are the modifiers ``glc``, ``slc``, ``dlc`` on gfx11 and ``th``
(temporal hint, 0 to 7) and ``scope`` (0 to 3) later; an atomic returns its old value when it has
``glc``, or an odd ``th``, and then has a destination.
"""

from __future__ import annotations

from collections.abc import Sequence

from flydsl_emu.decode.instruction import Instruction, Operand
from flydsl_emu.decode.rdna.forms import NO_MODS, Form
from flydsl_emu.decode.rdna.operands import scalars, sources, vectors
from flydsl_emu.decode.sources import OFF
from flydsl_emu.decode.table import Slot

__all__ = [
    "decode_buffer_11",
    "decode_buffer_12",
    "decode_ds",
    "decode_flat_11",
    "decode_flat_12",
    "decode_tensor",
]

_NULL = 124
_DOUBLE_OFFSETS = ("_2addr", "_storexchg_2")


def decode_ds(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode an LDS instruction at ``words[at]``."""
    word = words[at]
    bits = word | words[at + 1] << 32
    operands = tuple([table[bits >> shift & mask] for table, shift, mask in form.plan])
    offset = word & 0xFFFF
    if not word & 0x2FFFF:
        return Instruction(pc, 8, "DS", form.name, "", operands, NO_MODS, None, (), isa)
    mods = {}
    if "2addr" in form.name:
        if offset & 255:
            mods["offset0"] = offset & 255
        if offset >> 8:
            mods["offset1"] = offset >> 8
    elif offset:
        mods["offset"] = offset
    if word >> 17 & 1:
        mods["gds"] = 1
    return Instruction(pc, 8, "DS", form.name, "", operands, mods, None, (), isa)


def decode_flat_11(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode a flat, scratch or global instruction of gfx11 at ``words[at]``."""
    word, second = words[at], words[at + 1]
    mods: dict[str, int] = {}
    offset = word & 0x1FFF
    if form.entry.format != "FLAT0":
        offset = (offset ^ 0x1000) - 0x1000
    if offset:
        mods["offset"] = offset
    for bit, name in ((14, "glc"), (15, "slc"), (13, "dlc")):
        if word >> bit & 1:
            mods[name] = 1
    scratch = second >> 23 & 1
    fields = (second >> 24, second & 255, second >> 8 & 255, second >> 16 & 127)
    operands = _flat_operands(form, fields, bool(scratch), word >> 14 & 1)
    return Instruction(pc, 8, form.entry.format, form.name, "", operands, mods, None, (), isa)


def decode_flat_12(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode a flat, scratch or global instruction of gfx12 at ``words[at]``."""
    word, second, third = words[at], words[at + 1], words[at + 2]
    mods: dict[str, int] = {}
    offset = (third >> 8 ^ 0x800000) - 0x800000
    if offset and form.slots:
        mods["offset"] = offset
    if second >> 16 & 1:
        mods["scale_offset"] = 1
    _policy(mods, second, word)
    fields = (second & 255, third & 255, second >> 23 & 255, word & 127)
    operands = _flat_operands(form, fields, bool(second >> 17 & 1), second >> 20 & 1)
    return Instruction(pc, 12, form.entry.format, form.name, "", operands, mods, None, (), isa)


def _policy(mods: dict[str, int], second: int, word: int) -> None:
    if second >> 20 & 7:
        mods["th"] = second >> 20 & 7
    if second >> 18 & 3:
        mods["scope"] = second >> 18 & 3
    if word >> 7 & 1:
        mods["nv"] = 1


def _flat_operands(
    form: Form, fields: tuple[int, int, int, int], scratch_address: bool, returns: int
) -> tuple[Operand, ...]:
    """Return operands from the fields destination, address, data and scalar address."""
    target, address, data, scalar = fields
    kind = form.entry.format
    has_scalar = scalar != _NULL
    operands = []
    present = set()
    for slot in form.slots:
        present.add(slot.field)
        if slot.field == "addr":
            if kind == "FLAT1":
                operands.append(vectors(1)[address] if scratch_address else OFF)
            else:
                operands.append(vectors(1 if has_scalar else 2)[address])
        elif slot.field == "saddr":
            absent = not has_scalar and form.name != "tensor_save"
            operands.append(OFF if absent else scalars(slot.count)[scalar])
        else:
            number = data if slot.field == "data" else target
            operands.append(vectors(slot.count)[number])
    if kind == "FLAT0" and has_scalar and form.slots:
        operands.append(scalars(2)[scalar])
    if returns and "atomic" in form.name and "vdst" not in present:
        operands.insert(0, vectors(_returned(form.slots, form.name))[target])
    return tuple(operands)


def _returned(slots: Sequence[Slot], name: str) -> int:
    """Registers of an atomic's old value; a compare-and-swap has two values as data."""
    count = next(s.count for s in slots if s.field in ("data", "vdata"))
    return count // 2 if "cmpswap" in name else count


def decode_buffer_11(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode an untyped buffer instruction of gfx11 at ``words[at]``."""
    word, second = words[at], words[at + 1]
    if not form.slots:
        return Instruction(pc, 8, "MUBUF", form.name, "", (), NO_MODS, None, (), isa)
    offset_enabled, index_enabled = second >> 22 & 1, second >> 23 & 1
    mods: dict[str, int] = {}
    if offset_enabled:
        mods["offen"] = 1
    if index_enabled:
        mods["idxen"] = 1
    if word & 0xFFF:
        mods["offset"] = word & 0xFFF
    for bit, name in ((14, "glc"), (12, "slc"), (13, "dlc")):
        if word >> bit & 1:
            mods[name] = 1
    if second >> 21 & 1:
        mods["tfe"] = 1
    fields = (second >> 8 & 255, second & 255, (second >> 16 & 31) * 4)
    soffset = second >> 24
    operands = _buffer_operands(form, fields, soffset, mods)
    return Instruction(pc, 8, "MUBUF", form.name, "", operands, mods, None, (), isa)


def decode_buffer_12(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode an untyped buffer instruction of gfx12 at ``words[at]``."""
    word, second, third = words[at], words[at + 1], words[at + 2]
    mods: dict[str, int] = {}
    if second >> 30 & 1:
        mods["offen"] = 1
    if second >> 31:
        mods["idxen"] = 1
    offset = (third >> 8 ^ 0x800000) - 0x800000
    if offset:
        mods["offset"] = offset
    _policy(mods, second, word)
    if word >> 22 & 1:
        mods["tfe"] = 1
    fields = (second & 255, third & 255, second >> 9 & 511)
    operands = _buffer_operands(form, fields, word & 127, mods)
    return Instruction(pc, 12, "MUBUF", form.name, "", operands, mods, None, (), isa)


def decode_tensor(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode a tensor transfer of gfx1250: of two or of four descriptor groups."""
    word, second, third = words[at], words[at + 1], words[at + 2]
    mods: dict[str, int] = {}
    if word >> 4 & 1:
        mods["r128"] = 1
    _policy(mods, second, word)
    groups = [third >> shift & 255 for shift in (0, 8, 16, 24)]
    if groups[2] == groups[3] == _NULL:
        groups = groups[:2]
    operands = tuple(
        scalars(slot.count)[group] for slot, group in zip(form.slots, groups, strict=False)
    )
    return Instruction(pc, 12, "TENSOR", form.name, "", operands, mods, None, (), isa)


def _buffer_operands(
    form: Form, fields: tuple[int, int, int], soffset: int, mods: dict[str, int]
) -> tuple[Operand, ...]:
    data, address, resource = fields
    operands = []
    for slot in form.slots:
        if slot.field == "vdata":
            operands.append(vectors(slot.count + mods.get("tfe", 0))[data])
        elif slot.field == "vaddr":
            count = mods.get("offen", 0) + mods.get("idxen", 0)
            operands.append(vectors(count)[address] if count else OFF)
        elif slot.field == "srsrc":
            operands.append(scalars(4)[resource])
        else:
            operands.append(sources("s", 1)[soffset])
    return tuple(operands)
