"""VOP3P encodings: packed arithmetic, mixed precision, dot products and wave matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.decode.rdna.forms import Form
from flydsl_emu.decode.rdna.vector import DPP_CODES, LITERAL, dpp_modifiers, literal

__all__ = ["decode_vop3p"]


def decode_vop3p(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode a VOP3P instruction at ``words[at]``."""
    word, second = words[at], words[at + 1]
    mix = "_mix" in form.name
    low, high = second >> 29, word >> 8 & 7
    size = 8
    encoding = form.encoding
    extended: dict[str, int] = {}
    operands = []
    count = 0
    for slot, (table, shift, mask) in zip(form.slots, form.plan, strict=True):
        bits = (word | second << 32) >> shift & mask
        if slot.field[:3] != "src":
            operands.append(table[bits])
            continue
        count += 1
        source = int(slot.field[3])
        if bits == LITERAL:
            operand = literal(slot, words[at + 2], form.name)
            size = 12
        else:
            if source == 0 and bits in DPP_CODES:
                extended = dpp_modifiers(bits, words[at + 2])
                encoding = "e64_dpp"
                size = 12
                bits = 256 + (words[at + 2] & 255)
            operand = table[bits]
        if mix and (low >> source & 1 or high >> source & 1):
            operand = operand.modified(bool(low >> source & 1), bool(high >> source & 1))
        operands.append(operand)
    mods = _modifiers(form.name, word, second, count)
    mods.update(extended)
    return Instruction(pc, size, "VOP3P", form.name, encoding, tuple(operands), mods, None, (), isa)


def _modifiers(name: str, word: int, second: int, count: int) -> dict[str, int]:
    every = (1 << count) - 1
    select = word >> 11 & every
    high = (second >> 27 & 3 | (word >> 14 & 1) << 2) & every
    mods: dict[str, int] = {}
    if select:
        mods["op_sel"] = select
    if "_mix" in name:
        if high:
            mods["op_sel_hi"] = high
    else:
        mods["op_sel_hi"] = high
        if second >> 29 & every:
            mods["neg_lo"] = second >> 29 & every
        if word >> 8 & every:
            mods["neg_hi"] = word >> 8 & every
    if word >> 15 & 1:
        mods["clamp"] = 1
    return mods
