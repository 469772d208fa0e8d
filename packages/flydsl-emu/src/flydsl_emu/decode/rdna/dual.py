"""Dual instructions: two operations that issue together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flydsl_emu.decode.instruction import VCC, Instruction, Operand
from flydsl_emu.decode.rdna.forms import NO_MODS, Form
from flydsl_emu.decode.rdna.operands import sources, vectors
from flydsl_emu.decode.rdna.vector import LITERAL, literal

__all__ = ["decode_dual"]

_VCC = Operand("s", VCC, 1)


def decode_dual(
    tables: Mapping[str, Mapping[int, Form]], words: Sequence[int], at: int, pc: int, isa: str
) -> Instruction:
    """Decode the VOPD instruction at ``words[at]``."""
    word, second = words[at], words[at + 1]
    first, other = tables["VOPDX"][word >> 22 & 15], tables["VOPDY"][word >> 17 & 31]
    to_x = second >> 24
    to_y = (second >> 17 & 127) << 1 | (~to_x & 1)
    extra = words[at + 2]
    x = _half(first, word, to_x, extra, pc, isa)
    y = _half(other, second, to_y, extra, pc, isa)
    size = 8
    if first.literal or other.literal or word & 511 == LITERAL or second & 511 == LITERAL:
        size = 12
    operands = x.operands + y.operands
    return Instruction(pc, size, "VOPD", first.name, "", operands, NO_MODS, None, (x, y), isa)


def _half(form: Form, word: int, target: int, extra: int, pc: int, isa: str) -> Instruction:
    operands = []
    for slot in form.slots:
        if slot.field == "vdst":
            operands.append(vectors(1)[target])
        elif slot.field == "lit" or (slot.field == "src0" and word & 511 == LITERAL):
            operands.append(literal(slot, extra))
        elif slot.field == "src0":
            operands.append(sources(slot.kind, slot.count)[word & 511])
        else:
            operands.append(vectors(slot.count)[word >> 9 & 255])
    name = "v_" + form.name.removeprefix("v_dual_")
    if name == "v_cndmask_b32":
        operands.append(_VCC)
    kind = "VOP1" if len(form.slots) == 2 else "VOP2"
    encoding = "" if form.literal else "e32"
    return Instruction(pc, 0, kind, name, encoding, tuple(operands), NO_MODS, None, (), isa)
