"""VOP1, VOP2, VOPC and VOP3 encodings with literals and DPP words."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from flydsl_emu.decode.instruction import Instruction, Operand
from flydsl_emu.decode.literals import could_be_inline
from flydsl_emu.decode.rdna.forms import NO_MODS, Form, slot_table
from flydsl_emu.decode.rdna.operands import halves, sources
from flydsl_emu.decode.sources import FLOATS
from flydsl_emu.decode.table import Slot

__all__ = ["DPP_CODES", "decode_short", "decode_vop3", "dpp_modifiers", "literal", "wide_literal"]

LITERAL = 255
WIDE_LITERAL = 254
DPP8, DPP8_FI, DPP16 = 233, 234, 250
# Conversions whose source is the byte that two bits of op_sel number, high bit first.
_BYTE_SOURCES = ("v_cvt_f32_fp8", "v_cvt_f32_bf8", "v_cvt_f16_fp8", "v_cvt_f16_bf8")
# Conversions that write the byte that the two high bits of op_sel number.
_BYTE_RESULTS = (
    "v_cvt_sr_fp8_f32",
    "v_cvt_sr_bf8_f32",
    "v_cvt_sr_fp8_f16",
    "v_cvt_sr_bf8_f16",
)
# 64-bit values that are inline constants too: -16 to -1, and numbers by their high 32 bits.
_LEAST_INTEGER = (1 << 64) - 16
_DOUBLES = {int.from_bytes(struct.pack(">d", n)) >> 32: n for n in FLOATS.values() if n % 0.5 == 0}
# Operations on pairs of 16-bit numbers.
_PACKED = ("v_pk_", "v_dot2_f32", "v_dual_dot2acc", "v_dot2acc")
DPP_CODES = (DPP8, DPP8_FI, DPP16)


def literal(slot: Slot, value: int, name: str) -> Operand:
    """Return the 32-bit literal of a slot of an opcode; 16-bit operands print its low half."""
    style = slot.kind[1:]
    kind = "b32"
    if style == "f":
        kind = "f16"
    elif "_f64" in name and slot.count == 2:
        kind = "f64"
    elif name.startswith(_PACKED) and name.endswith("f16"):
        kind = "packed f16"
    if style == "x":
        signed = (value ^ 0x80000000) - 0x80000000
        if -16 <= signed <= 64:
            return Operand("i", 0, slot.count, signed)
        return Operand("l", 0, slot.count, value)
    count = 1 if style == "w" else slot.count
    if slot.field != "lit" and could_be_inline(value, count, kind):
        return Operand("l", 1, slot.count, value)
    return Operand("l", 16 if style in ("f", "i") else 0, slot.count, value)


def wide_literal(slot: Slot, low: int, high: int, name: str) -> Operand:
    """Return the 64-bit literal of a slot; one that a shorter form could give prints as that.

    Raises:
        KeyError: The operand is not 64 bits wide.
    """
    if slot.count != 2:
        raise KeyError(f"reserved source encoding {WIDE_LITERAL}")
    value = low | high << 32
    if value >= _LEAST_INTEGER:
        return Operand("i", 0, 2, value - (1 << 64))
    if not low and high in _DOUBLES:
        return Operand("f", 0, 2, _DOUBLES[high])
    if not low and "_f64" in name:
        return Operand("l", 0, 2, high)
    return Operand("q", int(not high), 2, value)


def dpp_modifiers(code: int, word: int) -> dict[str, int]:
    """Return the modifiers that the DPP word of an instruction holds."""
    if code != DPP16:
        mods = {"dpp8": word >> 8}
        if code == DPP8_FI:
            mods["fi"] = 1
        return mods
    mods = {
        "dpp_ctrl": word >> 8 & 511,
        "row_mask": word >> 28,
        "bank_mask": word >> 24 & 15,
    }
    if word >> 19 & 1:
        mods["bound_ctrl"] = 1
    if word >> 18 & 1:
        mods["fi"] = 1
    return mods


def decode_short(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode a VOP1, VOP2 or VOPC instruction at ``words[at]``."""
    word = words[at]
    if form.literal:
        return _with_literal(form, words, at, pc, isa)
    try:
        operands = tuple([table[word >> shift & mask] for table, shift, mask in form.plan])
    except KeyError:
        if word & 511 == WIDE_LITERAL and isa == "gfx1250":
            return _short_wide(form, words, at, pc, isa)
        return _short_extended(form, word, words[at + 1], pc, isa)
    kind = form.entry.format
    return Instruction(pc, 4, kind, form.name, form.encoding, operands, NO_MODS, None, (), isa)


