"""Numbers held as the unevaluated sum of two doubles, about 106 bits (Dekker 1971, Knuth).

The f64 device functions compute with these where one double would lose too much.
"""

from __future__ import annotations

from dataclasses import dataclass

from flydsl_rocdl.devlib.source import Code, Number, V

__all__ = ["Pair", "constant", "product", "quick_sum", "ratio", "root", "total"]


@dataclass(frozen=True, slots=True)
class Pair:
    """A number ``hi + lo`` with `lo` at most half a unit in the last place of `hi`.

    Attributes:
        hi: The number, rounded to a double.
        lo: What the rounding lost, itself rounded.
    """

    hi: V
    lo: V

    def __neg__(self) -> Pair:
        return Pair(-self.hi, -self.lo)

    def __add__(self, other: Pair) -> Pair:
        high = total(self.hi, other.hi)
        return quick_sum(high.hi, high.lo + (self.lo + other.lo))

    def __sub__(self, other: Pair) -> Pair:
        return self + -other

    def __mul__(self, other: Pair | V) -> Pair:
        c = self.hi.code
        factor = other if isinstance(other, Pair) else Pair(other, c.value(0.0, "double"))
        high = product(self.hi, factor.hi)
        low = c.fma(self.lo, factor.hi, high.lo)
        if isinstance(other, Pair):
            low = c.fma(self.hi, factor.lo, low)
        return quick_sum(high.hi, low)

    def scaled(self, power: float) -> Pair:
        """Return the product with a power of two, which is exact."""
        return Pair(self.hi * power, self.lo * power)

    def rounded(self) -> V:
        """Return the sum as one double."""
        return self.hi + self.lo

    def where(self, condition: V, other: Pair) -> Pair:
        """Return this number where the condition holds, else the other."""
        return Pair(
            condition.where(self.hi, other.hi),
            condition.where(self.lo, other.lo),
        )


def constant(c: Code, hi: float, lo: float = 0.0) -> Pair:
    """Return a constant given as two doubles."""
    return Pair(c.value(hi, "double"), c.value(lo, "double"))


def total(a: V, b: Number) -> Pair:
    """Return a + b without error."""
    b = a.code.value(b, "double")
    hi = a + b
    part = hi - a
    return Pair(hi, (a - (hi - part)) + (b - part))


def quick_sum(a: V, b: V) -> Pair:
    """Return a + b without error, where `a` is the larger in magnitude (or is zero)."""
    hi = a + b
    return Pair(hi, b - (hi - a))


def product(a: V, b: V) -> Pair:
    """Return a * b without error, unless it leaves the normal range."""
    hi = a * b
    return Pair(hi, a.code.fma(a, b, -hi))


def ratio(a: Pair, b: Pair) -> Pair:
    """Return a / b."""
    c = a.hi.code
    first = a.hi / b.hi
    rest = c.fma(-first, b.hi, a.hi)
    rest = c.fma(-first, b.lo, rest + a.lo)
    return quick_sum(first, rest / b.hi)


def root(a: Pair) -> Pair:
    """Return the square root of a positive number."""
    c = a.hi.code
    first = c.intrinsic("sqrt", a.hi)
    rest = c.fma(-first, first, a.hi) + a.lo
    return quick_sum(first, rest / (first * 2.0))
