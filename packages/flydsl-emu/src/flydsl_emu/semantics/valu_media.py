"""Byte arithmetic, cube maps, large trigonometric arguments and unfused f16 multiply-add."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import exponent, extract, join64, low16, pack16
from flydsl_emu.semantics.registry import define, opcode
from flydsl_emu.semantics.value_types import F32, F64, I32, U32, U64

__all__: list[str] = []

_BYTES = (0, 8, 16, 24)


# Bytes
@opcode("v_lerp_u8", "u32 = u32 u32 u32")
def _average(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    """Average bytes; bit 0 of each byte of the third source rounds up."""
    result = None
    for at in _BYTES:
        total = v.add(v.add(extract(v, a, at, 8), extract(v, b, at, 8)), extract(v, c, at, 1))
        part = v.shl(v.shr(total, 1), at)
        result = part if result is None else v.bit_or(result, part)
    return result


def _differences(v: VectorApi, a: Value, b: Value, masked: bool) -> Value:
    """Sum the absolute differences of bytes; `masked` leaves out those where `b` is 0."""
    total = None
    for at in _BYTES:
        x, y = extract(v, a, at, 8), extract(v, b, at, 8)
        part = v.sub(v.max(x, y), v.min(x, y))
        if masked:
            part = v.select(v.eq(y, 0), v.const(U32, 0), part)
        total = part if total is None else v.add(total, part)
    return total


@opcode("v_sad_hi_u8", "u32 = u32 u32 u32")
def _differences_high(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return v.add(v.shl(_differences(v, a, b, False), 16), c)


@opcode("v_msad_u8", "u32 = u32 u32 u32")
def _masked_differences(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return v.add(_differences(v, a, b, True), c)


def _windows(v: VectorApi, wide: Value) -> list[Value]:
    """Return the four dwords that start at bytes 0 to 3 of a ``U64``."""
    return [v.convert(v.shr(wide, at) if at else wide, U32) for at in _BYTES]


def _four_sums(masked: bool) -> Callable[..., Value]:
    def call(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
        sums = []
        for k, window in enumerate(_windows(v, a)):
            addend = v.convert(v.shr(c, 16 * k) if k else c, U32)
            sums.append(low16(v, v.add(_differences(v, window, b, masked), low16(v, addend))))
        return join64(v, pack16(v, sums[0], sums[1]), pack16(v, sums[2], sums[3]))

    return call


define("v_qsad_pk_u16_u8", "u64 = u64 u32 u64", _four_sums(False))
define("v_mqsad_pk_u16_u8", "u64 = u64 u32 u64", _four_sums(True))


@opcode("v_mqsad_u32_u8", "regs = u64 u32 regs")
def _four_wide_sums(v: VectorApi, a: Value, b: Value, c: Sequence[Value]) -> list[Value]:
    windows = _windows(v, a)
    addends = list(c) if len(c) == 4 else [c[0]] * 4
    return [v.add(_differences(v, w, b, True), x) for w, x in zip(windows, addends, strict=True)]


@opcode("v_cvt_pkaccum_u8_f32", "u32 = old f32 u32")
def _insert_byte(v: VectorApi, old: Value, x: Value, at: Value) -> Value:
    byte = v.min(v.truncate(v.rint(x), U32), v.const(U32, 255))
    shift = v.shl(v.bit_and(at, 3), 3)
    keep = v.bit_not(v.shl(v.const(U32, 0xFF), shift))
    return v.bit_or(v.bit_and(old, keep), v.shl(byte, shift))


def _shift_and_saturate(low: int, high: int) -> Callable[..., Value]:
    def call(v: VectorApi, old: Value, a: Value, b: Value, amount: Value) -> Value:
        bytes_ = []
        for x in (a, b):
            moved = v.shr(x, v.cast(v.bit_and(amount, 31), I32))
            bounded = v.max(v.min(moved, v.const(I32, high)), v.const(I32, low))
            bytes_.append(v.bit_and(v.cast(bounded, U32), 0xFF))
        pair = v.bit_or(bytes_[0], v.shl(bytes_[1], 8))
        return v.bit_or(v.bit_and(old, 0xFFFF0000), pair)

    return call


define("v_ashr_pk_i8_i32", "u32 = old i32 i32 u32", _shift_and_saturate(-128, 127))
define("v_ashr_pk_u8_i32", "u32 = old i32 i32 u32", _shift_and_saturate(0, 255))


# Cube maps
def _by_major_axis(v: VectorApi, x: Value, y: Value, z: Value, choices: Sequence[Value]) -> Value:
    """Choose by the axis of largest magnitude; z beats y beats x."""
    size_x, size_y, size_z = v.abs(x), v.abs(y), v.abs(z)
    on_z = v.bit_and(v.le(size_x, size_z), v.le(size_y, size_z))
    rest = v.select(v.le(size_x, size_y), choices[1], choices[0])
    return v.select(on_z, choices[2], rest)


def _signed(v: VectorApi, test: Value, negative: Value, positive: Value) -> Value:
    return v.select(v.lt(test, 0.0), negative, positive)


@opcode("v_cubeid_f32", "f32 = f32 f32 f32")
def _face(v: VectorApi, x: Value, y: Value, z: Value) -> Value:
    faces = [
        _signed(v, axis, v.const(F32, 2.0 * k + 1.0), v.const(F32, 2.0 * k))
        for k, axis in enumerate((x, y, z))
    ]
    return _by_major_axis(v, x, y, z, faces)


@opcode("v_cubesc_f32", "f32 = f32 f32 f32")
def _face_s(v: VectorApi, x: Value, y: Value, z: Value) -> Value:
    on_x = _signed(v, x, z, v.neg(z))
    return _by_major_axis(v, x, y, z, (on_x, x, _signed(v, z, v.neg(x), x)))


@opcode("v_cubetc_f32", "f32 = f32 f32 f32")
def _face_t(v: VectorApi, x: Value, y: Value, z: Value) -> Value:
    on_y = _signed(v, y, v.neg(z), z)
    return _by_major_axis(v, x, y, z, (v.neg(y), on_y, v.neg(y)))


@opcode("v_cubema_f32", "f32 = f32 f32 f32")
def _face_major(v: VectorApi, x: Value, y: Value, z: Value) -> Value:
    return v.mul(_by_major_axis(v, x, y, z, (x, y, z)), 2.0)


# Trigonometry
_FRACTION_BITS = 1201


def _scaled_arctangent(inverse: int, unit: int) -> int:
    """Return ``unit * atan(1 / inverse)``, truncated term by term."""
    term = unit // inverse
    total, n, sign = term, 1, -1
    while term:
        term //= inverse * inverse
        n += 2
        total += sign * (term // n)
        sign = -sign
    return total


@cache
def _two_over_pi() -> tuple[int, ...]:
    """Return the leading 1201 bits of 2 / pi after the point, from the top, in dwords; then 0."""
    unit = 1 << (_FRACTION_BITS + 200)
    # Machin's formula.
    pi = 4 * (4 * _scaled_arctangent(5, unit) - _scaled_arctangent(239, unit))
    fraction = 2 * unit * (1 << _FRACTION_BITS) // pi
    padded = fraction << (-_FRACTION_BITS % 32)
    count = (_FRACTION_BITS + 31) // 32
    words = [padded >> 32 * (count - 1 - k) & 0xFFFFFFFF for k in range(count)]
    return (*words, 0, 0, 0)


@opcode("v_trig_preop_f64", "f64 = f64 u32")
def _segment(v: VectorApi, x: Value, which: Value) -> Value:
    """Return 53 bits of 2 / pi, at the place that `which` and the exponent of `x` ask for."""
    field = exponent(v, x, F64)
    extra = v.max(v.sub(field, 1077), v.const(I32, 0))
    shift = v.add(v.mul(v.bit_and(which, 31), 53), v.cast(extra, U32))
    words = _two_over_pi()
    first = v.min(v.shr(shift, 5), v.const(U32, len(words) - 3))
    part = v.bit_and(shift, 31)
    top, middle, last = (v.lookup(words, v.add(first, k)) for k in range(3))
    high = v.shl(join64(v, middle, top), v.convert(part, U64))
    low = v.shr(v.convert(last, U64), v.sub(v.const(U64, 32), v.convert(part, U64)))
    bits = v.shr(v.bit_or(high, low), 11)
    power = v.neg(v.add(v.cast(shift, I32), 53))
    large = v.le(v.const(I32, 1968), field)
    power = v.add(power, v.select(large, v.const(I32, 128), v.const(I32, 0)))
    return v.ldexp(v.convert(bits, F64), power)


# Unfused multiply-add
@opcode("v_mad_f16", "f16 = f16 f16 f16", keeps_high=True)
@opcode("v_mac_f16", "f16 = f16 f16 old")
@opcode("v_mad_legacy_f16", "f16 = f16 f16 f16")
@opcode("v_madak_f16", "f16 = f16 f16 f16")
def _multiply_then_add(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return v.add(v.mul(a, b), c)


@opcode("v_madmk_f16", "f16 = f16 f16 f16")
def _multiply_constant_then_add(v: VectorApi, a: Value, k: Value, c: Value) -> Value:
    return v.add(v.mul(a, k), c)
