"""Mean and variance in one pass, without cancellation."""

from __future__ import annotations

from typing import Any, NamedTuple

from flydsl.expr.numeric import Boolean
from flydsl.expr.numeric.operators import select

__all__ = ["Welford", "merge_welford"]


class Welford(NamedTuple):
    """What is known of some numbers: how many, their mean, and the sum of squared deviations.

    Attributes:
        count: How many, as a float.
        mean: Their mean; any number if there are none.
        m2: Sum of the squares of their distances to the mean.
    """

    count: Any
    mean: Any
    m2: Any

    @classmethod
    def of(cls, value: Any, valid: Any = True) -> Welford:
        """Return the statistics of one float, or of none where `valid` is false."""
        kind = value.dtype
        zero = kind(0.0)
        flag = Boolean(valid)
        return cls(select(flag, kind(1.0), zero), select(flag, value, zero), zero)

    def variance(self, correction: Any = 0.0) -> Any:
        """Return the variance: `m2` divided by the count less `correction`."""
        return self.m2 / (self.count - correction)


def merge_welford(a: Welford, b: Welford) -> Welford:
    """Return the statistics of two sets together (Chan, Golub and LeVeque 1979).

    Use it as the operation of a reduction. Empty sets are neutral. The error of the variance grows
    with the number of merges, not with the ratio of mean and deviation.
    """
    count = a.count + b.count
    share = (count == 0.0).select(type(a.count)(0.0), b.count / count)
    delta = b.mean - a.mean
    return Welford(count, a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.count * share)
