"""Small formulas over the vector API that several groups of opcodes share."""

from __future__ import annotations

from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.value_types import F16, F32, F64, I32, U16, U32, U64, Type

__all__ = [
    "bf16_to_f32",
    "bits_of",
    "exponent",
    "extract",
    "f32_to_bf16",
    "f64_to_bf16",
    "half_bits",
    "half_to_f32",
    "high16",
    "is_signaling",
    "join64",
    "low16",
    "pack16",
    "sign_extend",
    "split64",
]

_UNSIGNED = {F16.name: U16, F32.name: U32, F64.name: U64}
_MANTISSA = {F16.name: 10, F32.name: 23, F64.name: 52}
_EXPONENT = {F16.name: 5, F32.name: 8, F64.name: 11}


def bits_of(v: VectorApi, x: Value, type: Type) -> Value:
    """Return the bits of a float of `type` as an unsigned integer."""
    return v.cast(x, _UNSIGNED[type.name])


def exponent(v: VectorApi, x: Value, type: Type) -> Value:
    """Return the biased exponent field of a float, as ``I32``."""
    bits = bits_of(v, x, type)
    mask = (1 << _EXPONENT[type.name]) - 1
    field = v.bit_and(v.shr(bits, _MANTISSA[type.name]), mask)
    return v.cast(v.convert(field, U32), I32)


def is_signaling(v: VectorApi, x: Value, type: Type) -> Value:
    """Return whether a float is a signalling NaN."""
    quiet = 1 << (_MANTISSA[type.name] - 1)
    return v.bit_and(v.is_nan(x), v.eq(v.bit_and(bits_of(v, x, type), quiet), 0))


def sign_extend(v: VectorApi, x: Value, bits: int) -> Value:
    """Return the low `bits` bits of a ``U32`` as a sign-extended ``I32``."""
    return v.shr(v.cast(v.shl(x, 32 - bits), I32), 32 - bits)


def extract(v: VectorApi, x: Value, low: int, bits: int) -> Value:
    """Return bits ``low`` to ``low + bits - 1`` of a ``U32``."""
    moved = v.shr(x, low) if low else x
    return v.bit_and(moved, (1 << bits) - 1) if low + bits < 32 else moved


def low16(v: VectorApi, x: Value) -> Value:
    """Return the low half of a ``U32``, as ``U32``."""
    return v.bit_and(x, 0xFFFF)


def high16(v: VectorApi, x: Value) -> Value:
    """Return the high half of a ``U32``, as ``U32``."""
    return v.shr(x, 16)


def pack16(v: VectorApi, low: Value, high: Value) -> Value:
    """Return two ``U32`` values below 65536 as one dword."""
    return v.bit_or(low, v.shl(high, 16))


def join64(v: VectorApi, low: Value, high: Value) -> Value:
    """Return two ``U32`` as one ``U64``."""
    return v.bit_or(v.convert(low, U64), v.shl(v.convert(high, U64), 32))


def split64(v: VectorApi, x: Value) -> tuple[Value, Value]:
    """Return low and high ``U32`` of a ``U64``."""
    return v.convert(x, U32), v.convert(v.shr(x, 32), U32)


def half_to_f32(v: VectorApi, bits: Value) -> Value:
    """Return f16 bits in a ``U32`` as ``F32`` (exact)."""
    return v.convert(v.cast(v.convert(bits, U16), F16), F32)


def half_bits(v: VectorApi, x: Value) -> Value:
    """Return a float rounded to f16, as bits in a ``U32``."""
    return v.convert(v.cast(v.convert(x, F16), U16), U32)


def bf16_to_f32(v: VectorApi, bits: Value) -> Value:
    """Return bf16 bits in the low half of a ``U32`` as ``F32`` (exact)."""
    return v.cast(v.shl(bits, 16), F32)


def f32_to_bf16(v: VectorApi, x: Value) -> Value:
    """Return an ``F32`` rounded to nearest-even bf16, as bits in a ``U32``; NaN stays quiet NaN."""
    bits = v.cast(x, U32)
    odd = v.bit_and(v.shr(bits, 16), 1)
    rounded = v.shr(v.add(v.add(bits, 0x7FFF), odd), 16)
    return v.select(v.is_nan(x), v.bit_or(v.shr(bits, 16), 0x40), rounded)


def f64_to_bf16(v: VectorApi, x: Value) -> Value:
    """Return an ``F64`` rounded once to nearest-even bf16, as bits in a ``U32``.

    Rounding to odd in single precision first keeps the second rounding the only one that counts.
    """
    single = v.convert(x, F32)
    wide = v.convert(single, F64)
    bits = v.cast(single, U32)
    away = v.lt(v.abs(x), v.abs(wide))
    truncated = v.select(away, v.sub(bits, 1), bits)
    odd = v.select(v.eq(wide, x), bits, v.bit_or(truncated, 1))
    return f32_to_bf16(v, v.cast(v.select(v.is_nan(x), bits, odd), F32))
