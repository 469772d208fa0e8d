"""Normalisation with an 8-bit result and scales, of rows that fit in registers."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.norm.device.combine import combine_row
from flydsl_kernels.norm.device.forward import load_columns
from flydsl_kernels.norm.device.fused_add import add_part_kernel, added_values
from flydsl_kernels.norm.device.long_forward import norm_part_kernel
from flydsl_kernels.norm.device.long_quantised import (
    long_quantised_kernel,
    magnitude_part_kernel,
)
from flydsl_kernels.norm.device.moments import centred
from flydsl_kernels.norm.device.operands import Operands
from flydsl_kernels.norm.device.rows import (
    Share,
    affine,
    column_count,
    in_order,
    load_share,
    own_share,
    store_part,
    widened,
)
from flydsl_kernels.norm.device.scales import (
    keep_group_scale,
    keep_row_scale,
    largest_of_group,
    magnitude,
    present,
    reduced,
)
from flydsl_kernels.norm.selection import FEW_CHUNKS, QuantPlan

__all__ = ["launch_quantised"]


def normalised(t: Operands, share: Share, plan: QuantPlan) -> list[Any]:
    """Return the thread's share of the normalised row in f32."""
    norm = plan.norm
    if plan.added:
        values = added_values(t, share)
    else:
        values = widened(load_share(share.start(t.x), share))
    columns = column_count(t.x).to(fx.Float32)
    values, _, scale, shift = centred(values, share, columns, norm)
    vectors = ((t.weight, norm.weight), (t.bias, norm.bias), (t.smooth, plan.smooth))
    # One part ahead, where there are registers for it.
    ahead = int(share.plan.chunks <= FEW_CHUNKS)
    loaded = [load_columns(source, share, wanted, last=ahead) for source, wanted in vectors]
    out = []
    for position, value in enumerate(values):
        in_order()
        for parts, (source, wanted) in zip(loaded, vectors, strict=True):
            at = position + ahead
            parts.extend(load_columns(source, share, wanted, first=at, last=at + 1))
        unit = fx.math.fma(value, scale, shift) if norm.mean else value * scale
        out.append(affine(unit, *(parts[position] for parts in loaded)))
    return out


@flyc.kernel
def quantised_kernel(t: Operands, plan: fx.Constexpr[QuantPlan]) -> None:
    """Quantise normalised rows, with a scale per row."""
    share = own_share(plan.norm.row, t.x)
    values = normalised(t, share, plan)
    # Where a thread has no element its value is 0, but not what became of it.
    sizes = [present(magnitude(value), i, share) for i, value in enumerate(values)]
    largest = fx.Float32(0.0)
    for size in sizes:
        largest = fx.max(largest, size)
    inverse = keep_row_scale(combine_row(largest, "max", share), share, t.scales, plan)
    for position, value in enumerate(values):
        store_part(share.start(t.out), position, share, reduced(value, inverse, t.out.dtype))


@flyc.kernel
def grouped_kernel(t: Operands, plan: fx.Constexpr[QuantPlan]) -> None:
    """Quantise normalised rows, with a scale per group."""
    share = own_share(plan.norm.row, t.x)
    row = share.plan
    values = normalised(t, share, plan)
    sizes = [present(magnitude(value), i, share) for i, value in enumerate(values)]
    tops = [largest_of_group(size, share, plan) for size in sizes[: row.chunks]]
    # The last group may have elements in the tail, which other threads have than its vectors.
    last = (column_count(t.x) - 1) // plan.group
    top_of_last = None
    if fx.const_expr(row.tail):
        own = sizes[row.chunks]
        for position, top in enumerate(tops):
            group = share.index(position) * row.vector // plan.group
            own = fx.max(own, fx.arith.select(group == last, top, fx.Float32(0.0)))
        top_of_last = combine_row(own, "max", share)
        column = fx.arith.select(share.in_tail & (share.lane == 0), last * plan.group, fx.Int32(1))
        inverse = keep_group_scale(top_of_last, column, share.in_tail, share, t.scales, plan)
        small = reduced(values[row.chunks], inverse, t.out.dtype)
        store_part(share.start(t.out), row.chunks, share, small)
    for position, top in enumerate(tops):
        column = share.index(position) * row.vector
        highest, here = top, share.index(position) < share.full
        if fx.const_expr(row.tail):
            # Which a thread of the tail stores.
            in_last = column // plan.group == last
            highest, here = fx.arith.select(in_last, top_of_last, top), here & ~in_last
        inverse = keep_group_scale(highest, column, here, share, t.scales, plan)
        small = reduced(values[position], inverse, t.out.dtype)
        store_part(share.start(t.out), position, share, small)


@flyc.jit
def launch_quantised(t: Operands, plan: fx.Constexpr[QuantPlan], stream: fx.Stream) -> None:
    """Launch the kernel for rows in registers, or those for long rows."""
    row = plan.norm.row
    grid, block = ((t.x.shape[0] + (row.rows - 1)) // row.rows, row.splits), (row.block,)
    if fx.const_expr(row.splits > 1):
        if fx.const_expr(plan.added):
            add_part_kernel(t, plan.norm).launch(grid=grid, block=block, stream=stream)
        else:
            part = norm_part_kernel(t.x, t.partial, plan.norm)
            part.launch(grid=grid, block=block, stream=stream)
        if fx.const_expr(not plan.group):
            magnitude_part_kernel(t, plan).launch(grid=grid, block=block, stream=stream)
    if fx.const_expr(row.looped):
        kernel = long_quantised_kernel
    else:
        kernel = grouped_kernel if plan.group else quantised_kernel
    kernel(t, plan).launch(grid=grid, block=block, stream=stream)
