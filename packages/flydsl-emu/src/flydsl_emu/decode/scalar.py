"""SOP1, SOP2, SOPC, SOPK and SOPP encodings."""

from __future__ import annotations

from flydsl_emu.decode.instruction import Instruction, Operand
from flydsl_emu.decode.sources import LITERAL, fixed, immediate_literal, register, source
from flydsl_emu.decode.table import Entry

__all__ = ["decode_sop", "decode_sopk", "decode_sopp"]


def decode_sop(entry: Entry, word: int, following: int, pc: int) -> Instruction:
    """Decode a SOP1, SOP2 or SOPC instruction, with a literal where it says so."""
    operands = []
    size = 4
    for slot in entry.slots:
        if slot.field in ("ssrc0", "ssrc1"):
            code = word & 255 if slot.field == "ssrc0" else word >> 8 & 255
            if entry.name == "s_set_gpr_idx_on" and slot.field == "ssrc1":
                operands.append(Operand("k", 8, 1, code))
                continue
            if code == LITERAL:
                size = 8
                operands.append(Operand("l", 0, slot.count, following))
            else:
                operands.append(source(code, slot.count))
        elif slot.field == "sdst":
            operands.append(register("s", word >> 16 & 127, slot.count))
        else:
            operands.append(fixed(slot.kind, slot.count))
    return Instruction(pc, size, entry.format, entry.name, "", tuple(operands))


def decode_sopk(entry: Entry, word: int, following: int, pc: int) -> Instruction:
    """Decode an instruction with a 16-bit immediate."""
    value = (word & 0xFFFF ^ 0x8000) - 0x8000
    target = word >> 16 & 127
    if entry.name in ("s_getreg_b32", "s_setreg_b32", "s_setreg_imm32_b32"):
        mods = {"hwreg": word & 0xFFFF}
        if entry.name == "s_setreg_imm32_b32":
            literal = (immediate_literal(following),)
            return Instruction(pc, 8, "SOPK", entry.name, "", literal, mods)
        return Instruction(pc, 4, "SOPK", entry.name, "", (register("s", target, 1),), mods)
    if entry.name == "s_call_b64":
        operands = (register("s", target, 2), Operand("i", 0, 1, word & 0xFFFF))
        return Instruction(pc, 4, "SOPK", entry.name, "", operands, {}, pc + 4 + 4 * value)
    operands = (register("s", target, 1), Operand("k", 16, 1, value))
    return Instruction(pc, 4, "SOPK", entry.name, "", operands)


def decode_sopp(entry: Entry, word: int, pc: int) -> Instruction:
    """Decode a program-control instruction; the immediate is the modifier ``simm16``."""
    value = word & 0xFFFF
    target = None
    if entry.name.startswith(("s_cbranch_", "s_branch")):
        target = pc + 4 + 4 * ((value ^ 0x8000) - 0x8000)
    return Instruction(pc, 4, "SOPP", entry.name, "", (), {"simm16": value}, target)
