"""Functions around exp and log, and the error function, in f32.

Polynomials are least-squares fits at Chebyshev nodes, computed for this file; the formulas are
identities given beside them. `pow`, `cbrt`, `log1p`, `erfc` and the inverse hyperbolic functions
work in f64 inside and round once.
"""

from __future__ import annotations

from flydsl_rocdl.devlib.source import Code, V
from flydsl_rocdl.devlib.special_cases import power_cases

__all__ = [
    "acosh",
    "asinh",
    "atanh",
    "cbrt",
    "cosh",
    "erf",
    "erfc",
    "expm1",
    "fmod",
    "log1p",
    "pow_",
    "rsqrt",
    "rsqrt_fast",
    "sinh",
    "tanh",
]

_INF = float("inf")
_NAN = float("nan")

_TANH = (
    -0.3333333317796455, 0.13333304283704805, -0.05395940674611918,
    0.021769965819736958, -0.008346993045338659, 0.0022958529466907147,
)  # fmt: skip
_ERF_MINUS_1 = (
    0.128379166682764, -0.3761263410892168, 0.11283700529106293, -0.026859647514601195,
    0.005201591807247421, -0.000814850606437769, 8.392696595401358e-05,
)  # fmt: skip
_ERFC = (
    0.6265040291407898, -0.06781055250439706, -0.02378114834569994, 0.06482254755912079,
    -0.0596368000031226, 0.034154533654787676, -0.011885520331533976, 0.0012610712226487073,
    0.0009450200233428548, -0.00037790514553917137, -5.221503042995659e-05, 4.4352987487181243e-05,
)  # fmt: skip
_LOG_ERFC = (
    0.00030238046403763263, -1.1301633514051082, -0.6319426628268504, -0.10997311854830456,
    0.02636187340336849, -0.004739245960009352, 0.0005925663826855265, -4.5567138312051475e-05,
    1.6129040664396257e-06,
)  # fmt: skip
_EXPM1 = (
    0.4999999999995142, 0.166666667221925, 0.04166666679356001, 0.008333297080164276,
    0.0013888837106981037, 0.0001990043048693258, 2.486919118134551e-05,
)  # fmt: skip
_SINH = (
    0.16666666646813483, 0.00833333968139114, 0.00019838100491735585, 2.8062901542302835e-06
)  # fmt: skip
_TWO_OVER_LN2 = 2.8853900817779268
_LN2 = 0.6931471805599453


