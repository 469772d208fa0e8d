"""Products of groups of rows with a matrix each: row r of A meets B of the group that r is in."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.gemm.device.dense import compute, operands
from flydsl_kernels.gemm.device.epilogue import Extras, Finish
from flydsl_kernels.gemm.plan import GemmPlan
from flydsl_rocdl.kernels.tile_order import xcd_remap

__all__ = ["launch_grouped"]


@flyc.jit
def group_of(ends: Any, slot: Any, tile_m: int, rows: Any) -> Any:
    """Return (group, first row, end of the group's rows) of a tile; no rows if there is no such.

    Tiles are numbered group by group, and every group begins a new one.

    Args:
        ends: i32 (groups,), the end of each group's rows; ascending.
        slot: The tile's number.
        tile_m: Rows of a tile.
        rows: All rows.
    """
    group, first, last = fx.Int32(0), fx.Int32(0), fx.Int32(0)
    before, start = fx.Int32(0), fx.Int32(0)
    for number in range(fx.Int32(ends.shape)):
        # Ends that do not ascend, or lie behind the last row, must not move accesses elsewhere.
        end = fx.min(fx.max((ends.iter + number).load(), start), rows)
        tiles = (end - start + (tile_m - 1)) // tile_m
        inside = (slot >= before) & (slot < before + tiles)
        group = inside.select(number, group)
        first = inside.select(start + (slot - before) * tile_m, first)
        last = inside.select(end, last)
        before, start = before + tiles, end
    return group, first, last


@flyc.kernel
def grouped_kernel(
    A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, ends: fx.Tensor, extras: Extras,
    plan: fx.Constexpr[GemmPlan],
) -> None:  # fmt: skip
    """C = finished(A B) for every group; A and C are (1, rows, …), B is (groups, N, K)."""
    config = plan.config
    columns = fx.Int32(C.shape[2])
    tiles_n = (columns + (config.tile_n - 1)) // config.tile_n
    slots = fx.Int32(C.shape[1]) // config.tile_m + fx.Int32(ends.shape)
    number = xcd_remap(fx.block_idx.x, tiles_n * slots, plan.dies)
    group, row, last = group_of(ends, number // tiles_n, config.tile_m, fx.Int32(C.shape[1]))
    column = number % tiles_n * config.tile_n
    k = fx.Int32(A.shape[2])
    a, b = operands(plan, A, B, (fx.Int32(0), group), (row, column), k)
    a = a.until(last)
    finish = Finish(plan.epilogue, extras, group, row, column, last, columns)
    if row < last:
        compute(plan, a, b, (fx.Int32(0), C, fx.Int32(0)), finish)


@flyc.jit
def launch_grouped(
    A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, ends: fx.Tensor, extras: Extras,
    plan: fx.Constexpr[GemmPlan], stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch as many workgroups as there can be tiles; those without one end at once."""
    config = plan.config
    tiles_n = (C.shape[2] + (config.tile_n - 1)) // config.tile_n
    slots = C.shape[1] // config.tile_m + ends.shape
    grouped_kernel(A, B, C, ends, extras, plan).launch(
        grid=(tiles_n * slots,), block=(plan.threads,), stream=stream
    )