def _with_literal(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode a multiply-add whose literal is an operand of its own."""
    word, following = words[at], words[at + 1]
    size = 8
    places = {"src0": (0, 511), "vsrc1": (9, 255), "vdst": (17, 255)}
    operands = []
    kind = form.entry.format
    for slot in form.slots:
        if slot.kind == "q":
            high = words[at + 2]
            value = following | high << 32
            short = Operand("l", 0, 2, high)
            operands.append(Operand("q", int(not high), 2, value) if following else short)
            size = 12
        elif slot.field == "lit" or (slot.field == "src0" and word & 511 == LITERAL):
            operands.append(literal(slot, following, form.name))
        else:
            shift, mask = places[slot.field]
            operands.append(slot_table(kind, slot)[word >> shift & mask])
    return Instruction(
        pc, size, kind, form.name, form.encoding, tuple(operands), NO_MODS, None, (), isa
    )


def _short_extended(form: Form, word: int, following: int, pc: int, isa: str) -> Instruction:
    """Decode a short instruction whose first source is a literal or goes through DPP."""
    code = word & 511
    kind = form.entry.format
    operands = []
    for slot, (table, shift, mask) in zip(form.slots, form.plan, strict=True):
        if slot.field == "src0" and code == LITERAL:
            operands.append(literal(slot, following, form.name))
        elif slot.field == "src0":
            operands.append(_through_dpp(kind, slot, code, following))
        elif slot.field == "vsrc1" and code == DPP16 and following >> 22 & 3:
            signs = bool(following >> 22 & 1), bool(following >> 23 & 1)
            operands.append(slot_table(kind, slot, *signs)[word >> shift & mask])
        else:
            operands.append(table[word >> shift & mask])
    if code == LITERAL:
        return Instruction(
            pc, 8, kind, form.name, form.encoding, tuple(operands), NO_MODS, None, (), isa
        )
    mods = dpp_modifiers(code, following)
    return Instruction(pc, 8, kind, form.name, "dpp", tuple(operands), mods, None, (), isa)


def _short_wide(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode a short instruction whose first source is a 64-bit literal."""
    word = words[at]
    operands = [
        wide_literal(slot, words[at + 1], words[at + 2], form.name)
        if slot.field == "src0"
        else table[word >> shift & mask]
        for slot, (table, shift, mask) in zip(form.slots, form.plan, strict=True)
    ]
    kind = form.entry.format
    return Instruction(
        pc, 12, kind, form.name, form.encoding, tuple(operands), NO_MODS, None, (), isa
    )


def _through_dpp(kind: str, slot: Slot, code: int, following: int) -> Operand:
    if code not in DPP_CODES:
        raise KeyError(f"reserved source encoding {code}")
    negate = absolute = False
    if code == DPP16:
        negate, absolute = bool(following >> 20 & 1), bool(following >> 21 & 1)
    return slot_table(kind, slot, negate, absolute)[256 + (following & 255)]


def decode_vop3(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode a VOP3 instruction (with or without a scalar destination) at ``words[at]``."""
    word, second = words[at], words[at + 1]
    if not form.slots:
        return Instruction(pc, 8, "VOP3", form.name, form.encoding, (), NO_MODS, None, (), isa)
    if not (second >> 27 or word & 0x8000):
        scalar = form.slots[1:] and form.slots[1].field == "sdst"
        if scalar or not word & 0x7F00:
            bits = word | second << 32
            try:
                operands = tuple([table[bits >> s & mask] for table, s, mask in form.plan])
            except KeyError:
                pass
            else:
                return Instruction(
                    pc, 8, "VOP3", form.name, form.encoding, operands, NO_MODS, None, (), isa
                )
    return _vop3_modified(form, words, at, pc, isa)


def _vop3_modified(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    word, second = words[at], words[at + 1]
    extra = words[at + 2]
    scalar = any(s.field == "sdst" for s in form.slots)
    bitop = form.name.startswith("v_bitop3")
    negates = 0 if bitop else second >> 29
    absolutes = 0 if bitop or scalar else word >> 8 & 7
    select = 0 if scalar else word >> 11 & 15
    size = 8
    dpp = NO_MODS
    encoding = form.encoding
    operands = []
    for slot, (table, shift, mask) in zip(form.slots, form.plan, strict=True):
        bits = (word | second << 32) >> shift & mask
        if slot.field[:3] != "src":
            operands.append((halves(bool(select >> 3)) if slot.kind == "h" else table)[bits])
            continue
        at_source = int(slot.field[3])
        negate, absolute = bool(negates >> at_source & 1), bool(absolutes >> at_source & 1)
        if bits == LITERAL:
            operand = literal(slot, extra, form.name)
            if negate or absolute:
                operand = operand.modified(negate, absolute)
            operands.append(operand)
            size = 12
            continue
        if bits == WIDE_LITERAL and isa == "gfx1250":
            operand = wide_literal(slot, extra, words[at + 3], form.name)
            operands.append(operand.modified(negate, absolute) if negate or absolute else operand)
            size = 16
            continue
        if at_source == 0 and bits in DPP_CODES:
            dpp = dpp_modifiers(bits, extra)
            encoding = "e64_dpp"
            size = 12
            bits = 256 + (extra & 255)
        half = "high" if select >> at_source & 1 else "low"
        operands.append(sources(slot.kind, slot.count, half, negate, absolute)[bits])
    mods = _vop3_modifiers(word, second, select, form.name)
    mods.update(dpp)
    return Instruction(pc, size, "VOP3", form.name, encoding, tuple(operands), mods, None, (), isa)


def _vop3_modifiers(word: int, second: int, select: int, name: str) -> dict[str, int]:
    mods: dict[str, int] = {}
    if name.startswith("v_bitop3"):
        table = (second >> 27 & 3) << 6 | (word >> 8 & 7) << 3 | second >> 29
        if table:
            mods["bitop3"] = table
        if select:
            mods["op_sel"] = select
        return mods
    if select:
        _selections(mods, select, name)
    if word >> 15 & 1:
        mods["clamp"] = 1
    if second >> 27 & 3:
        mods["omod"] = second >> 27 & 3
    return mods


def _selections(mods: dict[str, int], select: int, name: str) -> None:
    """Add what the four bits of op_sel mean for an operation."""
    fields = {"op_sel": select}
    if name in _BYTE_SOURCES:
        fields = {"byte_sel": (select & 1) << 1 | select >> 1 & 1, "op_sel": select & 8}
    elif name in _BYTE_RESULTS:
        fields = {"byte_sel": select >> 2, "op_sel": select & 3}
    elif name.startswith("v_cvt_scale_pk"):
        fields = {"scale_sel": select}
    elif "_swap_b32" in name:
        fields = {"fi": select & 1, "bound_ctrl": select >> 1 & 1}
    mods.update({key: value for key, value in fields.items() if value})
