"""Softmax and its logarithm: of rows in registers, and of long rows.

Exponentials are of differences from the row's maximum and computed as powers of two. A row that
holds NaN or +inf, or nothing but -inf, becomes NaN throughout.
"""

from __future__ import annotations

import math
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.norm.device.combine import add, combine_row, largest, sum_of
from flydsl_kernels.norm.device.rows import (
    Share,
    load_share,
    load_tail,
    load_vector,
    own_share,
    store_share,
    store_tail,
    store_vector,
    widened,
)
from flydsl_kernels.norm.selection import SoftmaxPlan

__all__ = ["exponential", "launch_softmax"]

LOG2_E = math.log2(math.e)
LN_2 = math.log(2.0)
NOTHING = float("-inf")


def exponential(value: Any) -> Any:
    """Return e to the power of an f32 number or vector of at most zero; tiny results become 0."""
    return fx.math.exp2(value * LOG2_E, fastmath=fx.arith.FastMathFlags.afn)


def largest_of(parts: list[Any], chunks: int) -> Any:
    """Return the maximum of a thread's values, NaN ignored."""
    items = []
    if chunks:
        vector = parts[0]
        for part in parts[1:chunks]:
            vector = fx.maxnumf(vector, part)
        items = list(vector)
    items += parts[chunks:]
    while len(items) > 1:
        pairs = [fx.maxnumf(items[i], items[i + 1]) for i in range(0, len(items) - 1, 2)]
        items = pairs + items[len(items) - len(items) % 2 :]
    return items[0] if items else fx.Float32(NOTHING)


def closing(total: Any, logarithm: bool) -> Any:
    """Return a sum's logarithm, or its reciprocal."""
    return fx.math.log2(total) * LN_2 if logarithm else 1.0 / total


@flyc.kernel
def softmax_kernel(X: fx.Tensor, Y: fx.Tensor, plan: fx.Constexpr[SoftmaxPlan]) -> None:
    """Y = softmax, or its logarithm, of the rows of X."""
    share = own_share(plan.row, X)
    chunks = plan.row.chunks
    values = widened(load_share(share.start(X), share, NOTHING))
    (top,) = combine_row([largest_of(values, chunks)], largest, share)
    values = [value - top for value in values]
    powers = [exponential(value) for value in values]
    (total,) = combine_row([sum_of(powers, chunks)], add, share)
    end = closing(total, plan.logarithm)
    if fx.const_expr(plan.logarithm):
        out = [value - end for value in values]
    else:
        out = [power * end for power in powers]
    store_share(share.start(Y), share, out)


@flyc.jit
def running_total(start: Any, share: Share) -> tuple[Any, Any]:
    """Return the maximum of a thread's elements of a row, and their sum of exponentials.

    The sum is relative to the maximum, which grows along the row (Milakov and Gimelshein 2018).
    """
    top, total = fx.Float32(NOTHING), fx.Float32(0.0)
    for index in range(share.lane, share.full, share.plan.lanes):
        value = load_vector(start, index, share).to(fx.Float32)
        new = fx.maxnumf(top, largest_of([value], 1))
        pivot = finite_pivot(new)
        total = total * exponential(top - pivot) + exponential(value - pivot).reduce("add")
        top = new
    if fx.const_expr(share.plan.tail):
        last = load_tail(start, share, NOTHING).to(fx.Float32)
        new = fx.maxnumf(top, last)
        pivot = finite_pivot(new)
        total = total * exponential(top - pivot) + exponential(last - pivot)
        top = new
    return top, total


def finite_pivot(top: Any) -> Any:
    """Return `top`, or 0 where it is -inf: the difference of two infinities would be NaN."""
    return fx.arith.select(top == NOTHING, fx.Float32(0.0), top)


@flyc.kernel
def long_softmax_kernel(X: fx.Tensor, Y: fx.Tensor, plan: fx.Constexpr[SoftmaxPlan]) -> None:
    """Y = softmax, or its logarithm, of the long rows of X, each read twice."""
    share = own_share(plan.row, X)
    start = share.start(X)
    top, total = running_total(start, share)
    (highest,) = combine_row([top], largest, share)
    pivot = finite_pivot(highest)
    (total,) = combine_row([total * exponential(top - pivot)], add, share)
    end = closing(total, plan.logarithm)
    for index in range(share.lane, share.full, share.plan.lanes):
        value = load_vector(start, index, share).to(fx.Float32) - pivot
        out = value - end if plan.logarithm else exponential(value) * end
        store_vector(share.start(Y), index, share, out)
    if fx.const_expr(share.plan.tail):
        last = load_tail(start, share, 0.0).to(fx.Float32) - pivot
        store_tail(share.start(Y), share, last - end if plan.logarithm else exponential(last) * end)


@flyc.jit
def launch_softmax(
    X: fx.Tensor, Y: fx.Tensor, plan: fx.Constexpr[SoftmaxPlan],
    stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch the kernel for rows in registers, or for long rows."""
    groups = (X.shape[0] + (plan.row.rows - 1)) // plan.row.rows
    kernel = long_softmax_kernel if plan.row.looped else softmax_kernel
    kernel(X, Y, plan).launch(grid=(groups,), block=(plan.row.block,), stream=stream)
