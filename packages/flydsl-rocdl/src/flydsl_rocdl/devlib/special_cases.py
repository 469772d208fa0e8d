"""What results are at zeros, infinities and NaN, for functions of any float type."""

from __future__ import annotations

from flydsl_rocdl.devlib.source import Code, V

__all__ = ["circular", "if_finite", "odd_circular", "power_cases"]

_INF = float("inf")
_NAN = float("nan")
_BITS = {"float": "i32", "double": "i64"}


def circular(values: tuple[V, V], quadrant: V) -> V:
    """Return the sine of an angle.

    Args:
        values: Sine and cosine of the angle without its quarter turns.
        quadrant: How many those are; one more gives the cosine.
    """
    sine, cosine = values
    out = (quadrant & 1).eq(0).where(sine, cosine)
    return (quadrant & 2).eq(0).where(out, -out)


def odd_circular(c: Code, out: V, tiny: float) -> V:
    """Return an odd function as `if_finite`, arguments below `tiny` as they are, zeros too."""
    (x,) = c.arguments
    return if_finite(c, (c.abs(x) < tiny).where(x, out))


def if_finite(c: Code, out: V) -> V:
    """Return a number where the function's argument is finite, else NaN."""
    (x,) = c.arguments
    return (c.abs(x) < _INF).where(out, _NAN)


def power_cases(c: Code, magnitude: V, out: V) -> V:
    """Return x**y with the special cases of C99 Annex F.

    Args:
        c: The function, whose arguments are x and y.
        magnitude: |x|.
        out: |x|**y; may be anything where |x| is zero or infinite, or an argument is NaN.
    """
    x, y = c.arguments
    kind = x.type
    grows = y > 0.0
    out = magnitude.eq(0.0).where(grows.where(0.0, c.value(_INF, kind)), out)
    out = magnitude.eq(_INF).where(grows.where(c.value(_INF, kind), 0.0), out)
    whole = c.intrinsic("trunc", y).eq(y)
    half = y * 0.5
    odd = whole & (c.intrinsic("trunc", half).eq(half) ^ 1)
    negative = x.cast("bitcast", _BITS[kind]) < 0
    out = (negative & odd).where(-out, out)
    invalid = (x < 0.0) & (whole ^ 1) & (magnitude < _INF)
    out = invalid.where(_NAN, out)
    out = (x.is_nan() | y.is_nan()).where(_NAN, out)
    one = x.eq(1.0) | y.eq(0.0) | (magnitude.eq(1.0) & c.abs(y).eq(_INF))
    return one.where(1.0, out)
