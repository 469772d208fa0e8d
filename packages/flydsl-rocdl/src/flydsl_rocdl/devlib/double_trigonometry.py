"""Trigonometric functions in f64.

Arguments are reduced by multiples of pi/2, held as three doubles, up to 2**30; larger ones are
multiplied by the bits of 2/pi that matter (Payne and Hanek's method) in integers of 128 bits.
Sines and cosines are Taylor series; the other polynomials are Chebyshev fits, computed for this
file.
"""

from __future__ import annotations

import itertools

from flydsl_rocdl.devlib.double_double import (
    Pair,
    constant,
    product,
    quick_sum,
    ratio,
    root,
    total,
)
from flydsl_rocdl.devlib.source import Code, V
from flydsl_rocdl.devlib.special_cases import circular, if_finite, odd_circular

__all__ = ["acos", "asin", "atan", "atan2", "cos", "sin", "tan"]

_INF = float("inf")
_NAN = float("nan")
_PI_2 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
"""pi/2 as three doubles."""
_TWO_OVER_PI = 0.6366197723675814
_TINY = 2.0**-28
"""Below it a sine or tangent is its argument."""
_BITS = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d192"
    "1cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05"
    "980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f"
    "8d5d0856033046f",
    16,
)
"""The first 1188 bits of 2/pi after the binary point."""
_BIT_COUNT = 1188
_LEADING = 25
"""Zero bits before them in the table of words."""
_ATAN = (
    -0.3333333333333333, 0.19999999999999993, -0.14285714285711518, 0.11111111110754596,
    -0.09090909067001965, 0.07692306735718386, -0.06666642013802823, 0.058819251621305094,
    -0.052580406718134826, 0.0471938939438005, -0.041044134902075015, 0.03063517636855608,
    -0.013917695219310572,
)  # fmt: skip
"""(atan(q) - q) / q**3 in q**2, up to tan(pi/8)."""
_ASIN = (
    0.16666666666666666, 0.07499999999999991, 0.0446428571428834, 0.030381944441363808,
    0.02237215927967998, 0.017352757477819787, 0.013965009932053607, 0.011549086612987425,
    0.009792751320201996, 0.008135829925501657, 0.00879500607648843, 0.000380853033290726,
    0.022553563638202982, -0.024020544918554605, 0.030718768995191097,
)  # fmt: skip
"""(asin(t) - t) / t**3 in t**2, up to 1/2."""


def _series(first: int, count: int) -> list[float]:
    """Return 1/n! with alternating signs for n = first, first + 2, …; negative first."""
    out, value = [], 1.0
    for n in range(2, first + 1):
        value /= n
    for k in range(count):
        out.append(value if k % 2 else -value)
        value /= (first + 2 * k + 1) * (first + 2 * k + 2)
    return out


_SIN, _COS = _series(3, 9), _series(4, 8)


def _near(c: Code, x: V) -> list[V]:
    """Return x - k pi/2 as two doubles, and k as i32, for magnitudes up to 2**30."""
    k = c.intrinsic("rint", x * _TWO_OVER_PI)
    first = product(k, c.value(_PI_2[0], "double"))
    second = product(k, c.value(_PI_2[1], "double"))
    a = total(x, -first.hi)
    b = total(a.hi, -first.lo)
    d = total(b.hi, -second.hi)
    low = a.lo + b.lo + d.lo - second.lo
    r = quick_sum(d.hi, c.fma(-k, _PI_2[2], low))
    return [r.hi, r.lo, k.cast("fptosi", "i32")]


def _window(c: Code, first: V) -> list[V]:
    """Return 192 bits of 2/pi from bit `first` of the table on, as i64, highest first."""
    count = 19
    bits = _BITS << (64 * count - _LEADING - _BIT_COUNT)
    words = [(bits >> (64 * (count - 1 - i))) & 0xFFFFFFFFFFFFFFFF for i in range(count)]
    index, offset = first >> 6, (first & 63).cast("zext", "i64")
    picked = []
    for shift in range(4):
        value: V = c.value(words[shift], "i64")
        for i in range(1, count - 3):
            value = index.eq(i).where(c.value(words[i + shift], "i64"), value)
        picked.append(value)
    return [
        c.emit(f"call i64 @llvm.fshl.i64(i64 {a.text}, i64 {b.text}, i64 {offset.text})", "i64")
        for a, b in itertools.pairwise(picked)
    ]


