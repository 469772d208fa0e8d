"""SOP1, SOP2, SOPC, SOPK, SOPP and SMEM encodings."""

from __future__ import annotations

from collections.abc import Sequence

from flydsl_emu.decode.instruction import NULL, Instruction, Operand
from flydsl_emu.decode.rdna.forms import NO_MODS, Form, slot_table
from flydsl_emu.decode.rdna.operands import scalars
from flydsl_emu.decode.rdna.vector import LITERAL, WIDE_LITERAL, literal, wide_literal
from flydsl_emu.decode.sources import immediate_literal

__all__ = ["decode_smem", "decode_sop", "decode_sopk", "decode_sopp"]

# The greatest integer that prints in decimal.
_INLINE = 64


def decode_sop(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode a SOP1, SOP2 or SOPC instruction at ``words[at]``."""
    word = words[at]
    kind = form.entry.format
    if not form.literal:
        try:
            operands = tuple([table[word >> shift & mask] for table, shift, mask in form.plan])
        except KeyError:
            pass
        else:
            if len(operands) == len(form.slots):
                return Instruction(pc, 4, kind, form.name, "", operands, NO_MODS, None, (), isa)
    return _sop_extended(form, words, at, pc, isa)


def _sop_extended(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode a scalar instruction with a literal or a message number."""
    word, following = words[at], words[at + 1]
    size = 4
    operands = []
    mods = NO_MODS
    for slot in form.slots:
        code = word & 255 if slot.field == "ssrc0" else word >> 8 & 255
        if slot.kind == "m":
            mods = {"message": word & 255}
        elif slot.field == "lit" or (slot.field in ("ssrc0", "ssrc1") and code == LITERAL):
            operands.append(literal(slot, following, form.name))
            size = 8
        elif slot.field in ("ssrc0", "ssrc1") and code == WIDE_LITERAL and isa == "gfx1250":
            operands.append(wide_literal(slot, following, words[at + 2], form.name))
            size = 12
        elif slot.field == "sdst":
            operands.append(scalars(slot.count)[word >> 16 & 127])
        else:
            table = slot_table(form.entry.format, slot)
            operands.append(table[0 if slot.field == "=" else code])
    kind = form.entry.format
    return Instruction(pc, size, kind, form.name, "", tuple(operands), mods, None, (), isa)


def decode_sopk(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode an instruction with a 16-bit immediate."""
    word = words[at]
    value = (word & 0xFFFF ^ 0x8000) - 0x8000
    size = 4
    target = None
    mods = NO_MODS
    operands = []
    for slot in form.slots:
        if slot.field == "sdst":
            operands.append(scalars(slot.count)[word >> 16 & 127])
        elif slot.field == "lit":
            operands.append(immediate_literal(words[at + 1]))
            size = 8
        elif slot.kind == "r":
            mods = {"hwreg": word & 0xFFFF}
        elif slot.kind == "x":
            operands.append(Operand("k", 16, 1, value))
        else:
            operands.append(Operand("i", 0, 1, word & 0xFFFF))
            target = pc + 4 + 4 * value
    return Instruction(pc, size, "SOPK", form.name, "", tuple(operands), mods, target, (), isa)


def decode_sopp(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode a program-control instruction; the immediate is the modifier ``simm16``."""
    value = words[at] & 0xFFFF
    target = None
    if form.name.startswith(("s_cbranch_", "s_branch")):
        target = pc + 4 + 4 * ((value ^ 0x8000) - 0x8000)
    return Instruction(pc, 4, "SOPP", form.name, "", (), {"simm16": value}, target, (), isa)


def decode_smem(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode a scalar memory instruction at ``words[at]``."""
    word, second = words[at], words[at + 1]
    first = isa == "gfx11"
    bits = 21 if first else 24
    sign = 1 << bits - 1
    offset = (second & (2 * sign - 1) ^ sign) - sign
    register = scalars(1)[second >> 25]
    prefetch = "prefetch" in form.name
    operands = []
    mods: dict[str, int] = {}
    for slot in form.slots:
        if slot.field == "sdata":
            code = word >> 6 & 127
            if slot.kind == "k":
                operands.append(Operand("k" if code > _INLINE else "i", 0, 1, code))
            else:
                operands.append(scalars(slot.count)[code])
        elif slot.field == "sbase":
            operands.append(scalars(slot.count)[(word & 63) * 2])
        elif slot.field == "imm":
            operands.append(Operand("k", 0, 1, offset))
        elif register.index != NULL or prefetch or (first and not offset):
            operands.append(register)
            if not prefetch and (offset or not first):
                mods["offset"] = offset
        else:
            operands.append(Operand("k", 0, 1, offset))
    if first:
        flags = ((14, "glc"), (13, "dlc"))
        mods.update({name: 1 for bit, name in flags if word >> bit & 1})
    elif form.slots and not prefetch and "probe" not in form.name:
        _cache_policy(mods, word >> 23 & 3, word >> 21 & 3)
        if word >> 20 & 1:
            mods["nv"] = 1
    return Instruction(pc, 8, "SMEM", form.name, "", tuple(operands), mods, None, (), isa)


def _cache_policy(mods: dict[str, int], temporal: int, scope: int) -> None:
    if temporal:
        mods["th"] = temporal
    if scope:
        mods["scope"] = scope
