"""The three steps of a float division: v_div_scale, v_div_fmas, v_div_fixup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import bits_of, exponent
from flydsl_emu.semantics.registry import define
from flydsl_emu.semantics.value_types import F16, F32, F64, I32, U64, Type

__all__: list[str] = []


@dataclass(frozen=True, slots=True)
class _Format:
    """Constants of one type.

    Attributes:
        type: Element type.
        far: Exponent distance from which numerator and denominator are scaled apart.
        near: Numerator exponents up to this one are scaled.
        step: Power of two that moves a value into range.
        bias: Exponent bias.
        lost: Exponent distance below which the quotient vanishes.
    """

    type: Type
    far: int
    near: int
    step: float
    bias: int
    lost: int


_SINGLE = _Format(F32, 96, 23, 2.0**64, 127, -150)
_DOUBLE = _Format(F64, 768, 53, 2.0**128, 1023, -1075)


def _denormal(v: VectorApi, x: Value, smallest: float) -> Value:
    size = v.abs(x)
    return v.bit_and(v.lt(size, smallest), v.bit_not(v.eq(size, 0.0)))


def _scale(form: _Format) -> Callable[..., Value]:
    element = form.type
    smallest = 2.0 ** (1 - form.bias)

    def call(v: VectorApi, value: Value, denominator: Value, numerator: Value) -> Value:
        up, down = v.mul(value, form.step), v.mul(value, 1.0 / form.step)
        bits = bits_of(v, value, element)
        is_denominator = v.eq(bits, bits_of(v, denominator, element))
        if_denominator = v.select(is_denominator, up, value)
        # The ISA guide prints a scale up here, which would overflow; the scale in v_div_fmas and
        # the quotient that it has to undo require the scale down.
        lowered = v.select(is_denominator, down, value)
        if_numerator = v.select(v.eq(bits, bits_of(v, numerator, element)), up, value)
        top, bottom = exponent(v, numerator, element), exponent(v, denominator, element)
        zero = v.bit_or(v.eq(numerator, 0.0), v.eq(denominator, 0.0))
        distant = v.le(v.const(I32, form.far), v.sub(top, bottom))
        tiny = v.eq(bottom, 0)
        # Hardware judges the reciprocal and the quotient before they are rounded to the format.
        wide_top, wide_bottom = v.convert(numerator, F64), v.convert(denominator, F64)
        inverse = _denormal(v, v.div(v.const(F64, 1.0), wide_bottom), smallest)
        quotient = _denormal(v, v.div(wide_top, wide_bottom), smallest)
        result = v.select(v.le(top, v.const(I32, form.near)), up, value)
        result = v.select(quotient, if_numerator, result)
        result = v.select(inverse, v.select(quotient, lowered, down), result)
        result = v.select(tiny, up, result)
        result = v.select(distant, if_denominator, result)
        result = v.select(zero, v.const(element, float("nan")), result)
        flag = v.bit_or(distant, v.bit_and(quotient, v.bit_not(tiny)))
        return result, v.bit_and(flag, v.bit_not(zero))

    return call


def _scaled_once(
    v: VectorApi, operands: tuple[Value, Value, Value], total: Value, factor: Value
) -> Value:
    """Return ``(a * b + c) * factor`` rounded once, for doubles and ``total = fma(a, b, c)``.

    Only a result below the normal range rounds again, and wrongly only from the middle of two
    denormals, where the error of `total` decides. The difference of `c` and `total` is exact: this
    is the last step of a division, and `c` nearly the quotient.
    """
    a, b, c = operands
    result = v.mul(total, factor)
    rest = v.sub(total, v.div(result, factor))
    middle = v.eq(v.abs(rest), v.div(v.const(F64, 2.0**-1074), v.mul(factor, 2.0)))
    error = v.fma(a, b, v.sub(c, total))
    onward = v.bit_or(
        v.bit_and(v.lt(0.0, rest), v.lt(0.0, error)), v.bit_and(v.lt(rest, 0.0), v.lt(error, 0.0))
    )
    bits = v.cast(result, U64)
    larger = v.bit_not(v.bit_xor(v.lt(rest, 0.0), v.eq(v.shr(bits, 63), 1)))
    away, inward = v.cast(v.add(bits, 1), F64), v.cast(v.sub(bits, 1), F64)
    moved = v.select(larger, away, inward)
    return v.select(v.bit_and(middle, onward), moved, result)


def _sum_to_odd(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    """Return ``a * b + c`` of single-precision numbers in double, rounded to odd.

    The product is exact. Rounding to nearest could reach the middle of two single-precision
    numbers, from which rounding again may go the wrong way; a last digit that is set cannot.
    """
    product = v.mul(a, b)
    total = v.add(product, c)
    part = v.sub(total, product)
    error = v.add(v.sub(product, v.sub(total, part)), v.sub(c, part))
    bits = v.cast(total, U64)
    even = v.eq(v.bit_and(bits, 1), 0)
    larger = v.bit_not(v.bit_xor(v.lt(error, 0.0), v.eq(v.shr(bits, 63), 1)))
    odd = v.select(larger, v.cast(v.add(bits, 1), F64), v.cast(v.sub(bits, 1), F64))
    inexact = v.lt(0.0, v.abs(error))  # not for infinities and NaN
    return v.select(v.bit_and(even, inexact), odd, total)


def _fmas(form: _Format) -> Callable[..., Value]:
    def call(v: VectorApi, a: Value, b: Value, c: Value, scaled: Value) -> Value:
        plain = v.fma(a, b, c)
        large = v.lt(v.const(I32, form.bias), exponent(v, c, form.type))
        factor = v.select(large, v.const(F64, form.step), v.const(F64, 1.0 / form.step))
        # Scaling comes before the rounding.
        if form.type is F32:
            wide = _sum_to_odd(v, *(v.convert(x, F64) for x in (a, b, c)))
            return v.select(scaled, v.convert(v.mul(wide, factor), F32), plain)
        return v.select(scaled, _scaled_once(v, (a, b, c), plain, factor), plain)

    return call


def _fixup(type: Type, lost: int | None) -> Callable[..., Value]:
    infinity = float("inf")

    def call(v: VectorApi, quotient: Value, denominator: Value, numerator: Value) -> Value:
        top, bottom = bits_of(v, numerator, type), bits_of(v, denominator, type)
        sign = v.bit_and(v.bit_xor(top, bottom), 1 << (type.bits - 1))

        def signed(size: Value) -> Value:
            return v.cast(v.bit_or(bits_of(v, v.abs(size), type), sign), type)

        size_top, size_bottom = v.abs(numerator), v.abs(denominator)
        zero_top, zero_bottom = v.eq(numerator, 0.0), v.eq(denominator, 0.0)
        infinite_top, infinite_bottom = v.eq(size_top, infinity), v.eq(size_bottom, infinity)
        # A quotient beyond the format makes the refinement steps NaN; it is an infinity.
        bounded = v.select(v.is_nan(quotient), v.const(type, infinity), quotient)
        result = signed(bounded)
        if lost is not None:
            distance = v.sub(exponent(v, numerator, type), exponent(v, denominator, type))
            vanishes = v.lt(distance, v.const(I32, lost))
            result = v.select(vanishes, signed(v.const(type, 0.0)), result)
        nothing = v.bit_or(infinite_bottom, zero_top)
        result = v.select(nothing, signed(v.const(type, 0.0)), result)
        unbounded = v.bit_or(zero_bottom, infinite_top)
        result = v.select(unbounded, signed(v.const(type, infinity)), result)
        invalid = v.bit_or(
            v.bit_and(zero_top, zero_bottom), v.bit_and(infinite_top, infinite_bottom)
        )
        result = v.select(invalid, v.neg(v.const(type, float("nan"))), result)
        result = v.select(v.is_nan(denominator), v.add(denominator, denominator), result)
        return v.select(v.is_nan(numerator), v.add(numerator, numerator), result)

    return call


for _form, _t in ((_SINGLE, "f32"), (_DOUBLE, "f64")):
    define(f"v_div_scale_{_t}", f"{_t} mask = {_t} {_t} {_t}", _scale(_form))
    define(f"v_div_fmas_{_t}", f"{_t} = {_t} {_t} {_t} vcc", _fmas(_form))
    define(f"v_div_fixup_{_t}", f"{_t} = {_t} {_t} {_t}", _fixup(_form.type, _form.lost))
define("v_div_fixup_f16", "f16 = f16 f16 f16", _fixup(F16, None), keeps_high=True)
define("v_div_fixup_legacy_f16", "f16 = f16 f16 f16", _fixup(F16, None))
