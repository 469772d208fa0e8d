"""Mean and scale of a row in registers.

The variance takes two passes over the registers. Differences from a rounded mean have a mean of
their own, the rounding error of the first; it is summed along and taken out, so that rows with a
large common offset keep their digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flydsl.expr as fx
from flydsl_kernels.norm.device.combine import sum_of, sum_row
from flydsl_kernels.norm.device.rows import Share, blanked, ratio

__all__ = ["Moments", "centred", "scale_of", "square_sum"]

Moments = tuple[list[Any], Any, Any, Any]
"""Values x - mean (or x), the mean subtracted, and scale and shift: x̂ = value * scale + shift."""


def scale_of(square: Any, eps: float) -> Any:
    """Return (square + eps)^(-1/2) to one unit in the last place."""
    # The instruction takes no denormals, which only a tiny epsilon lets through.
    flags = fx.arith.FastMathFlags.afn if eps > 2.0**-100 else None
    return fx.math.rsqrt(square + eps, fastmath=flags)


def square_sum(values: list[Any], chunks: int) -> Any:
    """Return the sum of the squares of a thread's f32 values."""
    total = fx.Float32(0.0)
    if chunks:
        vector = values[0] * values[0]
        for value in values[1:chunks]:
            vector = fx.math.fma(value, value, vector)
        total = vector.reduce("add")
    for value in values[chunks:]:
        total = fx.math.fma(value, value, total)
    return total


def nothing() -> None:
    """Do nothing."""


def centred(
    values: list[Any],
    share: Share,
    columns: Any,
    norm: Any,
    meanwhile: Callable[[], None] = nothing,
) -> Moments:
    """Return a row's values, centred for LayerNorm, with what normalises them.

    Args:
        values: The thread's f32 values, zero where it has none.
        share: Its share.
        columns: Length of the row as `Float32`.
        norm: Its `mean` and `eps`.
        meanwhile: Called when a thread has its own sums, to load what is needed next.
    """
    plan = share.plan
    if not norm.mean:
        squares = square_sum(values, plan.chunks)
        meanwhile()
        (squares,) = sum_row([squares], share)
        return values, fx.Float32(0.0), scale_of(ratio(squares, columns), norm.eps), fx.Float32(0.0)
    # The mean's opposite: two sums are one instruction on some targets, two differences are not.
    (total,) = sum_row([-sum_of(values, plan.chunks)], share)
    opposite = ratio(total, columns)
    values = [blanked(value + opposite, i, share) for i, value in enumerate(values)]
    sums = [sum_of(values, plan.chunks), square_sum(values, plan.chunks)]
    meanwhile()
    left, squares = sum_row(sums, share)
    left = ratio(left, columns)
    variance = fx.max(ratio(squares, columns) - left * left, fx.Float32(0.0))
    scale = scale_of(variance, norm.eps)
    return values, -opposite, scale, -left * scale
