"""DS, FLAT, GLOBAL, SCRATCH, MUBUF and SMEM encodings."""

from __future__ import annotations

from flydsl_emu.decode.instruction import Instruction, Operand
from flydsl_emu.decode.sources import OFF, register, source
from flydsl_emu.decode.table import Entry

__all__ = ["decode_ds", "decode_flat", "decode_mtbuf", "decode_mubuf", "decode_smem"]

_SCRATCH = 1
_GLOBAL = 2
_NO_SADDR = 127
# The greatest integer that prints in decimal.
_INLINE = 64


def decode_ds(entry: Entry, word: int, second: int, pc: int) -> Instruction:
    """Decode an LDS instruction."""
    data = "a" if word >> 25 & 1 else "v"
    operands = []
    for slot in entry.slots:
        if slot.field == "addr":
            operands.append(register("v", second & 255, slot.count))
        else:
            shift = {"d0": 8, "d1": 16, "vdst": 24}[slot.field]
            operands.append(register(data, second >> shift & 255, slot.count))
    mods = {}
    if any(tag in entry.name for tag in ("read2", "write2", "wrxchg2")):
        if word & 255:
            mods["offset0"] = word & 255
        if word >> 8 & 255:
            mods["offset1"] = word >> 8 & 255
    elif word & 0xFFFF:
        mods["offset"] = word & 0xFFFF
    if word >> 16 & 1:
        mods["gds"] = 1
    return Instruction(pc, 8, "DS", entry.name, "", tuple(operands), mods)


def decode_flat(entry: Entry, word: int, second: int, pc: int) -> Instruction:
    """Decode a flat, scratch or global instruction."""
    segment = word >> 14 & 3
    data = "a" if second >> 23 & 1 else "v"
    scalar = second >> 16 & 127
    has_scalar = scalar != _NO_SADDR and segment != 0
    operands = []
    fields = set()
    for slot in entry.slots:
        fields.add(slot.field)
        if slot.field == "addr":
            operands.append(_flat_address(word, second, segment, has_scalar))
        elif slot.field == "saddr":
            count = 1 if segment == _SCRATCH else 2
            operands.append(register("s", scalar, count) if has_scalar else OFF)
        else:
            shift = 8 if slot.field == "data" else 24
            operands.append(register(data, second >> shift & 255, slot.count))
    if segment == _GLOBAL and "saddr" not in fields and entry.slots:
        operands.append(register("s", scalar, 2) if has_scalar else OFF)
    returns = "atomic" in entry.name and word >> 16 & 1
    if returns and "vdst" not in fields:
        count = next(s.count for s in entry.slots if s.field == "data")
        if "cmpswap" in entry.name:
            count //= 2
        operands.insert(0, register(data, second >> 24, count))
    mods = {}
    offset = word & 0xFFF if segment == 0 else (word & 0x1FFF ^ 0x1000) - 0x1000
    if offset:
        mods["offset"] = offset
    for bit, name in ((16, "sc0"), (17, "nt"), (25, "sc1")):
        if word >> bit & 1:
            mods[name] = 1
    return Instruction(pc, 8, f"FLAT{segment}", entry.name, "", tuple(operands), mods)


def _flat_address(word: int, second: int, segment: int, has_scalar: bool) -> Operand:
    if segment == _SCRATCH:
        return register("v", second & 255, 1) if word >> 13 & 1 else OFF
    return register("v", second & 255, 1 if has_scalar else 2)


def decode_mubuf(entry: Entry, word: int, second: int, pc: int) -> Instruction:
    """Decode an untyped buffer instruction."""
    data = "a" if second >> 23 & 1 else "v"
    offset_enabled, index_enabled, lds = word >> 12 & 1, word >> 13 & 1, word >> 16 & 1
    operands = []
    for slot in entry.slots:
        if slot.field == "vdata":
            if not lds:
                operands.append(register(data, second >> 8 & 255, slot.count))
        elif slot.field == "vaddr":
            count = offset_enabled + index_enabled
            operands.append(register("v", second & 255, count) if count else OFF)
        elif slot.field == "srsrc":
            operands.append(register("s", (second >> 16 & 31) * 4, 4))
        else:
            operands.append(source(second >> 24, 1))
    mods = {}
    flags = ((12, "offen"), (13, "idxen"), (14, "sc0"), (15, "sc1"), (16, "lds"), (17, "nt"))
    for bit, name in flags:
        if word >> bit & 1:
            mods[name] = 1
    if word & 0xFFF:
        mods["offset"] = word & 0xFFF
    return Instruction(pc, 8, "MUBUF", entry.name, "", tuple(operands), mods)


def decode_mtbuf(entry: Entry, word: int, second: int, pc: int) -> Instruction:
    """Decode a typed buffer instruction, which holds the format of its elements."""
    data = "a" if second >> 23 & 1 else "v"
    count = (word >> 12 & 1) + (word >> 13 & 1)
    operands = (
        register(data, second >> 8 & 255, entry.slots[0].count),
        register("v", second & 255, count) if count else OFF,
        register("s", (second >> 16 & 31) * 4, 4),
        source(second >> 24, 1),
    )
    mods = {"dfmt": word >> 19 & 15, "nfmt": word >> 23 & 7}
    for bit, name in ((12, "offen"), (13, "idxen"), (14, "sc0")):
        if word >> bit & 1:
            mods[name] = 1
    for bit, name in ((21, "sc1"), (22, "nt")):
        if second >> bit & 1:
            mods[name] = 1
    if word & 0xFFF:
        mods["offset"] = word & 0xFFF
    return Instruction(pc, 8, "MTBUF", entry.name, "", operands, mods)


def decode_smem(entry: Entry, word: int, second: int, pc: int) -> Instruction:
    """Decode a scalar memory instruction with its three forms of offset."""
    immediate, register_offset = word >> 17 & 1, word >> 14 & 1
    offset = (second & 0x1FFFFF ^ 0x100000) - 0x100000
    operands = []
    mods = {}
    for slot in entry.slots:
        if slot.field == "sdata" and slot.kind == "k":
            number = word >> 6 & 127
            operands.append(Operand("i" if number <= _INLINE else "k", 0, 1, number))
        elif slot.field == "sdata":
            operands.append(register("s", word >> 6 & 127, slot.count))
        elif slot.field == "sbase":
            operands.append(register("s", (word & 63) * 2, slot.count))
        elif immediate and not register_offset:
            operands.append(Operand("k", 0, 1, offset))
        elif register_offset:
            operands.append(register("s", second >> 25, 1))
            if immediate:
                mods["offset"] = offset
        else:
            operands.append(register("s", second & 127, 1))
    if word >> 16 & 1 and "probe" not in entry.name:
        mods["glc"] = 1
    return Instruction(pc, 8, "SMEM", entry.name, "", tuple(operands), mods)
