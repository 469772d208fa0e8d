"""Text of matrix products' modifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flydsl_emu.decode.instruction import Instruction

__all__ = ["matrix_modifiers"]

_FORMATS = ("FP8", "BF8", "FP6", "BF6", "FP4")
_SCALE_FORMATS = ("E8", "E5M3", "E4M3")


def matrix_modifiers(i: Instruction) -> str:
    """Return what follows the operands of a WMMA or SWMMAC instruction."""
    mods = i.mods
    text = f" index_key:{mods['index_key']}" if "index_key" in mods else ""
    if i.isa == "gfx11" and i.name.startswith(("v_wmma_f16", "v_wmma_bf16")):
        if "op_sel" in mods:
            text += _bits("op_sel", mods["op_sel"])
        if mods["op_sel_hi"] != 7:
            text += _bits("op_sel_hi", mods["op_sel_hi"])
    for side in "ab":
        if f"{side}_fmt" in mods:
            text += f" matrix_{side}_fmt:MATRIX_FMT_{_FORMATS[mods[f'{side}_fmt']]}"
    for side in "ab":
        if f"{side}_scale" in mods:
            text += f" matrix_{side}_scale:MATRIX_SCALE_ROW1"
    for side in "ab":
        if f"{side}_scale_fmt" in mods:
            name = _SCALE_FORMATS[mods[f"{side}_scale_fmt"]]
            text += f" matrix_{side}_scale_fmt:MATRIX_SCALE_FMT_{name}"
    for side in "ab":
        if f"{side}_reuse" in mods:
            text += f" matrix_{side}_reuse"
    for name in ("neg_lo", "neg_hi"):
        if name in mods:
            text += _bits(name, mods[name])
    return text + (" clamp" if "clamp" in mods else "")


def _bits(name: str, value: int) -> str:
    return f" {name}:[{','.join(str(value >> i & 1) for i in range(3))}]"
