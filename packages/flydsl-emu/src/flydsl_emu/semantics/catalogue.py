"""Every module that defines opcodes, and looking one up; importing this fills the registry."""

from __future__ import annotations

from flydsl_emu.semantics import (
    atomics,
    buffer_formats,
    control,
    lds,
    lds_special,
    matrix,
    rdna_memory,
    rdna_names,
    salu,
    salu_float,
    smem,
    transfers,
    transposed,
    valu_compare,
    valu_convert,
    valu_convert_scaled,
    valu_convert_small,
    valu_divide,
    valu_float,
    valu_gfx1250,
    valu_integer,
    valu_lane,
    valu_media,
    valu_packed,
    valu_rdna,
    vmem,
    wmma,
)
from flydsl_emu.semantics.registry import REGISTRY, Semantics

__all__ = ["MODULES", "find"]

MODULES = (
    atomics,
    buffer_formats,
    control,
    lds,
    lds_special,
    matrix,
    rdna_memory,
    rdna_names,
    salu,
    salu_float,
    smem,
    transfers,
    transposed,
    valu_compare,
    valu_convert,
    valu_convert_scaled,
    valu_convert_small,
    valu_divide,
    valu_float,
    valu_gfx1250,
    valu_integer,
    valu_lane,
    valu_media,
    valu_packed,
    valu_rdna,
    vmem,
    wmma,
)


def find(name: str) -> Semantics | None:
    """Return the meaning of a mnemonic, or None when it is not implemented."""
    return REGISTRY.get(name)
