"""Normalisation with an 8-bit result and scales, of rows that do not fit in registers.

Rows are read once for the moments, once for the largest magnitude of a row (of groups: not), and
once to write.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.norm.device.combine import combine_row
from flydsl_kernels.norm.device.long_forward import add_rows
from flydsl_kernels.norm.device.long_moments import long_moments
from flydsl_kernels.norm.device.operands import Operands
from flydsl_kernels.norm.device.parts import keep_part, read_parts
from flydsl_kernels.norm.device.rows import (
    Share,
    affine,
    column_count,
    load_tail,
    load_vector,
    own_share,
    place_tail,
)
from flydsl_kernels.norm.device.scales import (
    keep_group_scale,
    keep_row_scale,
    largest_of_group,
    magnitude,
    reduced,
)
from flydsl_kernels.norm.selection import QuantPlan

__all__ = ["long_quantised_kernel", "magnitude_part_kernel"]

MAGNITUDE_LINE = 4
"""Line of the magnitudes among the numbers of parts, after those of the moments."""


def source_of(t: Operands, plan: QuantPlan) -> Any:
    """Return the matrix that is normalised."""
    return t.sums if plan.added else t.x


def long_value(load: Any, t: Operands, index: Any, share: Share, how: tuple[Any, Any]) -> Any:
    """Return the normalised f32 values of a vector, or of the tail's element.

    Args:
        load: Loads them, from a pointer.
        t: The tensors.
        index: Number of the vector.
        share: The thread's share.
        how: Moments of the row, and the plan.
    """
    (mean, scale, shift), plan = how
    norm = plan.norm
    value = load(share.start(source_of(t, plan)), index, share).to(fx.Float32)
    unit = fx.math.fma(value - mean, scale, shift) if norm.mean else value * scale
    w = load(t.weight.iter, index, share) if norm.weight else None
    b = load(t.bias.iter, index, share) if norm.bias else None
    f = load(t.smooth.iter, index, share) if plan.smooth else None
    return affine(unit, w, b, f)


def tail_of(start: Any, _: Any, share: Share) -> Any:
    """Load the element of the tail."""
    return load_tail(start, share, 0.0)


@flyc.jit
def thread_magnitude(t: Operands, share: Share, how: tuple[Any, Any]) -> Any:
    """Return the largest magnitude of a thread's elements of a row."""
    largest = fx.Float32(0.0)
    for index in range(share.first, share.full, share.plan.lanes):
        largest = fx.max(largest, magnitude(long_value(load_vector, t, index, share, how)))
    if fx.const_expr(share.plan.tail):
        size = magnitude(long_value(tail_of, t, None, share, how))
        largest = fx.max(largest, fx.arith.select(share.in_tail, size, fx.Float32(0.0)))
    return largest


def moments_of(t: Operands, share: Share, plan: QuantPlan) -> Any:
    """Return the moments of a row."""
    columns = column_count(t.x).to(fx.Float32)
    return long_moments(share.start(source_of(t, plan)), share, columns, plan.norm, t.partial)


@flyc.kernel
def magnitude_part_kernel(t: Operands, plan: fx.Constexpr[QuantPlan]) -> None:
    """Store the largest magnitudes of parts of rows."""
    share = own_share(plan.norm.row, t.x)
    own = thread_magnitude(t, share, (moments_of(t, share, plan), plan))
    keep_part(t.partial, share, [combine_row(own, "max", share)], MAGNITUDE_LINE)


@flyc.jit
def write_row(t: Operands, share: Share, how: tuple[Any, Any], top: Any) -> None:
    """Quantise a row with one scale."""
    plan = how[1]
    start, kind = share.start(t.out), t.out.dtype
    inverse = keep_row_scale(top, share, t.scales, plan)
    for index in range(share.first, share.full, share.plan.lanes):
        value = long_value(load_vector, t, index, share, how)
        (start + index * share.plan.vector).store(reduced(value, inverse, kind))
    if fx.const_expr(share.plan.tail):
        place_tail(start, share, reduced(long_value(tail_of, t, None, share, how), inverse, kind))


@flyc.jit
def vector_or_zeros(t: Operands, index: Any, share: Share, how: tuple[Any, Any]) -> Any:
    """Return the normalised f32 values of a vector, zeros where the row has none."""
    value = fx.Vector.filled((share.plan.vector,), 0.0, fx.Float32)
    if index < share.full:
        value = long_value(load_vector, t, index, share, how)
    return value


@flyc.jit
def last_magnitude(t: Operands, share: Share, how: tuple[Any, Any], group: Any) -> Any:
    """Return the largest magnitude of the last group, which has elements of the tail."""
    plan, row = how[1], share.plan
    per_group = plan.group // row.vector
    own = fx.Float32(0.0)
    if share.lane < per_group:
        own = magnitude(vector_or_zeros(t, group * per_group + share.lane, share, how))
    size = magnitude(long_value(tail_of, t, None, share, how))
    own = fx.max(own, fx.arith.select(share.in_tail, size, fx.Float32(0.0)))
    return combine_row(own, "max", share)


@flyc.jit
def write_groups(t: Operands, share: Share, how: tuple[Any, Any]) -> None:
    """Quantise a row with a scale per group."""
    plan, row = how[1], share.plan
    start, kind = share.start(t.out), t.out.dtype
    last = (column_count(t.x) - 1) // plan.group
    top_of_last = fx.Float32(0.0)
    if fx.const_expr(row.tail):
        top_of_last = last_magnitude(t, share, how, last)
    # All threads make every turn: they exchange values in it.
    for base in range(share.first - share.lane, share.full, row.lanes):
        index = base + share.lane
        value = vector_or_zeros(t, index, share, how)
        top = largest_of_group(magnitude(value), share, plan)
        column, here = index * row.vector, index < share.full
        stores = here
        if fx.const_expr(row.tail):
            # Which a thread of the tail stores.
            in_last = column // plan.group == last
            top, stores = fx.arith.select(in_last, top_of_last, top), here & ~in_last
        inverse = keep_group_scale(top, column, stores, share, t.scales, plan)
        if here:
            (start + column).store(reduced(value, inverse, kind))
    if fx.const_expr(row.tail):
        column = fx.arith.select(share.lane == 0, last * plan.group, fx.Int32(1))
        inverse = keep_group_scale(top_of_last, column, share.in_tail, share, t.scales, plan)
        place_tail(start, share, reduced(long_value(tail_of, t, None, share, how), inverse, kind))


@flyc.kernel
def long_quantised_kernel(t: Operands, plan: fx.Constexpr[QuantPlan]) -> None:
    """Quantise normalised long rows."""
    share = own_share(plan.norm.row, t.x)
    split = share.plan.splits > 1
    if fx.const_expr(plan.added and not split):
        # Every thread reads back only what it has written itself.
        add_rows(share.start(t.x), share.start(t.residual), share.start(t.sums), share)
    how = moments_of(t, share, plan), plan
    if fx.const_expr(plan.group):
        write_groups(t, share, how)
    else:
        if fx.const_expr(split):
            (tops,) = read_parts(t.partial, share, 1, MAGNITUDE_LINE)
            top = tops.reduce("max")
        else:
            top = combine_row(thread_magnitude(t, share, how), "max", share)
        write_row(t, share, how, top)
