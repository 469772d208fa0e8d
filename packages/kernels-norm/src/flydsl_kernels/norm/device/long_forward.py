"""Normalisation of rows that do not fit in registers: one loop for the moments, one to write.

Mean and squared deviation of each thread's elements are updated vector by vector (Welford 1962;
Chan, Golub and LeVeque 1979, for merging), so the row is read twice, not three times. They are of
x - pivot, where the pivot is the mean of the row's first vectors, one of each thread. That is at
least a thirty-second of the row, so the row's mean is at most six standard deviations away from it,
and a large common offset costs no accuracy.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.norm.device.combine import add, combine_row
from flydsl_kernels.norm.device.rows import (
    Share,
    affine,
    column_count,
    load_tail,
    load_vector,
    own_share,
    store_tail,
    store_vector,
)
from flydsl_kernels.norm.selection import NormPlan

__all__ = ["long_add_norm_kernel", "long_moments", "long_norm_kernel"]


def vector_moments(value: Any, vector: int) -> tuple[Any, Any]:
    """Return mean and sum of squared deviations of an f32 vector."""
    mean = value.reduce("add") * (1.0 / vector)
    off = value - mean
    return mean, (off * off).reduce("add")


@flyc.jit
def thread_moments(start: Any, share: Share, pivot: Any) -> tuple[Any, Any, Any]:
    """Return count, mean less `pivot`, and squared deviation of a thread's elements of a row."""
    vector = share.plan.vector
    count, mean, squares = fx.Float32(0.0), fx.Float32(0.0), fx.Float32(0.0)
    for index in range(share.lane, share.full, share.plan.lanes):
        value = load_vector(start, index, share).to(fx.Float32)
        new_mean, new_squares = vector_moments(value - pivot, vector)
        before = count
        count = count + float(vector)
        delta = new_mean - mean
        part = vector / count
        mean = mean + delta * part
        squares = squares + new_squares + delta * delta * (before * part)
    if fx.const_expr(share.plan.tail):
        last = load_tail(start, share, 0.0).to(fx.Float32) - pivot
        if share.in_tail:
            count = count + 1.0
            delta = last - mean
            mean = mean + delta / count
            squares = squares + delta * (last - mean)
    return count, mean, squares


@flyc.jit
def thread_square_sum(start: Any, share: Share) -> Any:
    """Return the sum of squares of a thread's elements of a row."""
    total = fx.Vector.filled((share.plan.vector,), 0.0, fx.Float32)
    for index in range(share.lane, share.full, share.plan.lanes):
        value = load_vector(start, index, share).to(fx.Float32)
        total = fx.math.fma(value, value, total)
    squares = total.reduce("add")
    if fx.const_expr(share.plan.tail):
        last = load_tail(start, share, 0.0).to(fx.Float32)
        squares = fx.math.fma(last, last, squares)
    return squares


def long_moments(start: Any, share: Share, columns: Any, plan: Any) -> tuple[Any, Any, Any]:
    """Return pivot, scale and shift of a row: x̂ = (x - pivot) * scale + shift.

    Args:
        start: Pointer to the row.
        share: The thread's share.
        columns: Length of the row as `Float32`.
        plan: Its `mean` and `eps`.
    """
    zero = fx.Float32(0.0)
    if not plan.mean:
        (squares,) = combine_row([thread_square_sum(start, share)], add, share)
        return zero, fx.rsqrt(squares / columns + plan.eps), zero
    first = load_vector(start, share.lane, share).to(fx.Float32).reduce("add")
    (total,) = combine_row([first], add, share)
    pivot = total * (1.0 / (share.plan.lanes * share.plan.vector))
    count, mean, squares = thread_moments(start, share, pivot)
    (total,) = combine_row([count * mean], add, share)
    middle = total / columns
    off = mean - middle
    left, squares = combine_row([count * off, squares + count * off * off], add, share)
    left = left / columns
    variance = fx.max(squares / columns - left * left, zero)
    scale = fx.rsqrt(variance + plan.eps)
    return pivot, scale, -(middle + left) * scale


@flyc.jit
def write_rows(start: Any, tensors: Any, share: Share, moments: Any, plan: Any) -> None:
    """Normalise a row that is loaded again, and store it."""
    weight, bias, result = tensors
    mean, scale, shift = moments
    for index in range(share.lane, share.full, share.plan.lanes):
        value = load_vector(start, index, share).to(fx.Float32)
        unit = fx.math.fma(value - mean, scale, shift) if plan.mean else value * scale
        w = load_vector(weight.iter, index, share) if plan.weight else None
        b = load_vector(bias.iter, index, share) if plan.bias else None
        store_vector(share.start(result), index, share, affine(unit, w, b))
    if fx.const_expr(share.plan.tail):
        last = load_tail(start, share, 0.0).to(fx.Float32)
        unit = fx.math.fma(last - mean, scale, shift) if plan.mean else last * scale
        w = load_tail(weight.iter, share, 0.0) if plan.weight else None
        b = load_tail(bias.iter, share, 0.0) if plan.bias else None
        store_tail(share.start(result), share, affine(unit, w, b))


@flyc.jit
def add_rows(first: Any, second: Any, result: Any, share: Share) -> None:
    """Store the sums of two rows."""
    for index in range(share.lane, share.full, share.plan.lanes):
        a = load_vector(first, index, share).to(fx.Float32)
        b = load_vector(second, index, share).to(fx.Float32)
        store_vector(result, index, share, a + b)
    if fx.const_expr(share.plan.tail):
        a = load_tail(first, share, 0.0).to(fx.Float32)
        b = load_tail(second, share, 0.0).to(fx.Float32)
        store_tail(result, share, a + b)


@flyc.kernel
def long_norm_kernel(
    X: fx.Tensor, W: fx.Tensor, B: fx.Tensor, Y: fx.Tensor, plan: fx.Constexpr[NormPlan]
) -> None:
    """Y = normalised rows of X, times W, plus B."""
    share = own_share(plan.row, X)
    start = share.start(X)
    moments = long_moments(start, share, column_count(X).to(fx.Float32), plan)
    write_rows(start, (W, B, Y), share, moments, plan)


@flyc.kernel
def long_add_norm_kernel(
    X: fx.Tensor, R: fx.Tensor, W: fx.Tensor, B: fx.Tensor, Y: fx.Tensor, S: fx.Tensor,
    plan: fx.Constexpr[NormPlan],
) -> None:  # fmt: skip
    """S = X + R, rounded to its type; Y = normalised rows of S, times W, plus B."""
    share = own_share(plan.row, X)
    start = share.start(S)
    add_rows(share.start(X), share.start(R), start, share)
    # Every thread reads back only what it has written itself.
    moments = long_moments(start, share, column_count(X).to(fx.Float32), plan)
    write_rows(start, (W, B, Y), share, moments, plan)
