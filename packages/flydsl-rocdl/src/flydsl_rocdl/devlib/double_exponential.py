"""Functions around exp and log in f64.

All go through two functions on pairs of doubles: the logarithm as 2 atanh((m - 1) / (m + 1)) and
the exponential as its Taylor series, with the first terms in twice the precision. The formulas are
identities given beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

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
from flydsl_rocdl.devlib.special_cases import power_cases

__all__ = [
    "Power",
    "acosh",
    "asinh",
    "atanh",
    "cbrt",
    "cosh",
    "exp",
    "exp2",
    "expm1",
    "exponential",
    "log",
    "log1p",
    "log2",
    "log10",
    "pow_",
    "rsqrt",
    "sinh",
    "tanh",
]

_INF = float("inf")
_NAN = float("nan")
_LN2 = (0.6931471805599453, 2.3190468138462996e-17)
_INVERSE_LN2 = (1.4426950408889634, 2.0355273740931033e-17)
_INVERSE_LN10 = (0.4342944819032518, 1.098319650216765e-17)
_ODD = ((1 / 3, 1.850371707708594e-17), (1 / 5, -1.1102230246251566e-17))
"""1/3 and 1/5 as pairs."""
_TINY = 2.0**-28
"""Below this, odd functions are their argument: the cubic term is no half of a last place."""


@dataclass(frozen=True, slots=True)
class Power:
    """The number ``(1 + rest) * 2**exponent``.

    Attributes:
        rest: Between -0.3 and 0.42.
        exponent: A whole number, as i32.
    """

    rest: Pair
    exponent: V

    def times(self, factor: Pair, shift: int = 0) -> V:
        """Return the product with a number and ``2**shift``, rounded; it may leave the range."""
        c = self.exponent.code
        whole = (_one_plus(c, self.rest) * factor).rounded()
        return scaled(c, whole, self.exponent + shift)

    def rounded(self, shift: int = 0) -> V:
        """Return the number times ``2**shift``, which may leave the range, as a double."""
        c = self.exponent.code
        return scaled(c, _one_plus(c, self.rest).rounded(), self.exponent + shift)


def scaled(c: Code, x: V, exponent: V) -> V:
    """Return ``x * 2**exponent``."""
    symbol = "@llvm.ldexp.f64.i32"
    c.declarations[f"declare double {symbol}(double, i32)"] = None
    return c.emit(f"call double {symbol}(double {x.text}, i32 {exponent.text})", "double")


def _of(x: V) -> Pair:
    return Pair(x, x.code.value(0.0, "double"))


def _one_plus(c: Code, rest: Pair) -> Pair:
    high = quick_sum(c.value(1.0, "double"), rest.hi)
    return Pair(high.hi, high.lo + rest.lo)


def _clamped(c: Code, x: V, low: float, high: float) -> V:
    """Limit a double; NaN becomes a limit."""
    bounded = c.intrinsic("minnum", c.value(high, "double"), x)
    return c.intrinsic("maxnum", c.value(low, "double"), bounded)


def exponential(c: Code, x: Pair) -> Power:
    """Return e to the power of a number of magnitude up to 2000."""
    n = c.intrinsic("rint", x.hi * _INVERSE_LN2[0])
    whole = product(n, c.value(_LN2[0], "double"))
    near = x.hi - whole.hi  # exact: both are within a factor of two, or n is zero
    r = quick_sum(near, c.fma(-n, _LN2[1], x.lo - whole.lo))
    # exp(r) - 1 - r = r**2 (1/2 + r/6 + ...)
    factorial, coefficients = 1.0, []
    for k in range(2, 16):
        factorial *= k
        coefficients.append(1.0 / factorial)
    square = r.hi * r.hi
    low = c.fma(square, c.polynomial(r.hi, coefficients), c.fma(r.lo, r.hi, r.lo))
    return Power(quick_sum(r.hi, low), n.cast("fptosi", "i32"))


def _minus_one(c: Code, x: Pair) -> Pair:
    """Return exp(x) - 1 for magnitudes up to 690."""
    power = exponential(c, x)
    bits = (power.exponent.cast("sext", "i64") + 1023) << 52
    scale = bits.cast("bitcast", "double")
    high = total(scale, -1.0)
    out = total(high.hi, power.rest.hi * scale)
    return quick_sum(out.hi, out.lo + c.fma(power.rest.lo, scale, high.lo))


def _logarithm(c: Code, x: V, rest: V | None = None) -> Pair:
    """Return log(x + rest) for a positive, finite x; no rest for denormals."""
    tiny = x < 2.2250738585072014e-308
    hi = tiny.where(x * 2.0**54, x)
    bits = hi.cast("bitcast", "i64")
    exponent = (bits >> 52) - 1023
    mantissa = ((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).cast("bitcast", "double")
    high = mantissa > 1.4142135623730951
    mantissa = high.where(mantissa * 0.5, mantissa)
    exponent = high.where(exponent + 1, exponent)
    f = _of(mantissa - 1.0)
    if rest is not None:
        field = c.value(1023, "i64") - exponent
        inverse = ((field < 0).where(0, field) << 52).cast("bitcast", "double")
        f = total(f.hi, rest * inverse)
    exponent = tiny.where(exponent - 54, exponent)
    s = ratio(f, total(c.value(2.0, "double"), f.hi) + Pair(f.lo, c.value(0.0, "double")))
    z = s * s
    # atanh(s) = s (1 + z/3 + z**2/5 + ...)
    series = z.hi * c.polynomial(z.hi, [1.0 / (2 * k + 1) for k in range(3, 13)])
    first = quick_sum(c.value(_ODD[1][0], "double"), series)
    inner = Pair(first.hi, first.lo + _ODD[1][1]) * z
    outer = quick_sum(c.value(_ODD[0][0], "double"), inner.hi)
    inner = Pair(outer.hi, outer.lo + (inner.lo + _ODD[0][1])) * z
    twice = s.scaled(2.0)
    out = twice + twice * inner
    count = exponent.cast("sitofp", "double")
    whole = product(count, c.value(_LN2[0], "double"))
    return Pair(whole.hi, c.fma(count, _LN2[1], whole.lo)) + out


def _log(c: Code, scale: tuple[float, float] | None) -> V:
    (x,) = c.arguments
    value = _logarithm(c, x)
    if scale is not None:
        value = value * constant(c, *scale)
    out = x.eq(_INF).where(x, value.rounded())
    out = x.eq(0.0).where(-_INF, out)
    return (x >= 0.0).where(out, _NAN)


def log(c: Code) -> V:
    """Natural logarithm."""
    return _log(c, None)


def log2(c: Code) -> V:
    """Logarithm to base 2: log(x) / log(2)."""
    return _log(c, _INVERSE_LN2)


def log10(c: Code) -> V:
    """Logarithm to base 10: log(x) / log(10)."""
    return _log(c, _INVERSE_LN10)


def exp(c: Code) -> V:
    """Power of e."""
    (x,) = c.arguments
    out = exponential(c, _of(_clamped(c, x, -800.0, 800.0))).rounded()
    return x.is_nan().where(x, out)


def exp2(c: Code) -> V:
    """Power of 2: exp(x log(2))."""
    (x,) = c.arguments
    argument = constant(c, *_LN2) * _clamped(c, x, -1100.0, 1100.0)
    return x.is_nan().where(x, exponential(c, argument).rounded())


def expm1(c: Code) -> V:
    """exp(x) - 1; from 40 on nothing is lost by leaving out the 1."""
    (x,) = c.arguments
    small = _minus_one(c, _of(_clamped(c, x, -60.0, 40.0))).rounded()
    large = exponential(c, _of(_clamped(c, x, -60.0, 800.0))).rounded()
    out = (x < 40.0).where(small, large)
    keep = (c.abs(x) < 2.0**-54) | x.is_nan()
    return keep.where(x, out)


def pow_(c: Code) -> V:
    """x**y as exp(y log|x|), with the special cases of C99 Annex F."""
    x, y = c.arguments
    magnitude = c.abs(x)
    # The least logarithm is 2**-53, so larger exponents leave the range as well.
    exponent = _logarithm(c, magnitude) * _clamped(c, y, -(2.0**100), 2.0**100)
    inside = c.abs(exponent.hi) < 800.0
    bounded = Pair(_clamped(c, exponent.hi, -800.0, 800.0), inside.where(exponent.lo, 0.0))
    out = exponential(c, bounded).rounded()
    return power_cases(c, magnitude, out)


def cbrt(c: Code) -> V:
    """Cube root: exp(log|x| / 3) with the sign of x."""
    (x,) = c.arguments
    magnitude = c.abs(x)
    third = _logarithm(c, magnitude) * constant(c, *_ODD[0])
    keep = magnitude.eq(0.0) | magnitude.eq(_INF) | x.is_nan()
    inside = Pair(keep.where(0.0, third.hi), keep.where(0.0, third.lo))
    return keep.where(x, c.copysign(exponential(c, inside).rounded(), x))


def rsqrt(c: Code) -> V:
    """1 / sqrt(x), corrected by what the root and the division lost."""
    (x,) = c.arguments
    tiny = x < 2.2250738585072014e-308
    up = tiny.where(2.0**108, c.value(1.0, "double"))
    value = x * up
    s = c.intrinsic("sqrt", value)
    first = c.value(1.0, "double") / s
    lost = c.fma(-s, s, value) * (first * 0.5)  # sqrt(value) - s
    rest = c.fma(-first, s, 1.0) - first * lost
    out = c.fma(first, rest, first)
    usual = (x > 0.0) & (x < _INF)
    return usual.where(out, first) * tiny.where(2.0**54, c.value(1.0, "double"))


def _log_one_plus(c: Code, x: Pair) -> Pair:
    """Return log(1 + x) for x above -1 of magnitude at least 2**-54."""
    whole = total(c.value(1.0, "double"), x.hi)
    return _logarithm(c, whole.hi, whole.lo + x.lo)


def log1p(c: Code) -> V:
    """log(1 + x)."""
    (x,) = c.arguments
    value = _log_one_plus(c, _of(x)).rounded()
    out = ((c.abs(x) < 2.0**-54) | x.eq(_INF)).where(x, value)
    out = x.eq(-1.0).where(-_INF, out)
    return (x >= -1.0).where(out, _NAN)


def _odd(c: Code, x: V, value: V) -> V:
    """Return a positive value with the sign of x; x itself if that is tiny, infinite or NaN."""
    a = c.abs(x)
    return ((a >= _TINY) & (a < _INF)).where(c.copysign(value, x), x)


def sinh(c: Code) -> V:
    """(t + t / (t + 1)) / 2 with t = exp|x| - 1; exp|x| / 2 from 40 on."""
    (x,) = c.arguments
    a = c.abs(x)
    t = _minus_one(c, _of(_clamped(c, a, 0.0, 40.0)))
    small = (t + ratio(t, t + constant(c, 1.0))).rounded() * 0.5
    large = exponential(c, _of(_clamped(c, a, 0.0, 800.0))).rounded(-1)
    return _odd(c, x, (a < 40.0).where(small, large))


def cosh(c: Code) -> V:
    """(e + 1 / e) / 2 with e = exp|x|; e / 2 from 40 on."""
    (x,) = c.arguments
    a = c.abs(x)
    e = _minus_one(c, _of(_clamped(c, a, 0.0, 40.0))) + constant(c, 1.0)
    small = (e + ratio(constant(c, 1.0), e)).rounded() * 0.5
    large = exponential(c, _of(_clamped(c, a, 0.0, 800.0))).rounded(-1)
    return x.is_nan().where(x, (a < 40.0).where(small, large))


def tanh(c: Code) -> V:
    """Hyperbolic tangent: t / (t + 2) with t = exp(2|x|) - 1; 1 from 20 on."""
    (x,) = c.arguments
    a = _clamped(c, c.abs(x), 0.0, 20.0)
    t = _minus_one(c, _of(a + a))
    value = ratio(t, t + constant(c, 2.0)).rounded()
    value = (c.abs(x) < 20.0).where(value, 1.0)
    return ((c.abs(x) < _TINY) | x.is_nan()).where(x, c.copysign(value, x))


def _of_large(c: Code, a: V) -> Pair:
    """Return log(2 a)."""
    return _logarithm(c, a) + constant(c, *_LN2)


def asinh(c: Code) -> V:
    """log(1 + a + a**2 / (1 + sqrt(1 + a**2))) with a = |x|; log(2 a) from 2**28 on."""
    (x,) = c.arguments
    a = c.abs(x)
    bounded = _clamped(c, a, _TINY, 2.0**28)
    square = product(bounded, bounded)
    beyond = ratio(square, root(square + constant(c, 1.0)) + constant(c, 1.0))
    small = _log_one_plus(c, beyond + _of(bounded))
    return _odd(c, x, small.where(a < 2.0**28, _of_large(c, a)).rounded())


def acosh(c: Code) -> V:
    """log(1 + t + sqrt(2 t + t**2)) with t = x - 1; log(2 x) from 2**28 on; NaN below 1."""
    (x,) = c.arguments
    t = _clamped(c, x, 1.0, 2.0**28) - 1.0  # exact
    square = product(t, t) + _of(t + t)
    small = _log_one_plus(c, root(square) + _of(t))
    value = small.where(x < 2.0**28, _of_large(c, x)).rounded()
    out = x.eq(1.0).where(0.0, x.eq(_INF).where(x, value))
    return (x >= 1.0).where(out, _NAN)


def atanh(c: Code) -> V:
    """log(1 + 2 a / (1 - a)) / 2 with a = |x|; NaN outside [-1, 1]."""
    (x,) = c.arguments
    a = c.abs(x)
    inside = ((a < 1.0) & (a >= _TINY)).where(a, c.value(0.5, "double"))
    value = _log_one_plus(c, ratio(_of(inside + inside), total(-inside, 1.0))).rounded() * 0.5
    out = a.eq(1.0).where(c.copysign(c.value(_INF, "double"), x), _odd(c, x, value))
    return (a <= 1.0).where(out, _NAN)
