"""VOP1, VOP2, VOPC, VOP3 and VOP3P encodings, with their DPP and SDWA forms."""

from __future__ import annotations

from dataclasses import replace

from flydsl_emu.decode.instruction import Instruction, Operand
from flydsl_emu.decode.sources import LITERAL, fixed, register, source
from flydsl_emu.decode.table import Entry

__all__ = ["decode_vop3", "decode_vop3p", "decode_vop_short"]

_SDWA = 249
_DPP = 250
# Registers that hold the A or B matrix of an f8f6f4 MFMA, by element format (cbsz, blgp).
_F8F6F4_REGISTERS = (8, 8, 6, 6, 4, 8, 8, 8)


def decode_vop_short(entry: Entry, word: int, following: int, pc: int) -> Instruction:
    """Decode a 32-bit VOP1, VOP2 or VOPC instruction, extended by one dword where it says so."""
    code = word & 511
    if not entry.slots:
        return Instruction(pc, 4, entry.format, entry.name, entry.encoding, ())
    if code == _SDWA:
        return _sdwa(entry, word, following, pc)
    if code == _DPP:
        return _dpp(entry, word, following, pc)
    operands = []
    size = 4
    second = 9 if entry.format != "VOP1" else 0
    for slot in entry.slots:
        name = slot.field
        if name == "src0":
            if code == LITERAL:
                size = 8
                operands.append(Operand("l", 0, slot.count, following))
            elif slot.kind == "a" and code >= 256:
                operands.append(register("a", code - 256, slot.count))
            else:
                operands.append(source(code, slot.count))
        elif name == "vsrc1":
            operands.append(register(slot.kind, word >> second & 255, slot.count))
        elif name == "vdst":
            operands.append(register(slot.kind, word >> 17 & 255, slot.count))
        elif name == "lit":
            size = 8
            operands.append(Operand("l", 0, 1, following))
        else:
            operands.append(fixed(slot.kind, slot.count))
    return Instruction(pc, size, entry.format, entry.name, entry.encoding, tuple(operands))


def _sdwa(entry: Entry, word: int, extra: int, pc: int) -> Instruction:
    operands = []
    mods: dict[str, int] = {}
    compare = entry.format == "VOPC"
    has_second = False
    has_first = False
    for slot in entry.slots:
        if slot.field == "src0":
            has_first = True
            first = extra & 255
            op = source(first if extra >> 23 & 1 else first + 256, slot.count)
            operands.append(_sdwa_modified(op, extra >> 19))
        elif slot.field == "vsrc1":
            has_second = True
            index = word >> 9 & 255
            op = source(index if extra >> 31 else index + 256, slot.count)
            operands.append(_sdwa_modified(op, extra >> 27))
        elif slot.field == "vdst":
            operands.append(register(slot.kind, word >> 17 & 255, slot.count))
        elif compare and slot.kind == "vcc" and extra >> 15 & 1:
            operands.append(register("s", extra >> 8 & 127, slot.count))
        else:
            operands.append(fixed(slot.kind, slot.count))
    if not compare:
        mods["dst_sel"] = extra >> 8 & 7
        mods["dst_unused"] = extra >> 11 & 3
        if extra >> 14 & 3:
            mods["omod"] = extra >> 14 & 3
    if has_first:
        mods["src0_sel"] = extra >> 16 & 7
    if has_second:
        mods["src1_sel"] = extra >> 24 & 7
    if extra >> 13 & 1 and not compare:
        mods["clamp"] = 1
    return Instruction(pc, 8, entry.format, entry.name, "sdwa", tuple(operands), mods)


def _sdwa_modified(operand: Operand, bits: int) -> Operand:
    if not bits & 7:
        return operand
    return replace(operand, extend=bool(bits & 1), negate=bool(bits & 2), absolute=bool(bits & 4))


def _dpp(entry: Entry, word: int, extra: int, pc: int) -> Instruction:
    operands = []
    for slot in entry.slots:
        if slot.field == "src0":
            op = register("v", extra & 255, slot.count)
            if extra >> 20 & 3:
                op = op.modified(bool(extra >> 20 & 1), bool(extra >> 21 & 1))
            operands.append(op)
        elif slot.field == "vsrc1":
            op = register("v", word >> 9 & 255, slot.count)
            if extra >> 22 & 3:
                op = op.modified(bool(extra >> 22 & 1), bool(extra >> 23 & 1))
            operands.append(op)
        elif slot.field == "vdst":
            operands.append(register(slot.kind, word >> 17 & 255, slot.count))
        else:
            operands.append(fixed(slot.kind, slot.count))
    mods = {
        "dpp_ctrl": extra >> 8 & 511,
        "row_mask": extra >> 28,
        "bank_mask": extra >> 24 & 15,
    }
    if extra >> 19 & 1:
        mods["bound_ctrl"] = 1
    return Instruction(pc, 8, entry.format, entry.name, "dpp", tuple(operands), mods)


