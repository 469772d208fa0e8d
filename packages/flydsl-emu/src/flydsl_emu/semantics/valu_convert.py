"""Conversions of the vector ALU."""

from __future__ import annotations

from collections.abc import Callable

from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import (
    f32_to_bf16,
    half_bits,
    half_to_f32,
    low16,
    pack16,
    sign_extend,
)
from flydsl_emu.semantics.registry import define, opcode
from flydsl_emu.semantics.value_types import F16, F32, F64, I16, I32, U16, U32, Type

__all__ = ["half_toward_zero"]


def _convert(type: Type) -> Callable[[VectorApi, Value], Value]:
    return lambda v, x: v.convert(x, type)


def _truncate(type: Type) -> Callable[[VectorApi, Value], Value]:
    return lambda v, x: v.truncate(x, type)


for _name, _sig, _type in (
    ("v_cvt_f32_i32", "f32 = i32", F32),
    ("v_cvt_f32_u32", "f32 = u32", F32),
    ("v_cvt_f64_i32", "f64 = i32", F64),
    ("v_cvt_f64_u32", "f64 = u32", F64),
    ("v_cvt_f32_f64", "f32 = f64", F32),
    ("v_cvt_f64_f32", "f64 = f32", F64),
    ("v_cvt_f32_f16", "f32 = f16", F32),
    ("v_cvt_f16_f32", "f16 = f32", F16),
    ("v_cvt_f16_u16", "f16 = u16", F16),
    ("v_cvt_f16_i16", "f16 = i16", F16),
):
    define(_name, _sig, _convert(_type))
for _name, _sig, _type in (
    ("v_cvt_u32_f32", "u32 = f32", U32),
    ("v_cvt_i32_f32", "i32 = f32", I32),
    ("v_cvt_u32_f64", "u32 = f64", U32),
    ("v_cvt_i32_f64", "i32 = f64", I32),
    ("v_cvt_u16_f16", "u16 = f16", U16),
    ("v_cvt_i16_f16", "i16 = f16", I16),
):
    define(_name, _sig, _truncate(_type))


@opcode("v_cvt_rpi_i32_f32", "i32 = f32")
def _round_up_half(v: VectorApi, x: Value) -> Value:
    wide = v.convert(x, F64)
    return v.truncate(v.floor(v.add(wide, 0.5)), I32)


@opcode("v_cvt_flr_i32_f32", "i32 = f32")
def _round_down(v: VectorApi, x: Value) -> Value:
    return v.truncate(v.floor(x), I32)


@opcode("v_cvt_off_f32_i4", "f32 = u32")
def _offset_nibble(v: VectorApi, x: Value) -> Value:
    return v.mul(v.convert(sign_extend(v, x, 4), F32), 0.0625)


def _unsigned_byte(at: int) -> Callable[[VectorApi, Value], Value]:
    return lambda v, x: v.convert(v.bit_and(v.shr(x, 8 * at), 0xFF), F32)


for _at in range(4):
    define(f"v_cvt_f32_ubyte{_at}", "f32 = u32", _unsigned_byte(_at))


def half_toward_zero(v: VectorApi, x: Value) -> Value:
    """Return an ``F32`` rounded toward zero to f16, as bits in a ``U32``."""
    bits = half_bits(v, x)
    size = v.bit_and(bits, 0x7FFF)
    away = v.lt(v.abs(x), v.abs(half_to_f32(v, size)))
    infinite = v.eq(v.abs(x), float("inf"))
    lower = v.bit_and(away, v.bit_not(infinite))
    return v.select(lower, v.sub(bits, 1), bits)


@opcode("v_cvt_pkrtz_f16_f32", "u32 = f32 f32")
def _pack_toward_zero(v: VectorApi, a: Value, b: Value) -> Value:
    return pack16(v, half_toward_zero(v, a), half_toward_zero(v, b))


@opcode("v_cvt_pk_f16_f32", "u32 = f32 f32")
def _pack_half(v: VectorApi, a: Value, b: Value) -> Value:
    return pack16(v, half_bits(v, a), half_bits(v, b))


