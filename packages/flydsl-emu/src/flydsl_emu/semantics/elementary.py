"""Exponential, logarithm, sine and cosine in double precision, as formulas over the vector API.

Only additions, multiplications and divisions that every tier rounds alike are used, so that tiers
agree bit for bit; the C library's routines differ from machine to machine. Errors stay below two
units of the last place of a double, far below half a unit of the single and half results that they
are rounded to. The polynomials are the Taylor series, long enough that what they leave out does not
show: the arguments are reduced to at most 0.5 (exponent), 0.172 (logarithm) and pi/4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.value_types import F64, I32, U32, U64

__all__ = ["EXP2", "LOG2", "SHIFTER", "cos", "exp2", "log2", "sin"]

SHIFTER = 1.5 * 2.0**52
"""Added to a number below 2**51 it leaves the nearest integer in the low bits of the sum."""

_LN2 = Fraction(693147180559945309417232121458176568075500134360255, 10**51)
EXP2 = tuple(float(_LN2**k / math.factorial(k)) for k in range(14))
"""Coefficients of ``2**x``: powers of ln 2 over factorials."""
LOG2 = tuple(float(2 / (_LN2 * (2 * k + 1))) for k in range(11))
"""Coefficients of ``log2(m) / s`` in ``s**2``, where ``s = (m - 1) / (m + 1)``."""
_SIN = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(9))
_COS = tuple((-1) ** k / math.factorial(2 * k) for k in range(10))
# pi/2 in two parts; the first has 33 bits, so that its products with small integers are exact.
_HALF_PI_HIGH = math.floor(math.pi / 2 * 2**32) / 2**32
_HALF_PI_LOW = float(
    Fraction(314159265358979323846264338327950288419716939937510, 2 * 10**50)
    - Fraction(_HALF_PI_HIGH)
)


def _polynomial(v: VectorApi, x: Value, coefficients: Sequence[float]) -> Value:
    total = v.const(F64, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = v.add(v.mul(total, x), c)
    return total


def exp2(v: VectorApi, x: Value) -> Value:
    """Return ``2**x`` of an ``F64``; it is bounded to +-200, beyond the range of f32."""
    low, high = v.const(F64, -200.0), v.const(F64, 200.0)
    y = v.select(v.lt(x, low), low, x)
    y = v.select(v.lt(high, y), high, y)
    shifted = v.add(y, SHIFTER)
    fraction = v.sub(y, v.sub(shifted, SHIFTER))
    power = v.cast(v.add(v.shl(v.cast(shifted, U64), 52), 1023 << 52), F64)
    return v.select(v.is_nan(x), x, v.mul(_polynomial(v, fraction, EXP2), power))


def log2(v: VectorApi, x: Value) -> Value:
    """Return the base-2 logarithm of an ``F64`` that is not denormal."""
    bits = v.cast(x, U64)
    field = v.cast(v.convert(v.shr(bits, 52), U32), I32)
    mantissa = v.cast(v.bit_or(v.bit_and(bits, (1 << 52) - 1), 1023 << 52), F64)
    large = v.lt(v.const(F64, math.sqrt(2.0)), mantissa)
    mantissa = v.select(large, v.mul(mantissa, 0.5), mantissa)
    power = v.convert(v.sub(field, v.select(large, v.const(I32, 1022), v.const(I32, 1023))), F64)
    s = v.div(v.sub(mantissa, 1.0), v.add(mantissa, 1.0))
    result = v.add(v.mul(_polynomial(v, v.mul(s, s), LOG2), s), power)
    result = v.select(v.eq(x, float("inf")), x, result)
    result = v.select(v.lt(x, 0.0), v.const(F64, float("nan")), result)
    result = v.select(v.eq(x, 0.0), v.const(F64, float("-inf")), result)
    return v.select(v.is_nan(x), x, result)


def _turned(v: VectorApi, x: Value, first: int) -> Value:
    """Return the sine of ``x + first * pi/2`` for ``|x|`` below 2**18."""
    shifted = v.add(v.mul(x, 2.0 / math.pi), SHIFTER)
    quarters = v.sub(shifted, SHIFTER)
    rest = v.sub(v.sub(x, v.mul(quarters, _HALF_PI_HIGH)), v.mul(quarters, _HALF_PI_LOW))
    square = v.mul(rest, rest)
    sine = v.mul(_polynomial(v, square, _SIN), rest)
    cosine = _polynomial(v, square, _COS)
    quadrant = v.add(v.convert(v.cast(shifted, U64), U32), first)
    result = v.select(v.eq(v.bit_and(quadrant, 1), 0), sine, cosine)
    result = v.select(v.eq(v.bit_and(quadrant, 2), 0), result, v.neg(result))
    # An infinity has no sine.
    return v.select(v.eq(v.abs(x), float("inf")), v.sub(x, x), result)


def sin(v: VectorApi, x: Value) -> Value:
    """Return the sine of an ``F64`` in radians, below 2**18 in size."""
    return _turned(v, x, 0)


def cos(v: VectorApi, x: Value) -> Value:
    """Return the cosine of an ``F64`` in radians, below 2**18 in size."""
    return _turned(v, x, 1)
