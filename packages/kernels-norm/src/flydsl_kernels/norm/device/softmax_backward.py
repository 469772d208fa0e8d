"""Gradients of softmax, y · (dy - Σ dy · y), and of its logarithm, dy - e^y · Σ dy."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.norm.device.combine import sum_of, sum_row
from flydsl_kernels.norm.device.parts import keep_part, read_parts
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
from flydsl_kernels.norm.device.softmax import exponential
from flydsl_kernels.norm.selection import SoftmaxPlan

__all__ = ["launch_softmax_backward"]


def gradient(y: Any, g: Any, total: Any, logarithm: bool) -> Any:
    """Return the gradient of elements with result `y` and gradient `g`; `total` is the row's."""
    return g - exponential(y) * total if logarithm else y * (g - total)


@flyc.kernel
def softmax_backward_kernel(
    Y: fx.Tensor, G: fx.Tensor, DX: fx.Tensor, plan: fx.Constexpr[SoftmaxPlan]
) -> None:
    """DX = gradient of the argument, for a result Y and its gradient G."""
    share = own_share(plan.row, Y)
    results = widened(load_share(share.start(Y), share))
    wide = widened(load_share(share.start(G), share))
    terms = wide if plan.logarithm else [y * g for y, g in zip(results, wide, strict=True)]
    (total,) = sum_row([sum_of(terms, plan.row.chunks)], share)
    out = [gradient(y, g, total, plan.logarithm) for y, g in zip(results, wide, strict=True)]
    store_share(share.start(DX), share, out)


@flyc.jit
def thread_total(y: Any, g: Any, share: Share, logarithm: bool) -> Any:
    """Return the sum of a thread's g · y, or of its g."""
    sums = fx.Vector.filled((share.plan.vector,), 0.0, fx.Float32)
    for index in range(share.first, share.full, share.plan.lanes):
        wide = load_vector(g, index, share).to(fx.Float32)
        if fx.const_expr(logarithm):
            sums = sums + wide
        else:
            result = load_vector(y, index, share).to(fx.Float32)
            sums = fx.math.fma(result, wide, sums)
    total = sums.reduce("add")
    if fx.const_expr(share.plan.tail):
        wide = load_tail(g, share, 0.0).to(fx.Float32)
        last = wide if logarithm else wide * load_tail(y, share, 0.0).to(fx.Float32)
        total = total + last
    return total


@flyc.kernel
def total_part_kernel(
    Y: fx.Tensor, G: fx.Tensor, P: fx.Tensor, plan: fx.Constexpr[SoftmaxPlan]
) -> None:
    """P = sums of parts of the rows."""
    share = own_share(plan.row, Y)
    total = thread_total(share.start(Y), share.start(G), share, plan.logarithm)
    keep_part(P, share, sum_row([total], share))


@flyc.kernel
def long_softmax_backward_kernel(
    Y: fx.Tensor, G: fx.Tensor, DX: fx.Tensor, P: fx.Tensor, plan: fx.Constexpr[SoftmaxPlan]
) -> None:
    """DX = gradient of the argument, for long rows, each read twice."""
    share = own_share(plan.row, Y)
    y, g = share.start(Y), share.start(G)
    if fx.const_expr(plan.row.splits > 1):
        total = read_parts(P, share, 1)[0].reduce("add")
    else:
        (total,) = sum_row([thread_total(y, g, share, plan.logarithm)], share)
    for index in range(share.first, share.full, share.plan.lanes):
        result = load_vector(y, index, share).to(fx.Float32)
        wide = load_vector(g, index, share).to(fx.Float32)
        out = gradient(result, wide, total, plan.logarithm)
        store_vector(share.start(DX), index, share, out)
    if fx.const_expr(share.plan.tail):
        result = load_tail(y, share, 0.0).to(fx.Float32)
        wide = load_tail(g, share, 0.0).to(fx.Float32)
        store_tail(share.start(DX), share, gradient(result, wide, total, plan.logarithm))


@flyc.jit
def launch_softmax_backward(
    Y: fx.Tensor, G: fx.Tensor, DX: fx.Tensor, P: fx.Tensor, plan: fx.Constexpr[SoftmaxPlan],
    stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch the kernel for rows in registers, or those for long rows; P is for split ones."""
    row = plan.row
    grid, block = ((Y.shape[0] + (row.rows - 1)) // row.rows, row.splits), (row.block,)
    if fx.const_expr(row.splits > 1):
        total_part_kernel(Y, G, P, plan).launch(grid=grid, block=block, stream=stream)
    if fx.const_expr(row.looped):
        kernel = long_softmax_backward_kernel(Y, G, DX, P, plan)
        kernel.launch(grid=grid, block=block, stream=stream)
    else:
        softmax_backward_kernel(Y, G, DX, plan).launch(grid=grid, block=block, stream=stream)
