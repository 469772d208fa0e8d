"""Gradients of normalised rows.

With x̂ the normalised row, g = dy · weight and scale the factor of x̂:
dx = scale · (g - mean(g) - x̂ · mean(g · x̂)); without mean(g) for RMSNorm. The moments are computed
again from x, which has to be read anyway, and kept for the gradients of weights.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.norm.device.combine import sum_of, sum_row
from flydsl_kernels.norm.device.long_forward import norm_part_kernel
from flydsl_kernels.norm.device.long_moments import long_moments
from flydsl_kernels.norm.device.moments import centred
from flydsl_kernels.norm.device.parts import keep_part, read_parts
from flydsl_kernels.norm.device.rows import (
    Share,
    column_count,
    load_share,
    load_tail,
    load_vector,
    own_share,
    ratio,
    store_share,
    store_tail,
    store_vector,
    widened,
)
from flydsl_kernels.norm.selection import NormPlan

__all__ = ["launch_norm_backward"]

SUM_LINE = 4
"""First line of the sums among the numbers of parts, after those of the moments."""


@flyc.jit
def keep_moments(stats: Any, share: Share, moments: Any) -> None:
    """Write mean, scale and shift of a row to the three rows of `stats`."""
    if share.is_first() & (share.row < fx.Int32(stats.shape[1])):
        for position, value in enumerate(moments):
            line = stats.iter + stats.stride[0] * position
            (line + share.row).store(value)


def row_means(sums: list[Any], mean: bool, columns: Any) -> tuple[Any, Any]:
    """Return mean(g) (0 without `mean`) and mean(g · x̂) of a row.

    Args:
        sums: Those of the row: of g if `mean`, then of g · x̂.
        mean: Whether the row was centred.
        columns: Length of the row as `Float32`.
    """
    means = [ratio(total, columns) for total in sums]
    return (means[0], means[1]) if mean else (fx.Float32(0.0), means[0])


def gradient(unit: Any, wide: Any, means: tuple[Any, Any], scale: Any, mean: bool) -> Any:
    """Return dx for elements with normalised value `unit` and g `wide`."""
    rest = wide - unit * means[1]
    return (rest - means[0] if mean else rest) * scale


@flyc.kernel
def norm_backward_kernel(
    X: fx.Tensor, W: fx.Tensor, G: fx.Tensor, DX: fx.Tensor, M: fx.Tensor,
    plan: fx.Constexpr[NormPlan],
) -> None:  # fmt: skip
    """DX = gradient of X for a gradient G of the result; M = moments of the rows."""
    share = own_share(plan.row, X)
    chunks = plan.row.chunks
    wide = widened(load_share(share.start(G), share))
    if fx.const_expr(plan.weight):
        weights = widened(load_share(W.iter, share))
        wide = [g * w for g, w in zip(wide, weights, strict=True)]
    columns = column_count(X).to(fx.Float32)
    values = widened(load_share(share.start(X), share))
    values, middle, scale, shift = centred(values, share, columns, plan)
    keep_moments(M, share, (middle, scale, shift))
    units = [fx.math.fma(value, scale, shift) if plan.mean else value * scale for value in values]
    products = sum_of([g * unit for g, unit in zip(wide, units, strict=True)], chunks)
    sums = [sum_of(wide, chunks), products] if plan.mean else [products]
    means = row_means(sum_row(sums, share), plan.mean, columns)
    out = [gradient(unit, g, means, scale, plan.mean) for unit, g in zip(units, wide, strict=True)]
    store_share(share.start(DX), share, out, plan.weight and W.dtype is not DX.dtype)


@flyc.jit
def element_pair(
    load: Any, starts: Any, index: Any, share: Share, moments: Any, plan: NormPlan
) -> tuple[Any, Any]:
    """Return x̂ and g of a vector, or of the element of the tail if `index` is None."""
    x, g, w = starts
    mean, scale, shift = moments
    value, wide = (load(start, index, share).to(fx.Float32) for start in (x, g))
    if fx.const_expr(plan.weight):
        wide = wide * load(w, index, share).to(fx.Float32)
    unit = fx.math.fma(value - mean, scale, shift) if plan.mean else value * scale
    return unit, wide


def whole_vector(start: Any, index: Any, share: Share) -> Any:
    """Load a vector that is there."""
    return load_vector(start, index, share)


def last_element(start: Any, _: Any, share: Share) -> Any:
    """Load the element of the tail; there is no index."""
    return load_tail(start, share, 0.0)


@flyc.jit
def long_sums(starts: Any, share: Share, moments: Any, plan: NormPlan) -> list[Any]:
    """Return a thread's sums for `row_means`."""
    total = fx.Vector.filled((share.plan.vector,), 0.0, fx.Float32)
    products = fx.Vector.filled((share.plan.vector,), 0.0, fx.Float32)
    for index in range(share.first, share.full, share.plan.lanes):
        unit, wide = element_pair(whole_vector, starts, index, share, moments, plan)
        total = total + wide
        products = fx.math.fma(wide, unit, products)
    sums = [total.reduce("add"), products.reduce("add")]
    if fx.const_expr(share.plan.tail):
        # Where a thread has no element of the tail, its g is 0.
        unit, wide = element_pair(last_element, starts, None, share, moments, plan)
        sums = [sums[0] + wide, fx.math.fma(wide, unit, sums[1])]
    return sums if plan.mean else sums[1:]


