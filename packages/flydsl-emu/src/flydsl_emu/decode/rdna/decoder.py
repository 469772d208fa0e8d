"""Dispatch of gfx11 and later by encoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.decode.rdna.dual import decode_dual, decode_wide_dual
from flydsl_emu.decode.rdna.forms import Form, load_forms
from flydsl_emu.decode.rdna.matrix import SCALE_PREFIXES, decode_matrix, decode_scaled
from flydsl_emu.decode.rdna.memory import (
    decode_buffer_11,
    decode_buffer_12,
    decode_ds,
    decode_flat_11,
    decode_flat_12,
    decode_tensor,
)
from flydsl_emu.decode.rdna.packed import decode_vop3p
from flydsl_emu.decode.rdna.scalar import decode_smem, decode_sop, decode_sopk, decode_sopp
from flydsl_emu.decode.rdna.vector import decode_short, decode_vop3

__all__ = ["decoder_of"]

_Function = Callable[[Form, Sequence[int], int, int, str], Instruction]
_Tables = Mapping[str, Mapping[int, Form]]
Decode = Callable[[Sequence[int], int, int], Instruction]

# Encodings by the 6 leading bits of the word: format, opcode shift and mask, function.
_SHARED: Mapping[int, tuple[str, int, int, _Function]] = {
    0x35: ("VOP3", 16, 1023, decode_vop3),
    0x36: ("DS", 18, 255, decode_ds),
}
_GFX11 = {
    **_SHARED,
    0x3D: ("SMEM", 18, 255, decode_smem),
    0x38: ("MUBUF", 18, 255, decode_buffer_11),
}
_GFX12 = {
    **_SHARED,
    0x3D: ("SMEM", 13, 63, decode_smem),
    0x31: ("MUBUF", 14, 255, decode_buffer_12),
}
_GFX1250 = {**_GFX12, 0x34: ("TENSOR", 14, 255, decode_tensor)}
_WIDE = {"gfx11": _GFX11, "gfx12": _GFX12, "gfx1250": _GFX1250}
# Leading byte of the 12-byte dual instructions of gfx1250.
_WIDE_DUAL = 0xCF


@cache
def decoder_of(arch: str, isa: str) -> Decode:
    """Return the function that decodes the instruction at one index of a sequence of words."""
    tables = load_forms(arch, isa)
    packed = _packed_1250 if isa == "gfx1250" else _packed
    first = isa == "gfx11"
    wide = {
        top: (tables[form], shift, mask, function)
        for top, (form, shift, mask, function) in _WIDE[isa].items()
    }
    flat = {segment: tables[f"FLAT{segment}"] for segment in range(3)}
    flat_top, flat_segment, flat_opcode, flat_mask, flat_function = (
        (0x37, 16, 18, 127, decode_flat_11) if first else (0x3B, 24, 14, 255, decode_flat_12)
    )

    def decode(words: Sequence[int], at: int, pc: int) -> Instruction:
        word = words[at]
        if not word >> 31:
            return _short(tables, words, at, pc, isa)
        top = word >> 26
        if top in wide:
            forms, shift, mask, function = wide[top]
            return function(forms[word >> shift & mask], words, at, pc, isa)
        if top == 0x32:
            return decode_dual(tables, words, at, pc, isa)
        if top == 0x33:
            return packed(tables, words, at, pc, isa)
        if top == flat_top:
            form = flat[word >> flat_segment & 3][word >> flat_opcode & flat_mask]
            return flat_function(form, words, at, pc, isa)
        if top < 0x30:
            return _scalar(tables, words, at, pc, isa)
        raise KeyError("unknown encoding")

    return decode


def _packed(tables: _Tables, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    form = tables["VOP3P"][words[at] >> 16 & 255]
    if form.name.startswith(("v_wmma", "v_swmmac")):
        return decode_matrix(form, words, at, pc, isa)
    return decode_vop3p(form, words, at, pc, isa)


def _packed_1250(tables: _Tables, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    word = words[at]
    if word >> 24 == _WIDE_DUAL:
        return decode_wide_dual(tables, words, at, pc, isa)
    if word >> 16 & 255 in SCALE_PREFIXES:
        return decode_scaled(tables["VOP3P"][words[at + 2] >> 16 & 255], words, at, pc, isa)
    return _packed(tables, words, at, pc, isa)


def _short(tables: _Tables, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    word = words[at]
    high = word >> 25
    if high == 0x3F:
        form = tables["VOP1"][word >> 9 & 255]
    elif high == 0x3E:
        form = tables["VOPC"][word >> 17 & 255]
    else:
        form = tables["VOP2"][high]
    return decode_short(form, words, at, pc, isa)


def _scalar(tables: _Tables, words: Sequence[int], at: int, pc: int, isa: str) -> Instruction:
    word = words[at]
    family = word >> 23
    if family == 0x17D:
        return decode_sop(tables["SOP1"][word >> 8 & 255], words, at, pc, isa)
    if family == 0x17E:
        return decode_sop(tables["SOPC"][word >> 16 & 127], words, at, pc, isa)
    if family == 0x17F:
        return decode_sopp(tables["SOPP"][word >> 16 & 127], words, at, pc, isa)
    if word >> 28 == 0xB:
        return decode_sopk(tables["SOPK"][word >> 23 & 31], words, at, pc, isa)
    return decode_sop(tables["SOP2"][word >> 23 & 127], words, at, pc, isa)
