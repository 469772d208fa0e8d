"""The MODE register: rounding, denormals and clamping of float instructions, and index mode.

Tiers bind instructions for a value of MODE, which is a Python int here. Bits 0 to 3 are the
rounding of f32 and of f16 and f64 (0 nearest even, 1 up, 2 down, 3 toward zero), bits 4 to 7 their
denormals (bit 0 of each keeps those of sources, bit 1 those of results), bit 8 is DX10_CLAMP, bit 9
IEEE, bit 23 FP16_OVFL, bit 27 GPR_IDX_EN. Tiers add bits 15 to 12 of M0 as bits 35 to 32 while
GPR_IDX_EN is set: which operands are indexed.
"""

from __future__ import annotations

import re

from flydsl_emu.codeobject import Kernel
from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import bits_of
from flydsl_emu.semantics.registry import opcode
from flydsl_emu.semantics.value_types import F16, F32, F64, U32, Type

__all__ = [
    "DEFAULT_MODE",
    "INDEX_MODE",
    "changes_mode",
    "clamps_nan",
    "flushed",
    "flushes",
    "has_plain_arithmetic",
    "initial_mode",
    "is_usual",
    "rounding",
    "takes_rounding",
    "uses_mode",
]

DEFAULT_MODE = 0x3F0
"""Round to nearest even, keep denormals, DX10_CLAMP and IEEE set: how compute kernels start."""

INDEX_MODE = 1 << 27
_SATURATING = 1 << 23
_ARITHMETIC = 0x1FF

_MODE_REGISTER = 1
_APERTURES = 15
_CLUSTER_REGISTER = 28
_ZERO_REGISTERS = frozenset((4, 20))
_SMALLEST = {F16.name: 2.0**-14, F32.name: 2.0**-126, F64.name: 2.0**-1022}
_INDEX_CHANGES = frozenset(
    ("s_set_gpr_idx_on", "s_set_gpr_idx_off", "s_set_gpr_idx_mode", "s_set_gpr_idx_idx")
)
_FIELD_CHANGES = frozenset(("s_round_mode", "s_denorm_mode"))
_ROUNDED = re.compile(
    r"v_(?:pk_)?(?:add|sub|subrev|mul|fma|fmac|fmaak|fmamk|mad|mac|madak|madmk)_(?:f16|f32|f64)$"
    r"|v_cvt_(?:f16_f32|f32_f64|f32_[iu]32|f16_[iu]16)$|v_ldexp_f(?:16|32)$"
)
# They round in ways that only the nearest-even mode of these functions reproduces.
_NEAREST_ONLY = re.compile(
    r"v_(?:fma_mix|mad_mix|dot[24]_(?:bf16|f16|f32)|dot2a?c|div_fmas|pk_fmac|ldexp_f64|mad_legacy_f16"
    r"|fmac?_dx9)|s_(?:add|sub|mul|fmac|fmaak|fmamk)_f|s_cvt_f(?:16_f32|32_[iu]32)"
)


def initial_mode(kernel: Kernel) -> int:
    """Return MODE as a kernel starts with it; gfx12 has no bits for DX10_CLAMP and IEEE."""
    first = kernel.descriptor.rsrc1
    if kernel.arch.startswith("gfx12"):
        return DEFAULT_MODE & ~0xFF | first >> 12 & 0xFF
    return (
        first >> 12 & 0xFF
        | (first >> 21 & 1) << 8
        | (first >> 23 & 1) << 9
        | (first >> 26 & 1) << 23
    )


def has_plain_arithmetic(mode: int) -> bool:
    """Return whether float instructions need nothing but their functions."""
    return mode & _ARITHMETIC == DEFAULT_MODE & _ARITHMETIC


def clamps_nan(mode: int) -> bool:
    """Return whether the clamp modifier turns NaN into zero (DX10_CLAMP)."""
    return bool(mode >> 8 & 1)


def rounding(mode: int, type: Type) -> int:
    """Return the rounding of results of a type."""
    return mode & 3 if type is F32 else mode >> 2 & 3


def flushes(mode: int, type: Type, result: bool) -> bool:
    """Return whether denormal sources or results of a type become zero."""
    field = mode >> 4 & 3 if type is F32 else mode >> 6 & 3
    return not field >> result & 1


def flushed(v: VectorApi, x: Value, type: Type) -> Value:
    """Return a float with denormals replaced by zeros of their sign."""
    sign = v.cast(v.bit_and(bits_of(v, x, type), 1 << (type.bits - 1)), type)
    return v.select(v.lt(v.abs(x), _SMALLEST[type.name]), sign, x)


def takes_rounding(name: str) -> bool | None:
    """Return whether an instruction rounds as MODE says; None if no function here does so."""
    if _NEAREST_ONLY.match(name):
        return None
    return bool(_ROUNDED.match(name))


