"""Where the fields of each encoding are, on gfx11 and later.

A field is ``(shift, width)`` within the instruction taken as one little-endian number. Opcodes have
places of their own. The same layouts serve the decoder and the table generator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Layout", "layouts"]

Field = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """One encoding.

    Attributes:
        base: Its fixed bits.
        opcode: Place of the opcode.
        size: Bytes without literal or DPP word.
        fields: Operand fields by name.
    """

    base: int
    opcode: Field
    size: int
    fields: Mapping[str, Field]


_VOP3 = {"vdst": (0, 8), "sdst": (8, 7), "src0": (32, 9), "src1": (41, 9), "src2": (50, 9)}
_COMMON = {
    "SOP1": Layout(0xBE800000, (8, 8), 4, {"sdst": (16, 7), "ssrc0": (0, 8)}),
    "SOP2": Layout(0x80000000, (23, 7), 4, {"sdst": (16, 7), "ssrc0": (0, 8), "ssrc1": (8, 8)}),
    "SOPC": Layout(0xBF000000, (16, 7), 4, {"ssrc0": (0, 8), "ssrc1": (8, 8)}),
    "SOPK": Layout(0xB0000000, (23, 5), 4, {"sdst": (16, 7), "imm": (0, 16)}),
    "SOPP": Layout(0xBF800000, (16, 7), 4, {"imm": (0, 16)}),
    "VOP1": Layout(0x7E000000, (9, 8), 4, {"vdst": (17, 8), "src0": (0, 9)}),
    "VOP2": Layout(0x00000000, (25, 6), 4, {"vdst": (17, 8), "src0": (0, 9), "vsrc1": (9, 8)}),
    "VOPC": Layout(0x7C000000, (17, 8), 4, {"src0": (0, 9), "vsrc1": (9, 8)}),
    "VOP3": Layout(0xD4000000, (16, 10), 8, _VOP3),
    "VOP3P": Layout(0xCC000000, (16, 7), 8, {k: v for k, v in _VOP3.items() if k != "sdst"}),
    "DS": Layout(
        0xD8000000, (18, 8), 8, {"vdst": (56, 8), "addr": (32, 8), "d0": (40, 8), "d1": (48, 8)}
    ),
}
_FLAT_11 = {"vdst": (56, 8), "addr": (32, 8), "data": (40, 8), "saddr": (48, 7)}
_FLAT_12 = {"vdst": (32, 8), "addr": (64, 8), "data": (55, 8), "saddr": (0, 7)}
_SMEM = {"sdata": (6, 7), "sbase": (0, 6), "soff": (57, 7)}
_GFX11 = {
    **_COMMON,
    "SMEM": Layout(0xF4000000, (18, 8), 8, _SMEM),
    "FLAT0": Layout(0xDC000000, (18, 7), 8, _FLAT_11),
    "FLAT1": Layout(0xDC010000, (18, 7), 8, _FLAT_11),
    "FLAT2": Layout(0xDC020000, (18, 7), 8, _FLAT_11),
    "MUBUF": Layout(
        0xE0000000,
        (18, 8),
        8,
        {"vdata": (40, 8), "vaddr": (32, 8), "srsrc": (48, 5), "soff": (56, 8)},
    ),
}
_GFX12 = {
    **_COMMON,
    "SMEM": Layout(0xF4000000, (13, 6), 8, _SMEM),
    "FLAT0": Layout(0xEC000000, (14, 8), 12, _FLAT_12),
    "FLAT1": Layout(0xED000000, (14, 8), 12, _FLAT_12),
    "FLAT2": Layout(0xEE000000, (14, 8), 12, _FLAT_12),
    "MUBUF": Layout(
        0xC4000000,
        (14, 8),
        12,
        {"vdata": (32, 8), "vaddr": (64, 8), "srsrc": (41, 9), "soff": (0, 7)},
    ),
}
_GFX1250 = {
    **_GFX12,
    "VOP3P": Layout(0xCC000000, (16, 8), 8, _GFX12["VOP3P"].fields),
    # Tensor transfers: four groups of descriptors; the fifth field of the encoding is null.
    "TENSOR": Layout(
        0x7C000000_D0400001,
        (14, 8),
        12,
        {"g0": (64, 8), "g1": (72, 8), "g2": (80, 8), "g3": (88, 8)},
    ),
}


def layouts(isa: str) -> Mapping[str, Layout]:
    """Return the encodings of ``"gfx11"``, ``"gfx12"`` or ``"gfx1250"`` by format name."""
    return {"gfx11": _GFX11, "gfx12": _GFX12, "gfx1250": _GFX1250}[isa]