def _log2(c: Code, x: V) -> V:
    """Return log2 of a positive normal double to about 1e-13: 2 atanh((m - 1) / (m + 1)) / ln 2."""
    bits = x.cast("bitcast", "i64")
    exponent = (bits >> 52) - 1023
    mantissa = ((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).cast("bitcast", "double")
    high = mantissa > 1.4142135623730951
    mantissa = high.where(mantissa * 0.5, mantissa)
    exponent = high.where(exponent + 1, exponent)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    series = c.polynomial(s * s, [1.0 / (2 * k + 1) for k in range(9)])
    return c.fma(s * _TWO_OVER_LN2, series, exponent.cast("sitofp", "double"))


def _exp2(c: Code, t: V) -> V:
    """Return 2**t for a double of magnitude up to 1000 to about 1e-13."""
    n = c.intrinsic("rint", t)
    f = (t - n) * _LN2
    factorial, coefficients = 1.0, [1.0]
    for k in range(1, 12):
        factorial *= k
        coefficients.append(1.0 / factorial)
    power = c.polynomial(f, coefficients)
    scale = ((n.cast("fptosi", "i64") + 1023) << 52).cast("bitcast", "double")
    return power * scale


def _clamp(c: Code, t: V, limit: float) -> V:
    """Limit a double's magnitude; NaN becomes a limit."""
    low = c.intrinsic("minnum", c.value(limit, "double"), t)
    return c.intrinsic("maxnum", c.value(-limit, "double"), low)


def pow_(c: Code) -> V:
    """x**y with the special cases of C99 Annex F."""
    x, y = c.arguments
    magnitude = c.abs(x)
    exponent = y.cast("fpext", "double") * _log2(c, magnitude.cast("fpext", "double"))
    out = _exp2(c, _clamp(c, exponent, 1000.0)).cast("fptrunc", "float")
    return power_cases(c, magnitude, out)


def cbrt(c: Code) -> V:
    """Cube root: 2**(log2|x| / 3) with the sign of x."""
    (x,) = c.arguments
    magnitude = c.abs(x)
    third = _log2(c, magnitude.cast("fpext", "double")) * (1.0 / 3.0)
    out = _exp2(c, third).cast("fptrunc", "float")
    keep = magnitude.eq(0.0) | magnitude.eq(_INF) | x.is_nan()
    return keep.where(x, c.copysign(out, x))


def log1p(c: Code) -> V:
    """log(1 + x): log2 of the double 1 + x, or x itself where that is exact to f32."""
    (x,) = c.arguments
    wide = x.cast("fpext", "double") + 1.0
    out = (_log2(c, wide) * _LN2).cast("fptrunc", "float")
    out = (c.abs(x) < 1e-8).where(x, out)
    out = x.eq(_INF).where(x, out)
    out = x.eq(-1.0).where(-_INF, out)
    return ((x < -1.0) | x.is_nan()).where(_NAN, out)


def expm1(c: Code) -> V:
    """exp(x) - 1: a polynomial near zero, the difference elsewhere."""
    (x,) = c.arguments
    small = c.copysign(c.fma(x * x, c.polynomial(x, _EXPM1), x), x)
    large = c.intrinsic("exp", x) - 1.0
    return (c.abs(x) < 0.35).where(small, large)


def sinh(c: Code) -> V:
    """(exp(x) - exp(-x)) / 2, with exp(x) / 2 taken as exp(x/2)**2 / 2 where it would overflow."""
    (x,) = c.arguments
    z = x * x
    small = c.fma(x * z, c.polynomial(z, _SINH), x)
    a = c.abs(x)
    e = c.intrinsic("exp", a)
    middle = c.fma(e, 0.5, c.value(-0.5, "float") / e)
    root = c.intrinsic("exp", a * 0.5)
    large = root * 0.5 * root
    out = (a < 1.0).where(small, c.copysign((a < 88.0).where(middle, large), x))
    return x.eq(0.0).where(x, out)


def cosh(c: Code) -> V:
    """(exp(x) + exp(-x)) / 2."""
    (x,) = c.arguments
    a = c.abs(x)
    e = c.intrinsic("exp", a)
    middle = c.fma(e, 0.5, c.value(0.5, "float") / e)
    root = c.intrinsic("exp", a * 0.5)
    return (a < 88.0).where(middle, root * 0.5 * root)


def tanh(c: Code) -> V:
    """An odd polynomial below 0.625, 1 - 2 / (exp(2|x|) + 1) above."""
    (x,) = c.arguments
    z = x * x
    small = c.fma(x * z, c.polynomial(z, _TANH), x)
    a = c.abs(x)
    e = c.intrinsic("exp", a + a) + 1.0
    large = c.value(1.0, "float") - c.value(2.0, "float") / e
    return c.copysign((a < 0.625).where(small, large), x)


def erf(c: Code) -> V:
    """An odd polynomial below 0.92, 1 - exp(log erfc(|x|)) above."""
    (x,) = c.arguments
    a = c.abs(x)
    small = c.fma(x, c.polynomial(x * x, _ERF_MINUS_1), x)
    bounded = (a < 4.0).where(a, 4.0)
    large = c.value(1.0, "float") - c.intrinsic("exp", c.polynomial(bounded, _LOG_ERFC))
    out = (a < 0.921875).where(small, c.copysign(large, x))
    return x.is_nan().where(x, out)


def fmod(c: Code) -> V:
    """Remainder with the sign of x; the back end expands the instruction exactly."""
    x, y = c.arguments
    return c.emit(f"frem {x.type} {x.text}, {y.text}", x.type)


def _small_or(c: Code, x: V, cubic: float, large: V) -> V:
    """Return x + cubic x**3 for tiny x, else `large` with the sign of x."""
    wide = x.cast("fpext", "double")
    small = c.fma(wide * wide * wide, cubic, wide)
    picked = (c.abs(x) < 1e-4).where(small, c.copysign(large, wide))
    return x.eq(0.0).where(x, picked.cast("fptrunc", "float"))


def asinh(c: Code) -> V:
    """Inverse hyperbolic sine: log(|x| + sqrt(x**2 + 1)) in f64, with the sign of x."""
    (x,) = c.arguments
    a = c.abs(x).cast("fpext", "double")
    root = c.intrinsic("sqrt", c.fma(a, a, 1.0))
    out = _small_or(c, x, -1.0 / 6.0, _log2(c, a + root) * _LN2)
    return (c.abs(x) < _INF).where(out, x)


def acosh(c: Code) -> V:
    """Inverse hyperbolic cosine: log(x + sqrt(x**2 - 1)) in f64; NaN below 1."""
    (x,) = c.arguments
    wide = x.cast("fpext", "double")
    root = c.intrinsic("sqrt", (wide - 1.0) * (wide + 1.0))
    out = (_log2(c, wide + root) * _LN2).cast("fptrunc", "float")
    out = x.eq(_INF).where(x, out)
    return (x >= 1.0).where(out, _NAN)


def atanh(c: Code) -> V:
    """Inverse hyperbolic tangent: log((1 + x) / (1 - x)) / 2 in f64; NaN outside [-1, 1]."""
    (x,) = c.arguments
    a = c.abs(x)
    wide = a.cast("fpext", "double")
    one = c.value(1.0, "double")
    large = _log2(c, (one + wide) / (one - wide)) * (0.5 * _LN2)
    out = _small_or(c, x, 1.0 / 3.0, large)
    out = a.eq(1.0).where(c.copysign(c.value(_INF, "float"), x), out)
    return (a <= 1.0).where(out, _NAN)


def erfc(c: Code) -> V:
    """1 - erf(x) below 1/2, exp(-x**2) times a polynomial in (x - 3) / (x + 3) above, in f64."""
    (x,) = c.arguments
    a = c.abs(x).cast("fpext", "double")
    bounded = (a < 11.0).where(a, 11.0)
    t = (bounded - 3.0) / (bounded + 3.0)
    scaled = c.polynomial(t, _ERFC) / (bounded + 0.5)
    tail = scaled * _exp2(c, bounded * bounded * (-1.0 / _LN2))
    z = a * a
    centre = a * c.polynomial(z, [_ERF_MINUS_1[0] + 1.0, *_ERF_MINUS_1[1:]])
    positive = (a < 0.5).where(c.value(1.0, "double") - centre, tail)
    mirrored = c.value(2.0, "double") - positive
    out = (x < 0.0).where(mirrored, positive).cast("fptrunc", "float")
    return x.is_nan().where(x, out)


def _rsq(c: Code, x: V) -> V:
    symbol = "@llvm.amdgcn.rsq.f32"
    c.declarations[f"declare float {symbol}(float)"] = None
    return c.emit(f"call float {symbol}(float {x.text})", "float")


def rsqrt(c: Code) -> V:
    """The hardware reciprocal square root, which takes no denormals: those are scaled by 2**24."""
    (x,) = c.arguments
    tiny = x < 1.1754943508222875e-38
    out = _rsq(c, x * tiny.where(16777216.0, c.value(1.0, "float")))
    return out * tiny.where(4096.0, c.value(1.0, "float"))


def rsqrt_fast(c: Code) -> V:
    """The hardware reciprocal square root."""
    (x,) = c.arguments
    return _rsq(c, x)