def changes_mode(i: Instruction) -> bool:
    """Return whether an instruction writes MODE, or M0 in index mode."""
    if i.name in _INDEX_CHANGES or i.name in _FIELD_CHANGES:
        return True
    return i.name.startswith("s_setreg") and i.mod("hwreg") & 63 == _MODE_REGISTER


def uses_mode(i: Instruction) -> bool:
    """Return whether an instruction reads or writes MODE, or indexes registers."""
    if i.name in _INDEX_CHANGES or i.name in _FIELD_CHANGES:
        return True
    return i.name.startswith(("s_setreg", "s_getreg"))


def is_usual(mode: int) -> bool:
    """Return whether a mode has the effect of `DEFAULT_MODE`."""
    return has_plain_arithmetic(mode) and not mode & (_SATURATING | INDEX_MODE)


def _field(i: Instruction) -> tuple[int, int]:
    """Return offset and mask of the field that a register access names."""
    where = i.mod("hwreg")
    return where >> 6 & 31, (1 << (where >> 11 & 31) + 1) - 1


@opcode("s_getreg_b32", "u32 = inst hwmode place")
def _get(v: VectorApi, i: Instruction, mode: Value, place: Value) -> Value:
    """Read a hardware register; the wave's place (HW_ID, XCC_ID) is always the first one."""
    register = i.mod("hwreg") & 63
    offset, mask = _field(i)
    if register == _MODE_REGISTER:
        return v.bit_and(v.shr(mode, offset), mask)
    if register == _APERTURES:
        return v.const(U32, (1 << 16 | 2) >> offset & mask)
    if register == _CLUSTER_REGISTER:
        return v.bit_and(v.shr(place, offset), mask)
    v.require(v.eq(mode, mode) if register in _ZERO_REGISTERS else v.ne(mode, mode), _named(i))
    return v.const(U32, 0)


def _named(i: Instruction) -> str:
    return f"hardware register {i.mod('hwreg') & 63}"


@opcode("s_setreg_b32", "hwmode = inst hwmode u32")
@opcode("s_setreg_imm32_b32", "hwmode = inst hwmode u32")
def _set(v: VectorApi, i: Instruction, mode: Value, x: Value) -> Value:
    if i.mod("hwreg") & 63 != _MODE_REGISTER:
        v.require(v.ne(mode, mode), _named(i))
        return mode
    offset, mask = _field(i)
    kept = v.bit_and(mode, ~(mask << offset) & 0xFFFFFFFF)
    field = v.bit_and(x, mask)
    return v.bit_or(kept, v.shl(field, offset) if offset else field)


@opcode("s_round_mode", "hwmode = hwmode imm")
def _set_rounding(v: VectorApi, mode: Value, field: int) -> Value:
    return v.bit_or(v.bit_and(mode, 0xFFFFFFF0), field & 15)


@opcode("s_denorm_mode", "hwmode = hwmode imm")
def _set_denormals(v: VectorApi, mode: Value, field: int) -> Value:
    return v.bit_or(v.bit_and(mode, 0xFFFFFF0F), (field & 15) << 4)


# Index mode
def _with_low_byte(v: VectorApi, m0: Value, index: Value) -> Value:
    return v.bit_or(v.bit_and(m0, 0xFFFFFF00), v.bit_and(index, 0xFF))


@opcode("s_set_gpr_idx_on", "hwmode m0 = hwmode m0 u32 imm")
def _index_on(
    v: VectorApi, mode: Value, m0: Value, index: Value, operands: int
) -> tuple[Value, Value]:
    kept = v.bit_and(_with_low_byte(v, m0, index), 0xFFFF0FFF)
    return v.bit_or(mode, INDEX_MODE), v.bit_or(kept, (operands & 15) << 12)


@opcode("s_set_gpr_idx_off", "hwmode = hwmode")
def _index_off(v: VectorApi, mode: Value) -> Value:
    return v.bit_and(mode, ~INDEX_MODE & 0xFFFFFFFF)


@opcode("s_set_gpr_idx_idx", "hwmode m0 = hwmode m0 u32")
def _index_index(v: VectorApi, mode: Value, m0: Value, index: Value) -> tuple[Value, Value]:
    return mode, _with_low_byte(v, m0, index)


@opcode("s_set_gpr_idx_mode", "hwmode m0 = inst hwmode m0")
def _index_operands(v: VectorApi, i: Instruction, mode: Value, m0: Value) -> tuple[Value, Value]:
    operands = (i.mod("simm16") & 15) << 12
    return mode, v.bit_or(v.bit_and(m0, 0xFFFF0FFF), operands)
