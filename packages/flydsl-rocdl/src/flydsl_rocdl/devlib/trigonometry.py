"""Trigonometric functions in f32.

Arguments are reduced by multiples of pi/2 in f64 with two-part pi/2, which is exact enough up to
2**30; larger ones are multiplied by the bits of 2/pi that matter (Payne and Hanek's method) in
64-bit integers. Polynomials are least-squares fits at Chebyshev nodes, computed for this file.
"""

from __future__ import annotations

import itertools

from flydsl_rocdl.devlib.source import Code, V
from flydsl_rocdl.devlib.special_cases import circular, if_finite, odd_circular

__all__ = ["acos", "asin", "atan", "atan2", "cos", "sin", "tan"]

_NAN = float("nan")
_INF = float("inf")
_SIN = (
    -0.16666666663630897, 0.008333331787034229, -0.0001984003963900109, 2.7243865368823042e-06
)  # fmt: skip
_COS = (
    0.0416666666641321, -0.0013888887598558768, 2.4800560968625016e-05, -2.72958910815788e-07
)  # fmt: skip
_ATAN = (
    0.9999999999791069, -0.3333333212682709, 0.19999885816931207, -0.14281636972762785,
    0.1104102560560056, -0.08458946458460047, 0.0471265247491515,
)  # fmt: skip
_ASIN = (
    0.16666666687332338, 0.07499992038631569, 0.04464783679933131, 0.030266157669227557,
    0.023634993550313076, 0.010491491616366339, 0.031085677276078114,
)  # fmt: skip
_TWO_OVER_PI = 0.6366197723675814
_TINY = 1e-20
"""Below it a sine or tangent is its argument."""
_PIO2_HIGH, _PIO2_LOW = 1.5707963267948966, 6.123233995736766e-17
_TWO_OVER_PI_BITS = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561
"""The first 256 bits of 2/pi after the binary point."""
_WINDOW_WORDS = 9


def _small_reduction(c: Code, x: V) -> tuple[V, V]:
    """Return (x - k pi/2 as double, k as i32) for magnitudes up to 2**30."""
    wide = x.cast("fpext", "double")
    k = c.intrinsic("rint", wide * _TWO_OVER_PI)
    minus_k = -k
    r = c.fma(minus_k, _PIO2_LOW, c.fma(minus_k, _PIO2_HIGH, wide))
    return r, k.cast("fptosi", "i32")


def _window(c: Code, index: V, offset: V) -> list[V]:
    """Return three 32-bit words of 2/pi (as i64, highest first) from bit 32 * index + offset on."""
    # A leading zero word makes room for the two integer bits that count as quadrants.
    total = _TWO_OVER_PI_BITS
    words = [0] + [(total >> (224 - 32 * i)) & 0xFFFFFFFF for i in range(8)]
    assert len(words) == _WINDOW_WORDS
    picked = []
    for shift in range(4):
        value: V = c.value(words[shift], "i64")
        for i in range(1, _WINDOW_WORDS - 3):
            value = index.eq(i).where(c.value(words[i + shift], "i64"), value)
        picked.append(value)
    out = []
    for high, low in itertools.pairwise(picked):
        pair = (high << 32) | low
        out.append((pair >> (c.value(32, "i64") - offset)) & 0xFFFFFFFF)
    return out


def _large_reduction(c: Code, x: V) -> tuple[V, V]:
    """Return (x - k pi/2 as double, k as i32) for finite magnitudes from 2**23 on.

    With x = m 2**e, m and e integers, only the bits of 2/pi from weight 2**(1 - e) down can reach
    the quadrant or the fraction of x * 2/pi.
    """
    bits = x.cast("bitcast", "i32")
    exponent = ((bits >> 23) & 0xFF) - 150
    mantissa = ((bits & 0x7FFFFF) | 0x800000).cast("zext", "i64")
    # Bit 31 of the leading zero word has weight 2**31, so weight 2**(1 - e) is bit 30 + e.
    first = exponent + 30
    index, offset = first >> 5, (first & 31).cast("zext", "i64")
    w2, w1, w0 = _window(c, index, offset)
    low = mantissa * w0
    middle = mantissa * w1 + (low >> 32)
    high = mantissa * w2 + (middle >> 32)
    turns = (high << 32) | (middle & 0xFFFFFFFF)  # 2 quadrant bits, 62 fraction bits
    fraction = turns << 2
    quadrant = (turns >> 62).cast("trunc", "i32")
    quadrant = (fraction < 0).where(quadrant + 1, quadrant)
    r = fraction.cast("sitofp", "double") * (_PIO2_HIGH * 2.0**-64)
    negative = bits < 0
    return negative.where(-r, r), negative.where(c.value(0, "i32") - quadrant, quadrant)


def _reduce(c: Code, x: V) -> tuple[V, V]:
    """Return (x - k pi/2 in f32, k)."""
    r, k = c.branch(
        c.abs(x) < 1073741824.0,
        lambda: _small_reduction(c, x),
        lambda: _large_reduction(c, x),
    )
    return r.cast("fptrunc", "float"), k


