"""The error function and its complement in f64.

Polynomials are Chebyshev fits, computed for this file.
"""

from __future__ import annotations

from flydsl_rocdl.devlib.double_double import Pair, product, quick_sum, ratio, total
from flydsl_rocdl.devlib.double_exponential import exponential
from flydsl_rocdl.devlib.source import Code, V

__all__ = ["erf", "erfc"]

_ERF_MINUS_1 = (
    0.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076792,
    0.0052239776248180145, -0.000854832698083379, 0.0001205533111164271,
    -1.4925595266831182e-05, 1.6461000484121368e-06, -1.6350312701054695e-07,
    1.4659775274047436e-08, -1.1372848856791674e-09, 5.957176147748911e-11,
)  # fmt: skip
"""erf(x) / x - 1 in x**2, from 0 to 1."""
_ERFC = (
    0.6265040291348648, -0.0678105530622906, -0.02378114717672565, 0.06482257935138151,
    -0.05963683170763223, 0.03415401367194301, -0.011885257459986571, 0.0012646959089971954,
    0.000944345189322887, -0.00038991614902075236, -5.257997908285092e-05, 6.254979198681584e-05,
    2.475119318764811e-06, -1.0050960857185262e-05, -3.6676568271462116e-07,
    1.7387304949922905e-06, 1.7952829139848558e-07, -3.140453967066877e-07,
    -6.954637208274544e-08, 5.800368465349475e-08, 1.600319839033682e-08, -1.0034419063776075e-08,
)  # fmt: skip
"""erfc(a) exp(a**2) (a + 1/2) in (a - 3) / (a + 3), for a from 0.75 to 27.5."""


def _centre(c: Code, a: V) -> Pair:
    """Return erf(a) for a from 0 to 1."""
    return quick_sum(a, a * c.polynomial(a * a, _ERF_MINUS_1))


def _tail(c: Code, a: V) -> V:
    """Return erfc(a) for a from 0.75 to 27.5."""
    t = (a - 3.0) / (a + 3.0)
    fitted = quick_sum(c.value(_ERFC[0], "double"), t * c.polynomial(t, _ERFC[1:]))
    factor = ratio(fitted, total(a, 0.5))
    return exponential(c, -product(a, a)).times(factor)


def _bounded(c: Code, a: V, low: float, high: float) -> V:
    return c.intrinsic(
        "maxnum", c.value(low, "double"), c.intrinsic("minnum", c.value(high, "double"), a)
    )


def erf(c: Code) -> V:
    """An odd polynomial below 1, 1 - erfc(|x|) above; 1 from 6 on."""
    (x,) = c.arguments
    a = c.abs(x)
    small = _centre(c, a).rounded()
    large = c.value(1.0, "double") - _tail(c, _bounded(c, a, 1.0, 6.0))
    value = c.copysign((a < 1.0).where(small, large), x)
    return x.is_nan().where(x, value)


def erfc(c: Code) -> V:
    """Below 0.75 1 - erf(x), above exp(-x**2) times a polynomial; mirrored for negative x."""
    (x,) = c.arguments
    a = c.abs(x)
    centre = _centre(c, _bounded(c, a, 0.0, 1.0))
    signed = Pair(c.copysign(centre.hi, x), (x < 0.0).where(-centre.lo, centre.lo))
    one = c.value(1.0, "double")
    near = total(one, -signed.hi)
    small = near.hi + (near.lo - signed.lo)
    tail = _tail(c, _bounded(c, a, 0.75, 27.5))
    large = (x < 0.0).where(c.value(2.0, "double") - tail, tail)
    return x.is_nan().where(x, (a < 0.75).where(small, large))