@opcode("v_cvt_pk_bf16_f32", "u32 = f32 f32")
def _pack_bfloat(v: VectorApi, a: Value, b: Value) -> Value:
    return pack16(v, f32_to_bf16(v, a), f32_to_bf16(v, b))


@opcode("v_pack_b32_f16", "u32 = u16 u16")
def _pack_raw(v: VectorApi, a: Value, b: Value) -> Value:
    return pack16(v, v.convert(a, U32), v.convert(b, U32))


@opcode("v_cvt_pk_u16_u32", "u32 = u32 u32")
def _pack_unsigned(v: VectorApi, a: Value, b: Value) -> Value:
    top = v.const(U32, 0xFFFF)
    return pack16(v, v.min(a, top), v.min(b, top))


@opcode("v_cvt_pk_i16_i32", "u32 = i32 i32")
def _pack_signed(v: VectorApi, a: Value, b: Value) -> Value:
    low, high = v.const(I32, -32768), v.const(I32, 32767)
    halves = (low16(v, v.cast(v.max(v.min(x, high), low), U32)) for x in (a, b))
    return pack16(v, *halves)


def _normalised(v: VectorApi, x: Value, signed: bool) -> Value:
    """Scale a float in [-1, 1] or [0, 1] to 16 bits, as ``U32``."""
    x = v.convert(x, F32)
    number = v.select(v.is_nan(x), v.const(F32, 0.0), x)
    bottom, scale = (-1.0, 32767.0) if signed else (0.0, 65535.0)
    bounded = v.max(v.min(number, v.const(F32, 1.0)), v.const(F32, bottom))
    integer = v.truncate(v.rint(v.mul(bounded, scale)), I32)
    return low16(v, v.cast(integer, U32))


@opcode("v_cvt_pknorm_i16_f32", "u32 = f32 f32")
@opcode("v_cvt_pknorm_i16_f16", "u32 = f16 f16")
def _pack_signed_norm(v: VectorApi, a: Value, b: Value) -> Value:
    return pack16(v, _normalised(v, a, True), _normalised(v, b, True))


@opcode("v_cvt_pknorm_u16_f32", "u32 = f32 f32")
@opcode("v_cvt_pknorm_u16_f16", "u32 = f16 f16")
def _pack_unsigned_norm(v: VectorApi, a: Value, b: Value) -> Value:
    return pack16(v, _normalised(v, a, False), _normalised(v, b, False))


@opcode("v_cvt_norm_i16_f16", "u16 = f16")
def _signed_norm(v: VectorApi, x: Value) -> Value:
    return v.convert(_normalised(v, x, True), U16)


@opcode("v_cvt_norm_u16_f16", "u16 = f16")
def _unsigned_norm(v: VectorApi, x: Value) -> Value:
    return v.convert(_normalised(v, x, False), U16)


@opcode("v_cvt_pk_u8_f32", "u32 = f32 u32 u32")
def _pack_byte(v: VectorApi, x: Value, at: Value, rest: Value) -> Value:
    byte = v.min(v.truncate(v.rint(x), U32), v.const(U32, 255))
    shift = v.shl(v.bit_and(at, 3), 3)
    keep = v.bit_not(v.shl(v.const(U32, 0xFF), shift))
    return v.bit_or(v.bit_and(rest, keep), v.shl(byte, shift))


@opcode("v_sat_pk_u8_i16", "u32 = u32")
def _saturate_bytes(v: VectorApi, x: Value) -> Value:
    zero, top = v.const(I32, 0), v.const(I32, 255)
    parts = []
    for half in (x, v.shr(x, 16)):
        wide = sign_extend(v, half, 16)
        parts.append(v.cast(v.max(v.min(wide, top), zero), U32))
    return v.bit_or(parts[0], v.shl(parts[1], 8))


@opcode("v_mov_b32", "u32 = u32")
@opcode("v_mov_b64", "u64 = u64")
@opcode("v_accvgpr_read_b32", "u32 = u32")
@opcode("v_accvgpr_write_b32", "u32 = u32")
@opcode("v_accvgpr_mov_b32", "u32 = u32")
def _move(_v: VectorApi, x: Value) -> Value:
    return x


@opcode("v_nop", "=")
def _nothing(_v: VectorApi) -> tuple[()]:
    return ()
