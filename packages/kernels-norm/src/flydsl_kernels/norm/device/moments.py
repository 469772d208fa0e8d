"""Mean and scale of a row in registers.

The variance takes two passes over the registers. Differences from a rounded mean have a mean of
their own, the rounding error of the first; it is summed along and taken out, so that rows with a
large common offset keep their digits.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl_kernels.norm.device.combine import add, combine_row, sum_of
from flydsl_kernels.norm.device.rows import Share, blanked

__all__ = ["Moments", "centred", "square_sum"]

Moments = tuple[list[Any], Any, Any, Any]
"""Values x - mean (or x), the mean subtracted, and scale and shift: x̂ = value * scale + shift."""


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


def centred(values: list[Any], share: Share, columns: Any, eps: Any, mean: bool) -> Moments:
    """Return a row's values, centred if `mean`, with what normalises them.

    Args:
        values: The thread's f32 values, zero where it has none.
        share: Its share.
        columns: Length of the row as `Float32`.
        eps: Added to the variance (or the mean square).
        mean: Subtract the mean: LayerNorm, else RMSNorm.
    """
    plan = share.plan
    if not mean:
        (squares,) = combine_row([square_sum(values, plan.chunks)], add, share)
        return values, fx.Float32(0.0), fx.rsqrt(squares / columns + eps), fx.Float32(0.0)
    (total,) = combine_row([sum_of(values, plan.chunks)], add, share)
    middle = total / columns
    values = [blanked(value - middle, i, share) for i, value in enumerate(values)]
    left, squares = combine_row(
        [sum_of(values, plan.chunks), square_sum(values, plan.chunks)], add, share
    )
    left = left / columns
    variance = fx.max(squares / columns - left * left, fx.Float32(0.0))
    scale = fx.rsqrt(variance + eps)
    return values, middle, scale, -left * scale
