"""Wave matrix products: WMMA and SWMMAC, with gfx1250's formats, scales and reuse hints.

Modifiers by name: ``neg_lo``, ``neg_hi``, ``clamp``, ``op_sel`` (gfx11's half of a 16-bit
accumulator), ``index_key`` (which indices of a sparse product), ``a_fmt`` and ``b_fmt`` (element
formats 0 to 4: fp8, bf8, fp6, bf6, fp4), ``a_reuse``, ``b_reuse``, and for scaled products
``a_scale``, ``b_scale`` (row of the scales) with ``a_scale_fmt``, ``b_scale_fmt`` (0 E8, 1 E5M3,
2 E4M3). A scaled product has its two scales as last operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flydsl_emu.decode.instruction import Instruction, Operand
from flydsl_emu.decode.rdna.forms import Form
from flydsl_emu.decode.rdna.operands import sources

__all__ = ["SCALE_PREFIXES", "decode_matrix", "decode_scaled"]

# Opcodes of the prefixes that give a product scales per 32 and per 16 elements, and their names.
SCALE_PREFIXES: Mapping[int, str] = {0x35: "v_wmma_scale_", 0x3A: "v_wmma_scale16_"}
# Registers of an A or B matrix 16 x 128 by element format.
_REGISTERS = (16, 16, 12, 12, 8)
_LAST_FORMAT = 4
_LAST_SCALE_FORMAT = 2


def decode_matrix(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode a WMMA or SWMMAC instruction at ``words[at]``."""
    word, second = words[at], words[at + 1]
    mods = _modifiers(form.name, word, second, isa)
    operands = _operands(form, word, second, mods)
    return Instruction(pc, 8, "VOP3P", form.name, "", operands, mods, None, (), isa)


def decode_scaled(form: Form, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    """Decode a matrix product whose scale prefix is at ``words[at]``."""
    word, second = words[at + 2], words[at + 3]
    first, last = words[at], words[at + 1]
    if not form.name.startswith("v_wmma") or not form.name.endswith(("_f8f6f4", "_f4")):
        raise KeyError("a scale prefix before something else than a product with scales")
    opcode = first >> 16 & 255
    mods = _modifiers(form.name, word, second, isa)
    fields = {
        "a_scale": first >> 11 & 1,
        "b_scale": last >> 27 & 1,
        "a_scale_fmt": last >> 29 & 3,
        "b_scale_fmt": first >> 8 & 3,
        "a_reuse": first >> 13 & 1,
        "b_reuse": first >> 14 & 1,
    }
    if max(fields["a_scale_fmt"], fields["b_scale_fmt"]) > _LAST_SCALE_FORMAT:
        raise KeyError("reserved format of scales")
    mods.update({name: value for name, value in fields.items() if value})
    count = 2 if opcode == 0x3A else 1
    scales = tuple(sources("v", count)[last >> shift & 511] for shift in (0, 9))
    operands = _operands(form, word, second, mods) + scales
    name = SCALE_PREFIXES[opcode] + form.name.removeprefix("v_wmma_")
    return Instruction(pc, 16, "VOP3P", name, "", operands, mods, None, (), isa)


def _operands(form: Form, word: int, second: int, mods: Mapping[str, int]) -> tuple[Operand, ...]:
    bits = word | second << 32
    operands = []
    for slot, (table, shift, mask) in zip(form.slots, form.plan, strict=True):
        if form.name.endswith("_f8f6f4") and slot.field in ("src0", "src1"):
            count = _REGISTERS[mods.get("a_fmt" if slot.field == "src0" else "b_fmt", 0)]
            operands.append(sources("v", count)[bits >> shift & mask])
        else:
            operands.append(table[bits >> shift & mask])
    return tuple(operands)


def _modifiers(name: str, word: int, second: int, isa: str) -> dict[str, int]:
    fields: dict[str, int] = {}
    select = word >> 11 & 7
    high = second >> 27 & 3 | (word >> 14 & 1) << 2
    if name.endswith("_f8f6f4"):
        if max(select, high) > _LAST_FORMAT:
            raise KeyError("reserved element format")
        fields = {"a_fmt": select, "b_fmt": high}
    elif isa == "gfx11":
        fields = {"op_sel": select}
    else:
        if name.startswith("v_swmmac"):
            fields = {"index_key": select & 1 if isa == "gfx1250" else select & 3}
        if isa == "gfx1250" and not name.endswith("_f4"):
            fields |= {"a_reuse": word >> 13 & 1, "b_reuse": word >> 14 & 1}
    fields |= {
        "neg_lo": second >> 29,
        "neg_hi": word >> 8 & 7,
        "clamp": word >> 15 & 1,
    }
    mods = {key: value for key, value in fields.items() if value}
    if isa == "gfx11":
        mods["op_sel_hi"] = high
    return mods