def _far(c: Code, x: V) -> list[V]:
    """Return what `_near` does, for finite magnitudes from 2**30 on.

    With x = m 2**e, m and e integers, only the bits of 2/pi from weight 2**(1 - e) down can reach
    the quadrant or the fraction of x * 2/pi.
    """
    c.declarations["declare i64 @llvm.fshl.i64(i64, i64, i64)"] = None
    bits = x.cast("bitcast", "i64")
    exponent = ((bits >> 52) & 0x7FF).cast("trunc", "i32") - 1075
    mantissa = ((bits & 0xFFFFFFFFFFFFF) | 0x10000000000000).cast("zext", "i128")
    # Bit i of the table has weight 2**(24 - i), so weight 2**(1 - e) is bit 23 + e.
    high, middle, low = (w.cast("zext", "i128") for w in _window(c, exponent + (_LEADING - 2)))
    turns = ((mantissa * high) << 64) + mantissa * middle + ((mantissa * low) >> 64)
    quadrant = (turns >> 126).cast("trunc", "i32")  # 2 bits, then 126 of the fraction
    fraction = turns << 2
    top = (fraction >> 64).cast("trunc", "i64")
    quadrant = (top < 0).where(quadrant + 1, quadrant)
    upper = c.emit(f"ashr i64 {top.text}, 32", "i64").cast("sitofp", "double") * 2.0**32
    lower = (top & 0xFFFFFFFF).cast("uitofp", "double")
    rest = fraction.cast("trunc", "i64").cast("uitofp", "double") * 2.0**-64
    whole = total(upper, lower)
    part = total(whole.hi, whole.lo + rest)
    r = part * constant(c, _PI_2[0] * 2.0**-64, _PI_2[1] * 2.0**-64)
    negative = bits < 0
    return [
        negative.where(-r.hi, r.hi),
        negative.where(-r.lo, r.lo),
        negative.where(c.value(0, "i32") - quadrant, quadrant),
    ]


def _reduced(c: Code, x: V) -> tuple[Pair, V]:
    """Return x - k pi/2, and k."""
    hi, lo, k = c.branch(c.abs(x) < 2.0**30, lambda: _near(c, x), lambda: _far(c, x))
    return Pair(hi, lo), k


def _sin_cos(c: Code, r: Pair) -> tuple[Pair, Pair]:
    square = product(r.hi, r.hi)
    z = square.hi
    sine = quick_sum(r.hi, c.fma(r.hi * z, c.polynomial(z, _SIN), r.lo))
    # cos(hi + lo) is about cos(hi) - hi lo; 1 - z/2 holds most of it.
    low = c.fma(-r.hi, r.lo, square.lo * -0.5)
    low = c.fma(z * z, c.polynomial(z, [-k for k in _COS]), low)
    first = quick_sum(c.value(1.0, "double"), z * -0.5)
    return sine, quick_sum(first.hi, first.lo + low)


def sin(c: Code) -> V:
    """Sine of any finite argument."""
    (x,) = c.arguments
    r, k = _reduced(c, x)
    sine, cosine = _sin_cos(c, r)
    return odd_circular(c, circular((sine.rounded(), cosine.rounded()), k), _TINY)


def cos(c: Code) -> V:
    """Cosine of any finite argument."""
    (x,) = c.arguments
    r, k = _reduced(c, x)
    sine, cosine = _sin_cos(c, r)
    return if_finite(c, circular((sine.rounded(), cosine.rounded()), k + 1))


def tan(c: Code) -> V:
    """Tangent: sine over cosine of the reduced argument, or minus its reciprocal."""
    (x,) = c.arguments
    r, k = _reduced(c, x)
    sine, cosine = _sin_cos(c, r)
    even = (k & 1).eq(0)
    out = ratio(sine.where(even, -cosine), cosine.where(even, sine)).rounded()
    return odd_circular(c, out, _TINY)