@flyc.kernel
def gradient_part_kernel(
    X: fx.Tensor, W: fx.Tensor, G: fx.Tensor, P: fx.Tensor, plan: fx.Constexpr[NormPlan]
) -> None:
    """P = sums of parts of the rows, after what is known of them already."""
    share = own_share(plan.row, X)
    starts = share.start(X), share.start(G), W.iter
    moments = long_moments(starts[0], share, column_count(X).to(fx.Float32), plan, P)
    keep_part(P, share, sum_row(long_sums(starts, share, moments, plan), share), SUM_LINE)


@flyc.kernel
def long_norm_backward_kernel(
    X: fx.Tensor, W: fx.Tensor, G: fx.Tensor, DX: fx.Tensor, M: fx.Tensor, P: fx.Tensor,
    plan: fx.Constexpr[NormPlan],
) -> None:  # fmt: skip
    """DX = gradient of X for a gradient G of the result; M = moments of the rows."""
    share = own_share(plan.row, X)
    starts = share.start(X), share.start(G), W.iter
    columns = column_count(X).to(fx.Float32)
    moments = long_moments(starts[0], share, columns, plan, P)
    keep_moments(M, share, moments)
    if fx.const_expr(plan.row.splits > 1):
        sums = [part.reduce("add") for part in read_parts(P, share, 1 + plan.mean, SUM_LINE)]
    else:
        sums = sum_row(long_sums(starts, share, moments, plan), share)
    means = row_means(sums, plan.mean, columns)
    scale = moments[1]
    for index in range(share.first, share.full, share.plan.lanes):
        unit, wide = element_pair(whole_vector, starts, index, share, moments, plan)
        out = gradient(unit, wide, means, scale, plan.mean)
        store_vector(share.start(DX), index, share, out)
    if fx.const_expr(share.plan.tail):
        unit, wide = element_pair(last_element, starts, None, share, moments, plan)
        store_tail(share.start(DX), share, gradient(unit, wide, means, scale, plan.mean))


@flyc.jit
def launch_norm_backward(
    X: fx.Tensor, W: fx.Tensor, G: fx.Tensor, DX: fx.Tensor, M: fx.Tensor, P: fx.Tensor,
    plan: fx.Constexpr[NormPlan], stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch the kernel for rows in registers, or those for long rows; P is for split ones."""
    row = plan.row
    grid, block = ((X.shape[0] + (row.rows - 1)) // row.rows, row.splits), (row.block,)
    if fx.const_expr(row.splits > 1):
        norm_part_kernel(X, P, plan).launch(grid=grid, block=block, stream=stream)
        part = gradient_part_kernel(X, W, G, P, plan)
        part.launch(grid=grid, block=block, stream=stream)
    if fx.const_expr(row.looped):
        kernel = long_norm_backward_kernel(X, W, G, DX, M, P, plan)
        kernel.launch(grid=grid, block=block, stream=stream)
    else:
        norm_backward_kernel(X, W, G, DX, M, plan).launch(grid=grid, block=block, stream=stream)