def _sin_cos(c: Code, r: V) -> tuple[V, V]:
    z = r * r
    sine = c.fma(r * z, c.polynomial(z, _SIN), r)
    cosine = c.fma(z * z, c.polynomial(z, _COS), c.fma(z, -0.5, 1.0))
    return sine, cosine


def sin(c: Code) -> V:
    """Sine of any finite argument."""
    (x,) = c.arguments
    r, k = _reduce(c, x)
    sine, cosine = _sin_cos(c, r)
    return odd_circular(c, circular((sine, cosine), k), _TINY)


def cos(c: Code) -> V:
    """Cosine of any finite argument."""
    (x,) = c.arguments
    r, k = _reduce(c, x)
    sine, cosine = _sin_cos(c, r)
    return if_finite(c, circular((sine, cosine), k + 1))


def tan(c: Code) -> V:
    """Tangent: sine over cosine of the reduced argument, or minus its reciprocal."""
    (x,) = c.arguments
    r, k = _reduce(c, x)
    sine, cosine = _sin_cos(c, r)
    even = (k & 1).eq(0)
    out = even.where(sine, -cosine) / even.where(cosine, sine)
    return odd_circular(c, out, _TINY)


def _atan_positive(c: Code, y: V, x: V) -> V:
    """Return atan(y / x) for non-negative doubles; the quotient is reduced below tan(pi/8)."""
    swap = y > x
    a, b = swap.where(x, y), swap.where(y, x)
    # atan(a/b) = pi/4 + atan((a - b) / (a + b))
    far = a > b * 0.41421356237309503
    numerator = far.where(a - b, a)
    denominator = far.where(a + b, b)
    q = numerator / denominator
    out = q * c.polynomial(q * q, _ATAN)
    out = far.where(out + _PIO2_HIGH / 2, out)
    return swap.where(c.value(_PIO2_HIGH, "double") - out, out)


def atan(c: Code) -> V:
    """Arc tangent."""
    (x,) = c.arguments
    wide = c.abs(x).cast("fpext", "double")
    out = _atan_positive(c, wide, c.value(1.0, "double")).cast("fptrunc", "float")
    out = c.abs(x).eq(_INF).where(_PIO2_HIGH, out)
    return x.is_nan().where(x, c.copysign(out, x))


def atan2(c: Code) -> V:
    """Angle of the point (x, y), with the special cases of C99 Annex F."""
    y, x = c.arguments
    ay, ax = c.abs(y), c.abs(x)
    both = ay.eq(_INF) & ax.eq(_INF)
    # Two infinities stand for the diagonal; 0/0 for the axis.
    wy = both.where(1.0, ay).cast("fpext", "double")
    wx = both.where(1.0, ax).cast("fpext", "double")
    origin = ay.eq(0.0) & ax.eq(0.0)
    wx = origin.where(1.0, wx)
    wy = (ay.eq(_INF) & (both ^ 1)).where(1.0, wy)
    wx = (ay.eq(_INF) & (both ^ 1)).where(0.0, wx)
    wy = (ax.eq(_INF) & (both ^ 1)).where(0.0, wy)
    wx = (ax.eq(_INF) & (both ^ 1)).where(1.0, wx)
    angle = _atan_positive(c, wy, wx)
    behind = x.cast("bitcast", "i32") < 0
    angle = behind.where(c.value(2 * _PIO2_HIGH, "double") - angle, angle)
    out = c.copysign(angle.cast("fptrunc", "float"), y)
    return (x.is_nan() | y.is_nan()).where(_NAN, out)


def _asin_parts(c: Code, x: V) -> tuple[V, V, V]:
    """Return (|x| above 1/2, z, t) with asin(t) = t + t z P(z) for the reduced argument t."""
    a = c.abs(x).cast("fpext", "double")
    far = a > 0.5
    # asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2))
    z = far.where((c.value(1.0, "double") - a) * 0.5, a * a)
    return far, z, far.where(c.intrinsic("sqrt", z), a)


def asin(c: Code) -> V:
    """Arc sine; NaN outside [-1, 1]."""
    (x,) = c.arguments
    far, z, t = _asin_parts(c, x)
    s = c.fma(t * z, c.polynomial(z, _ASIN), t)
    out = far.where(c.fma(s, -2.0, _PIO2_HIGH), s)
    out = c.copysign(out.cast("fptrunc", "float"), x)
    return (c.abs(x) <= 1.0).where(out, _NAN)


def acos(c: Code) -> V:
    """Arc cosine; NaN outside [-1, 1]."""
    (x,) = c.arguments
    far, z, t = _asin_parts(c, x)
    s = c.fma(t * z, c.polynomial(z, _ASIN), t)
    negative = x < 0.0
    near = c.value(_PIO2_HIGH, "double") - negative.where(-s, s)
    twice = s * 2.0
    out = far.where(negative.where(c.value(2 * _PIO2_HIGH, "double") - twice, twice), near)
    return (c.abs(x) <= 1.0).where(out.cast("fptrunc", "float"), _NAN)
