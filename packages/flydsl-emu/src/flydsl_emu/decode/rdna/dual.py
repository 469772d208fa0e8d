"""Dual instructions: two operations that issue together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flydsl_emu.decode.instruction import VCC, Instruction, Operand
from flydsl_emu.decode.rdna.forms import NO_MODS, Form
from flydsl_emu.decode.rdna.operands import scalars, sources, vectors
from flydsl_emu.decode.rdna.vector import LITERAL, literal

__all__ = ["decode_dual", "decode_wide_dual"]

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


def decode_wide_dual(
    tables: Mapping[str, Mapping[int, Form]], words: Sequence[int], at: int, pc: int, isa: str
) -> Instruction:
    """Decode the 12-byte dual instruction of gfx1250 at ``words[at]``."""
    word, second, third = words[at], words[at + 1], words[at + 2]
    first, other = tables["VOPD3X"][word >> 18 & 63], tables["VOPD3Y"][word >> 12 & 63]
    fields_x = (word & 511, second >> 16 & 255, second >> 24, third & 255)
    fields_y = (second & 511, third >> 8 & 255, third >> 16 & 255, third >> 24)
    extra = words[at + 3]
    x = _wide_half(first, (fields_x, second >> 9 & 7, extra), pc, isa)
    y = _wide_half(other, (fields_y, second >> 12 & 7, extra), pc, isa)
    operands = x.operands + y.operands
    size = 16 if LITERAL in (fields_x[0], fields_y[0]) else 12
    return Instruction(pc, size, "VOPD3", first.name, "", operands, NO_MODS, None, (x, y), isa)


def _wide_half(
    form: Form, bits: tuple[tuple[int, int, int, int], int, int], pc: int, isa: str
) -> Instruction:
    """Decode one half from its fields (source 0, 1, 2, destination), negations and literal."""
    fields, negate, extra = bits
    operands = []
    for slot in form.slots:
        if slot.field == "vdst":
            operands.append(vectors(slot.count)[fields[3]])
        elif slot.field == "src0" and fields[0] == LITERAL:
            operand = literal(slot, extra, form.name)
            operands.append(operand.modified(True, False) if negate & 1 else operand)
        elif slot.field == "src0":
            operands.append(sources("v", slot.count, "", bool(negate & 1))[fields[0]])
        elif slot.field == "vsrc1":
            operands.append(vectors(slot.count, bool(negate >> 1 & 1))[fields[1]])
        elif slot.kind == "s":
            operands.append(scalars(slot.count)[fields[2]])
        else:
            operands.append(vectors(slot.count, bool(negate >> 2 & 1))[fields[2]])
    name = "v_" + form.name.removeprefix("v_dual_")
    mods = {"bitop3": fields[2]} if name == "v_bitop2_b32" and fields[2] else NO_MODS
    kind = {2: "VOP1", 3: "VOP2"}.get(len(form.slots), "VOP3")
    encoding = "e64" if kind == "VOP3" else "e32"
    return Instruction(pc, 0, kind, name, encoding, tuple(operands), mods, None, (), isa)


def _half(form: Form, word: int, target: int, extra: int, pc: int, isa: str) -> Instruction:
    operands = []
    for slot in form.slots:
        if slot.field == "vdst":
            operands.append(vectors(1)[target])
        elif slot.field == "lit" or (slot.field == "src0" and word & 511 == LITERAL):
            operands.append(literal(slot, extra, form.name))
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
