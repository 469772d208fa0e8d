"""Products with few tiles: a fixed number of workgroups shares all steps along K evenly (stream-K).

The steps of all tiles are numbered tile by tile. Workgroup `w` takes the `per` steps from ``w *
per`` on, which end one tile and begin another, or are part of one. It leaves the sums of either in
a slot of its own; a second launch adds the slots of every tile, in the order of their steps, and
finishes them. Nothing is counted, cleared or added atomically.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.gemm.device.dense import accumulate, joined, operands, wave_of
from flydsl_kernels.gemm.device.epilogue import Extras, Finish, corner, deliver
from flydsl_kernels.gemm.device.order import Spot, spot_of
from flydsl_kernels.gemm.device.windows import store_elements, wide, window
from flydsl_kernels.gemm.plan import EpiloguePlan, GemmPlan
from flydsl_rocdl.kernels.tile_order import xcd_remap

__all__ = ["StreamPlan", "launch_stream", "launch_stream_sum"]

_ROWS, _LANES = 4, 64
_WORDS = 4


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What both kernels are compiled for.

    Attributes:
        gemm: How tiles are multiplied; the configuration has the number of workgroups.
        integer: Whether sums are i32.
        epilogue: How results are finished.
    """

    gemm: GemmPlan
    integer: bool
    epilogue: EpiloguePlan

    @property
    def across(self) -> int:
        """Workgroups of the second launch beside each other in a tile."""
        return -(-self.gemm.config.tile_n // (_LANES * self.epilogue.vector))

    @property
    def parts(self) -> int:
        """Workgroups of the second launch in a tile."""
        return self.across * (self.gemm.config.tile_m // _ROWS)


@dataclass(frozen=True, slots=True)
class Steps:
    """How steps are shared.

    Attributes:
        tiles: Tiles along M, and along N.
        layers: Matrices.
        each: Steps of a tile.
        per: Steps of a workgroup.
    """

    tiles: tuple[Any, Any]
    layers: Any
    each: Any
    per: Any

    def spot(self, tile: Any, group: int) -> Spot:
        """Return where a tile is."""
        return spot_of(tile, self.tiles, group)


def steps_of(plan: GemmPlan, c: Any, k: Any) -> Steps:
    """Return how the steps of a product are shared."""
    config = plan.config
    tiles_m = (fx.Int32(c.shape[1]) + (config.tile_m - 1)) // config.tile_m
    tiles_n = (fx.Int32(c.shape[2]) + (config.tile_n - 1)) // config.tile_n
    layers = fx.Int32(c.shape[0])
    each = (k + (config.tile_k - 1)) // config.tile_k
    total = tiles_m * tiles_n * layers * each
    return Steps((tiles_m, tiles_n), layers, each, (total + (config.streams - 1)) // config.streams)


def slot_window(plan: GemmPlan, work: Any, slot: Any) -> Any:
    """Return the window of a slot of the workspace, a tile of sums."""
    size = plan.config.tile_m * plan.config.tile_n * 4
    return window(work.iter, wide(slot) * size, fx.Int64(size))


@flyc.kernel
def stream_kernel(
    A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, W: fx.Tensor, extras: Extras,
    plan: fx.Constexpr[StreamPlan],
) -> None:  # fmt: skip
    """W = sums of every workgroup's steps, in two slots each."""
    gemm, config = plan.gemm, plan.gemm.config
    k = fx.Int32(A.shape[2 if gemm.a.k_major else 1])
    steps = steps_of(gemm, C, k)
    worker = xcd_remap(fx.block_idx.x, config.streams, gemm.dies)
    total = steps.tiles[0] * steps.tiles[1] * steps.layers * steps.each
    begin = worker * steps.per
    end = fx.min(total, begin + steps.per)
    both = operands(gemm, A, B, (fx.Int32(0), fx.Int32(0)), (fx.Int32(0), fx.Int32(0)), k)
    wave = wave_of(gemm)
    for part in range(fx.Int32(2)):
        tile = begin // steps.each
        stop = fx.min(end, (tile + 1) * steps.each)
        if begin < end:
            own = steps.spot(tile, config.group_m)
            row, column = own.tile_m * config.tile_m, own.tile_n * config.tile_n
            first = (begin - tile * steps.each) * config.tile_k
            last = fx.min(k, first + (stop - begin) * config.tile_k)
            a = both[0].moved(A, own.layer, row, last)
            b = both[1].moved(B, own.layer, column, last)
            extents = fx.Int32(C.shape[1]), fx.Int32(C.shape[2])
            finish = Finish(plan.epilogue, extras, own.layer, row, column, *extents)
            # The tiles of the part before are still being read.
            fx.rocdl.lds_barrier()
            acc = accumulate(gemm, a, b, first, wave, finish)
            keep(gemm, acc, wave, slot_window(gemm, W, worker * 2 + part))
        begin = stop


def keep(plan: GemmPlan, acc: Any, wave: Any, target: Any) -> None:
    """Store a wave's sums in a slot."""
    spread = plan.b.spread
    for i in range(plan.tiles_m):
        for j in range(plan.tiles_n // spread):
            sums = joined(acc[i][j * spread : (j + 1) * spread])
            for at in range(0, sums.numel, _WORDS):
                part = sums.shuffle(sums, range(at, at + _WORDS))
                column = wave.n + (j * 16 * spread + at)
                offset = ((wave.m + i * 16) * plan.config.tile_n + column) * 4
                store_elements(target, offset, part, fx.Boolean(True))


@flyc.kernel
def stream_sum_kernel(
    W: fx.Tensor, C: fx.Tensor, k: fx.Int32, extras: Extras, plan: fx.Constexpr[StreamPlan]
) -> None:
    """C = finished(sum of the slots of every tile)."""
    config, vector = plan.gemm.config, plan.epilogue.vector
    steps = steps_of(plan.gemm, C, k)
    tile, part = fx.block_idx.x // plan.parts, fx.block_idx.x % plan.parts
    own = steps.spot(tile, config.group_m)
    row, column = own.tile_m * config.tile_m, own.tile_n * config.tile_n
    extents = fx.Int32(C.shape[1]), fx.Int32(C.shape[2])
    finish = Finish(plan.epilogue, extras, own.layer, row, column, *extents)
    own_row = part // plan.across * _ROWS + fx.thread_idx.x // _LANES
    own_column = (part % plan.across * _LANES + fx.thread_idx.x % _LANES) * vector
    kind = vector_alias(fx.Int32 if plan.integer else fx.Float32, (vector,))
    offset = (own_row * config.tile_n + own_column) * 4
    start = tile * steps.each
    first = start // steps.per
    total = load_slot(plan, W, first, (tile, steps, offset, kind))
    for worker in range(first + 1, (start + steps.each - 1) // steps.per + 1):
        total = total + load_slot(plan, W, worker, (tile, steps, offset, kind))
    if own_column < config.tile_n:
        deliver(total, own_row, own_column, finish, (C, corner(C, own.layer, finish)))


def load_slot(plan: StreamPlan, work: Any, worker: Any, where: tuple[Any, Any, Any, Any]) -> Any:
    """Load a lane's sums of one workgroup for a tile."""
    tile, steps, offset, kind = where
    part = tile - worker * steps.per // steps.each
    return (slot_window(plan.gemm, work, worker * 2 + part) + offset).load(kind)


@flyc.jit
def launch_stream(
    A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, W: fx.Tensor, extras: Extras,
    plan: fx.Constexpr[StreamPlan], stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch the workgroups that multiply."""
    stream_kernel(A, B, C, W, extras, plan).launch(
        grid=(plan.gemm.config.streams,), block=(plan.gemm.threads,), stream=stream
    )


@flyc.jit
def launch_stream_sum(
    W: fx.Tensor, C: fx.Tensor, k: fx.Int32, extras: Extras, plan: fx.Constexpr[StreamPlan],
    stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch the workgroups that add and finish."""
    config = plan.gemm.config
    rows = (C.shape[1] + (config.tile_m - 1)) // config.tile_m
    columns = (C.shape[2] + (config.tile_n - 1)) // config.tile_n
    stream_sum_kernel(W, C, k, extras, plan).launch(
        grid=(rows * columns * C.shape[0] * plan.parts,), block=(_ROWS * _LANES,), stream=stream
    )