def _angle(c: Code, y: V, x: V) -> Pair:
    """Return atan(y / x) for non-negative doubles, not both zero, the larger near 1."""
    swap = y > x
    a, b = swap.where(x, y), swap.where(y, x)
    # atan(a/b) = pi/4 + atan((a - b) / (a + b))
    far = a > b * 0.41421356237309503
    zero = c.value(0.0, "double")
    q = ratio(
        total(a, -b).where(far, Pair(a, zero)),
        total(a, b).where(far, Pair(b, zero)),
    )
    z = q.hi * q.hi
    out = quick_sum(q.hi, c.fma(q.hi * z, c.polynomial(z, _ATAN), q.lo))
    out = (out + constant(c, _PI_2[0] / 2, _PI_2[1] / 2)).where(far, out)
    return (constant(c, *_PI_2[:2]) - out).where(swap, out)


def atan(c: Code) -> V:
    """Arc tangent."""
    (x,) = c.arguments
    a = c.abs(x)
    one = c.value(1.0, "double")
    bounded = (a < 2.0**60).where(a, 2.0**60)
    out = _angle(c, bounded, one).rounded()
    keep = (a < 2.0**-28) | x.is_nan()
    return keep.where(x, c.copysign(out, x))


def atan2(c: Code) -> V:
    """Angle of the point (x, y), with the special cases of C99 Annex F."""
    y, x = c.arguments
    ay, ax = c.abs(y), c.abs(x)
    both = ay.eq(_INF) & ax.eq(_INF)
    origin = ay.eq(0.0) & ax.eq(0.0)
    # Two infinities stand for the diagonal; 0/0 for the axis.
    wy = both.where(1.0, ax.eq(_INF).where(0.0, ay.eq(_INF).where(1.0, ay)))
    wx = (both | origin).where(1.0, ay.eq(_INF).where(0.0, ax.eq(_INF).where(1.0, ax)))
    # Scaled by powers of two, so that the larger is near 1.
    largest = (wy > wx).where(wy, wx)
    denormal = largest < 2.2250738585072014e-308
    up = denormal.where(2.0**60, c.value(1.0, "double"))
    wy, wx, largest = wy * up, wx * up, largest * up
    exponent = (largest.cast("bitcast", "i64") >> 52) & 0x7FF
    field = c.value(2046, "i64") - exponent
    inverse = (field.eq(0).where(1, field) << 52).cast("bitcast", "double")
    wy, wx = wy * inverse, wx * inverse
    angle = _angle(c, wy, wx)
    behind = x.cast("bitcast", "i64") < 0
    angle = (constant(c, 2 * _PI_2[0], 2 * _PI_2[1]) - angle).where(behind, angle)
    out = c.copysign(angle.rounded(), y)
    return (x.is_nan() | y.is_nan()).where(_NAN, out)


def _asin_parts(c: Code, x: V) -> tuple[V, Pair]:
    """Return whether |x| is above 1/2, and asin(t) of the reduced argument t."""
    a = c.abs(x)
    far = (a > 0.5) & (a <= 1.0)
    # asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2))
    half = (c.value(1.0, "double") - far.where(a, 0.5)) * 0.5
    zero = c.value(0.0, "double")
    positive = half.eq(0.0).where(1.0, half)
    square = root(Pair(positive, zero))
    end = a.eq(1.0)
    square = Pair(end.where(0.0, square.hi), end.where(0.0, square.lo))
    t = square.where(far, Pair(a, zero))
    z = far.where(half, a * a)
    return far, quick_sum(t.hi, c.fma(t.hi * z, c.polynomial(z, _ASIN), t.lo))


def asin(c: Code) -> V:
    """Arc sine; NaN outside [-1, 1]."""
    (x,) = c.arguments
    far, s = _asin_parts(c, x)
    out = (constant(c, *_PI_2[:2]) - s.scaled(2.0)).where(far, s).rounded()
    out = (c.abs(x) < _TINY).where(x, c.copysign(out, x))
    return (c.abs(x) <= 1.0).where(out, _NAN)


def acos(c: Code) -> V:
    """Arc cosine; NaN outside [-1, 1]."""
    (x,) = c.arguments
    far, s = _asin_parts(c, x)
    negative = x < 0.0
    near = constant(c, *_PI_2[:2]) - (-s).where(negative, s)
    twice = s.scaled(2.0)
    half_turn = constant(c, 2 * _PI_2[0], 2 * _PI_2[1])
    out = (half_turn - twice).where(negative, twice).where(far, near)
    return (c.abs(x) <= 1.0).where(out.rounded(), _NAN)
