"""Imports every module that defines opcodes; importing this fills the registry."""

from __future__ import annotations

from flydsl_emu.semantics import (
    atomics,
    control,
    lds,
    matrix,
    salu,
    smem,
    valu_compare,
    valu_convert,
    valu_convert_small,
    valu_divide,
    valu_float,
    valu_integer,
    valu_lane,
    valu_packed,
    vmem,
)

__all__ = ["MODULES"]

MODULES = (
    atomics,
    control,
    lds,
    matrix,
    salu,
    smem,
    valu_compare,
    valu_convert,
    valu_convert_small,
    valu_divide,
    valu_float,
    valu_integer,
    valu_lane,
    valu_packed,
    vmem,
)
