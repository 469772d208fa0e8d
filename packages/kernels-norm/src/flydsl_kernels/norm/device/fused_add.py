"""Addition of a residual, fused with the normalisation of the sum."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.norm.device.forward import normalise
from flydsl_kernels.norm.device.long_forward import add_rows, long_norm_kernel, write_rows
from flydsl_kernels.norm.device.long_moments import keep_part_moments, long_moments
from flydsl_kernels.norm.device.operands import Operands
from flydsl_kernels.norm.device.rows import (
    Share,
    column_count,
    load_share,
    narrowed,
    own_share,
    store_part,
    widened,
)
from flydsl_kernels.norm.selection import NormPlan

__all__ = ["add_part_kernel", "added_values", "launch_add_norm"]


def added_values(t: Operands, share: Share) -> list[Any]:
    """Return the thread's share of the rounded sum of two matrices in f32, and store the sum."""
    first = widened(load_share(share.start(t.x), share))
    second = widened(load_share(share.start(t.residual), share))
    start = share.start(t.sums)
    sums = [narrowed(a + b, start.element, False) for a, b in zip(first, second, strict=True)]
    for position, value in enumerate(sums):
        store_part(start, position, share, value)
    return widened(sums)


@flyc.kernel
def add_norm_kernel(t: Operands, plan: fx.Constexpr[NormPlan]) -> None:
    """Add and normalise rows."""
    share = own_share(plan.row, t.x)
    normalise(added_values(t, share), share, (t.weight, t.bias, t.out), plan)


@flyc.kernel
def add_part_kernel(t: Operands, plan: fx.Constexpr[NormPlan]) -> None:
    """Add parts of rows, and store what is to be known of the sums."""
    share = own_share(plan.row, t.x)
    start = share.start(t.sums)
    add_rows(share.start(t.x), share.start(t.residual), start, share)
    # Every thread reads back only what it has written itself.
    keep_part_moments(start, share, plan, t.partial)


@flyc.kernel
def long_add_norm_kernel(t: Operands, plan: fx.Constexpr[NormPlan]) -> None:
    """Add and normalise long rows."""
    share = own_share(plan.row, t.x)
    start = share.start(t.sums)
    add_rows(share.start(t.x), share.start(t.residual), start, share)
    # Every thread reads back only what it has written itself.
    moments = long_moments(start, share, column_count(t.x).to(fx.Float32), plan, t.partial)
    write_rows(start, (t.weight, t.bias, t.out), share, moments, plan)


@flyc.jit
def launch_add_norm(t: Operands, plan: fx.Constexpr[NormPlan], stream: fx.Stream) -> None:
    """Launch the fused addition and normalisation."""
    row = plan.row
    grid, block = ((t.x.shape[0] + (row.rows - 1)) // row.rows, row.splits), (row.block,)
    if fx.const_expr(row.splits > 1):
        add_part_kernel(t, plan).launch(grid=grid, block=block, stream=stream)
        rest = long_norm_kernel(t.sums, t.weight, t.bias, t.out, t.partial, plan)
        rest.launch(grid=grid, block=block, stream=stream)
    else:
        kernel = long_add_norm_kernel if row.looped else add_norm_kernel
        kernel(t, plan).launch(grid=grid, block=block, stream=stream)
