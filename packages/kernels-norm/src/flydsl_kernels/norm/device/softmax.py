"""Softmax and its logarithm: of rows in registers, and of long rows.

Exponentials are of differences from the row's maximum and computed as powers of two. A row that
holds NaN or +inf, or nothing but -inf, becomes NaN throughout.
"""

from __future__ import annotations

import math
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.norm.device.combine import largest_of_row, smallest_of_row, sum_of, sum_row
from flydsl_kernels.norm.device.parts import keep_part, read_parts
from flydsl_kernels.norm.device.rows import (
    Share,
    again,
    in_order,
    load_share,
    load_tail,
    load_vector,
    narrowed,
    opaque,
    own_share,
    ratio,
    store_part,
    store_tail,
    store_vector,
)
from flydsl_kernels.norm.selection import SoftmaxPlan

__all__ = ["exponential", "launch_softmax"]

LOG2_E = math.log2(math.e)
LN_2 = math.log(2.0)
NOTHING = float("-inf")


def exponential(value: Any) -> Any:
    """Return e to the power of an f32 number or vector of at most zero; tiny results become 0."""
    return fx.math.exp2(value * LOG2_E, fastmath=fx.arith.FastMathFlags.afn)


def largest_of(part: Any) -> Any:
    """Return the maximum of an f32 vector or number, NaN ignored."""
    items = list(part) if isinstance(part, fx.Vector) else [part]
    while len(items) > 1:
        pairs = [fx.maxnumf(items[i], items[i + 1]) for i in range(0, len(items) - 1, 2)]
        items = pairs + items[len(items) - len(items) % 2 :]
    return items[0]


def wide_again(part: Any) -> Any:
    """Return a part of a share in f32, as numbers of which the optimiser knows nothing."""
    wide = part.to(fx.Float32)
    return opaque(wide) if isinstance(wide, fx.Vector) else wide


def closing(total: Any, logarithm: bool) -> Any:
    """Return a sum's logarithm, or its reciprocal."""
    return fx.math.log2(total) * LN_2 if logarithm else ratio(fx.Float32(1.0), total)


@flyc.kernel
def softmax_kernel(X: fx.Tensor, Y: fx.Tensor, plan: fx.Constexpr[SoftmaxPlan]) -> None:
    """Y = softmax, or its logarithm, of the rows of X."""
    share = own_share(plan.row, X)
    parts = load_share(share.start(X), share, NOTHING)
    highest = fx.Float32(NOTHING)
    for part in parts:
        in_order()
        # Hidden, or LLVM would take the maxima before it widens, where there is no instruction.
        highest = fx.maxnumf(highest, largest_of(wide_again(part)))
    # The opposite: two sums are one instruction on some targets, two differences are not.
    below = smallest_of_row(-highest, share)
    powers, total = [], fx.Float32(0.0)
    for part in parts:
        in_order()
        power = exponential(again(part).to(fx.Float32) + below)
        total = total + sum_of([power], isinstance(power, fx.Vector))
        powers.append(power)
    (total,) = sum_row([total], share)
    end = closing(total, plan.logarithm)
    start = share.start(Y)
    for position, (part, power) in enumerate(zip(parts, powers, strict=True)):
        in_order()
        if fx.const_expr(plan.logarithm):
            out = again(part).to(fx.Float32) + below - end
        else:
            out = power * end
        store_part(start, position, share, narrowed(out, Y.dtype, False))


@flyc.jit
def running_total(start: Any, share: Share) -> tuple[Any, Any]:
    """Return the maximum of a thread's elements of a row, and their sum of exponentials.

    The sum is relative to the maximum, which grows along the row (Milakov and Gimelshein 2018).
    """
    top, total = fx.Float32(NOTHING), fx.Float32(0.0)
    for index in range(share.first, share.full, share.plan.lanes):
        value = load_vector(start, index, share).to(fx.Float32)
        new = fx.maxnumf(top, largest_of(value))
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
def softmax_part_kernel(X: fx.Tensor, P: fx.Tensor, plan: fx.Constexpr[SoftmaxPlan]) -> None:
    """P = maximum and sum of exponentials of parts of the rows of X."""
    share = own_share(plan.row, X)
    highest, _, total = row_total(share.start(X), share)
    keep_part(P, share, [highest, total])


def row_total(start: Any, share: Share) -> tuple[Any, Any, Any]:
    """Return the maximum of a row or part, its `finite_pivot`, and the sum of e^(x - pivot)."""
    top, total = running_total(start, share)
    highest = largest_of_row(top, share)
    pivot = finite_pivot(highest)
    (total,) = sum_row([total * exponential(top - pivot)], share)
    return highest, pivot, total


@flyc.kernel
def long_softmax_kernel(
    X: fx.Tensor, Y: fx.Tensor, P: fx.Tensor, plan: fx.Constexpr[SoftmaxPlan]
) -> None:
    """Y = softmax, or its logarithm, of the long rows of X, each read twice."""
    share = own_share(plan.row, X)
    start = share.start(X)
    if fx.const_expr(plan.row.splits > 1):
        tops, totals = read_parts(P, share, 2)
        pivot = finite_pivot(largest_of(tops))
        total = (totals * exponential(tops - pivot)).reduce("add")
    else:
        _, pivot, total = row_total(start, share)
    end = closing(total, plan.logarithm)
    for index in range(share.first, share.full, share.plan.lanes):
        value = load_vector(start, index, share).to(fx.Float32) - pivot
        out = value - end if plan.logarithm else exponential(value) * end
        store_vector(share.start(Y), index, share, out)
    if fx.const_expr(share.plan.tail):
        last = load_tail(start, share, 0.0).to(fx.Float32) - pivot
        store_tail(share.start(Y), share, last - end if plan.logarithm else exponential(last) * end)


@flyc.jit
def launch_softmax(
    X: fx.Tensor, Y: fx.Tensor, P: fx.Tensor, plan: fx.Constexpr[SoftmaxPlan],
    stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch the kernel for rows in registers, or those for long rows; P is for split ones."""
    row = plan.row
    grid, block = ((X.shape[0] + (row.rows - 1)) // row.rows, row.splits), (row.block,)
    if fx.const_expr(row.splits > 1):
        softmax_part_kernel(X, P, plan).launch(grid=grid, block=block, stream=stream)
    if fx.const_expr(row.looped):
        long_softmax_kernel(X, Y, P, plan).launch(grid=grid, block=block, stream=stream)
    else:
        softmax_kernel(X, Y, plan).launch(grid=grid, block=block, stream=stream)