def decode_vop3(entry: Entry, word: int, second: int, pc: int) -> Instruction:
    """Decode a 64-bit VOP3 instruction (with or without a scalar destination)."""
    if not entry.slots:
        return Instruction(pc, 8, "VOP3", entry.name, entry.encoding, ())
    operands = []
    scalar_destination = any(s.field == "sdst" for s in entry.slots)
    plain = entry.name.startswith("v_bitop3") or "_swap_b" in entry.name
    modifiers = 0 if plain else second >> 29
    absolutes = 0 if plain or scalar_destination else word >> 8 & 7
    sources = 0
    for slot in entry.slots:
        name = slot.field
        if name[:3] == "src":
            at = int(name[3])
            sources += 1
            op = source(second >> 9 * at & 511, slot.count)
            if modifiers >> at & 1 or absolutes >> at & 1:
                op = op.modified(bool(modifiers >> at & 1), bool(absolutes >> at & 1))
            operands.append(op)
        elif name == "vdst":
            operands.append(register(slot.kind, word & 255, slot.count))
        elif name == "sdst":
            operands.append(register("s", word >> 8 & 127, slot.count))
        else:
            operands.append(fixed(slot.kind, slot.count))
    mods: dict[str, int] = {}
    select = 0 if scalar_destination else word >> 11 & 15
    if entry.name.startswith("v_bitop3"):
        table = (second >> 27 & 3) << 6 | (word >> 8 & 7) << 3 | second >> 29
        if table:
            mods["bitop3"] = table
        if select:
            mods["op_sel"] = select
    elif plain:
        if word >> 12 & 1:
            mods["bound_ctrl"] = 1
        if word >> 11 & 1:
            mods["fi"] = 1
    else:
        if select:
            mods["op_sel"] = select
        if word >> 15 & 1:
            mods["clamp"] = 1
        if second >> 27 & 3:
            mods["omod"] = second >> 27 & 3
    return Instruction(pc, 8, "VOP3", entry.name, entry.encoding, tuple(operands), mods)


def decode_vop3p(
    entry: Entry, word: int, second: int, pc: int, scale: tuple[int, int] | None = None
) -> Instruction:
    """Decode a VOP3P or matrix instruction; `scale` is the 8-byte prefix of a scaled MFMA."""
    if entry.name.startswith(("v_mfma", "v_smfmac", "v_accvgpr")):
        return _matrix(entry, word, second, pc, scale)
    operands = []
    count = sum(s.field != "vdst" for s in entry.slots)
    every = (1 << count) - 1
    select = word >> 11 & every
    high = (second >> 27 & 3 | (word >> 14 & 1) << 2) & every
    negate_low = second >> 29 & every
    negate_high = word >> 8 & every
    mix = "_mix" in entry.name
    for slot in entry.slots:
        if slot.field == "vdst":
            operands.append(register("v", word & 255, slot.count))
            continue
        at = int(slot.field[3])
        op = source(second >> 9 * at & 511, slot.count)
        if mix and (negate_low >> at & 1 or negate_high >> at & 1):
            op = op.modified(bool(negate_low >> at & 1), bool(negate_high >> at & 1))
        operands.append(op)
    mods = {}
    if select:
        mods["op_sel"] = select
    if mix:
        if high:
            mods["op_sel_hi"] = high
    else:
        mods["op_sel_hi"] = high
        if negate_low:
            mods["neg_lo"] = negate_low
        if negate_high:
            mods["neg_hi"] = negate_high
    if word >> 15 & 1:
        mods["clamp"] = 1
    return Instruction(pc, 8, "VOP3P", entry.name, "", tuple(operands), mods)


def _matrix(
    entry: Entry, word: int, second: int, pc: int, scale: tuple[int, int] | None
) -> Instruction:
    operands = []
    name = entry.name
    f8f6f4 = "f8f6f4" in name
    accumulate = word >> 15 & 1
    for slot in entry.slots:
        if slot.field == "vdst":
            to_acc = name == "v_accvgpr_write_b32" or (accumulate and slot.kind != "s")
            operands.append(register("a" if to_acc else "v", word & 255, slot.count))
            continue
        at = int(slot.field[3])
        count = slot.count
        if f8f6f4 and at < 2:
            count = _F8F6F4_REGISTERS[word >> 8 & 7 if at == 0 else second >> 29]
        op = source(second >> 9 * at & 511, count)
        smfmac_index = at == 2 and name.startswith("v_smfmac")
        in_acc = accumulate if at == 2 else second >> 27 + at & 1
        if (
            (in_acc or name == "v_accvgpr_read_b32")
            and op.kind == "v"
            and not smfmac_index
            and name != "v_accvgpr_write_b32"
        ):
            op = register("a", op.index, count)
        operands.append(op)
    mods = {}
    if not name.startswith("v_accvgpr"):
        if word >> 8 & 7:
            mods["cbsz"] = word >> 8 & 7
        if word >> 11 & 15 and scale is None:
            mods["abid"] = word >> 11 & 15
        if second >> 29:
            mods["blgp"] = second >> 29
    if scale is None:
        return Instruction(pc, 8, "VOP3P", name, "", tuple(operands), mods)
    first, last = scale
    operands += [source(last & 511, 1), source(last >> 9 & 511, 1)]
    mods["op_sel"] = first >> 11 & 3
    mods["op_sel_hi"] = last >> 27 & 3
    return Instruction(
        pc, 16, "VOP3P", name.replace("v_mfma_", "v_mfma_scale_"), "", tuple(operands), mods
    )
