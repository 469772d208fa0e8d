"""The product of two matrices, or of as many as a batch has, whose tiles go through LDS.

Two tiles of each operand are in LDS. While one is multiplied, the next is written to the other
place, and the one after that is on its way from global memory, so there is one barrier per tile.
Tiles past the end of K are zeros that cost no memory traffic: nothing is peeled off the loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.gemm.device.block_scales import factors, scaled
from flydsl_kernels.gemm.device.epilogue import Extras, Finish, corner, deliver
from flydsl_kernels.gemm.device.multiply import fragment, multiply, split_up
from flydsl_kernels.gemm.device.order import spot
from flydsl_kernels.gemm.device.staging import Operand, bring, fetch, place, start
from flydsl_kernels.gemm.device.transfers import arrived, transfer
from flydsl_kernels.gemm.device.weights import Blocks, Weights, load_step, opened, place_of
from flydsl_kernels.gemm.plan import GemmPlan

__all__ = ["accumulate", "compute", "joined", "launch_dense", "operands", "wave_of"]


@dataclass(frozen=True, slots=True)
class Wave:
    """A lane's place in the workgroup's tile.

    Attributes:
        row: Its row of A's tile in LDS, of the wave's first instruction tile.
        column: Its row of B's tile in LDS.
        m: Its row of C within the tile.
        n: The first of its columns of C within the tile.
        beside: The wave's first column of C within the tile.
    """

    row: Any
    column: Any
    m: Any
    n: Any
    beside: Any


def wave_of(plan: GemmPlan) -> Wave:
    """Return the calling lane's place."""
    core, config = plan.core, plan.config
    lane = fx.thread_idx.x % core.wave
    wave = fx.rocdl.readfirstlane(fx.Int32, fx.thread_idx.x // core.wave)
    below = wave // config.waves_n * (plan.tiles_m * 16)
    beside = wave % config.waves_n * (plan.tiles_n * 16)
    inner = lane % 16
    group = lane // 16
    return Wave(
        below + inner, beside + inner, below + inner,
        beside + group * (core.values * plan.b.spread), beside,
    )  # fmt: skip


_Side = tuple[Operand, list[Any], int]
"""An operand that goes through LDS, its items' offsets, and where its tile begins there."""


def product(plan: GemmPlan, a: Operand, b: Operand, wave: Wave, buffer: Any, acc: Any) -> Any:
    """Multiply the tiles that are in LDS: returns the new sums."""
    core = plan.core
    out = [list(row) for row in acc]
    for step in range(plan.a.row_bytes // core.step_bytes):
        rows = rows_of(plan, a, wave, step, buffer)
        columns = [
            fragment(core, b, wave.column + j * 16, step, buffer + plan.a.pieces)
            for j in range(plan.tiles_n)
        ]
        multiply_all(core, rows, columns, out)
    return out


def weighted(
    plan: GemmPlan, a: Operand, blocks: Blocks, wave: Wave, buffer: Any,
    carried: tuple[Any, list[Any], Any],
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Multiply A's tile, in LDS, by weights in registers.

    A step's fragments are loaded again for the next tile as soon as its products are there, into
    the same registers.

    Args:
        plan: The plan.
        a: A's tile.
        blocks: The wave's blocks of weights.
        wave: The lane's place.
        buffer: Where the tile begins in LDS, in pieces.
        carried: The sums, the tile's fragments, and the column of A where the next tile begins.

    Returns:
        The new sums and the next tile's fragments.
    """
    acc, held, following = carried
    core, each = plan.core, plan.tiles_n * plan.core.reads
    out = [list(row) for row in acc]
    at = place_of(blocks, following)
    renewed: list[Any] = []
    rows = [rows_of(plan, a, wave, step, buffer) for step in range(min(plan.early, blocks.steps))]
    for step in range(blocks.steps):
        if step + plan.early < blocks.steps:
            rows.append(rows_of(plan, a, wave, step + plan.early, buffer))
        own = held[step * each : (step + 1) * each]
        columns = [split_up(core, blocks.pieces(own, n)) for n in range(0, each, core.reads)]
        multiply_all(core, rows[step], columns, out)
        renewed += load_step(blocks, at, step)
        # Loads stay in front of the next step's products, which cover their latency. So do reads of
        # A, and what is unpacked, of which else all steps' would be in registers.
        fx.rocdl.sched_barrier(*(("salu",) if blocks.unpacking else ("valu", "salu")))
    return out, renewed


def rows_of(plan: GemmPlan, a: Operand, wave: Wave, step: int, buffer: Any) -> list[Any]:
    """Read a lane's operands of A of one step: for each tile, one for each instruction."""
    return [fragment(plan.core, a, wave.row + i * 16, step, buffer) for i in range(plan.tiles_m)]


def multiply_all(core: Any, rows: list[Any], columns: list[Any], out: list[list[Any]]) -> None:
    """Add the products of one step to the sums `out`."""
    for call in range(core.calls):
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                out[i][j] = multiply(core, row[call], column[call], out[i][j])


@flyc.jit
def accumulate(
    plan: GemmPlan, a: Operand, b: Operand | Weights, begin: Any, wave: Wave, finish: Finish
) -> Any:
    """Return a wave's sums over the columns of A from `begin` to the operands' `k`."""
    both = plan.a.pieces + plan.b.pieces
    tile_k = plan.a.tile_k
    pipe = fx.rocdl.pipeline()
    sides, blocks = sides_of(plan, a, b, wave)
    ahead = [first(operand, begin, offsets, at) for operand, offsets, at in sides]
    if fx.const_expr(plan.a.direct or plan.b.direct):
        pipe.commit()
    held = fragments_of(blocks, begin)
    acc = blank(plan, plan.core.integer and not plan.block)
    here = fx.Int32(0)
    # One turn at least, of zeros if there is no k: loads before a loop that may be skipped would be
    # moved behind the test, out of their order.
    for past in range(fx.Int32(0), fx.max(a.k - begin, fx.Int32(1)), tile_k):
        k = begin + past
        if fx.const_expr(plan.a.direct or plan.b.direct):
            pipe.wait()
        else:
            if fx.const_expr(plan.a.tensor or plan.b.tensor):
                arrived()
            fx.rocdl.lds_barrier()
        there = both - here
        ahead = [
            following(operand, k, offsets, there + at, items)
            for (operand, offsets, at), items in zip(sides, ahead, strict=True)
        ]
        if fx.const_expr(plan.a.direct or plan.b.direct):
            pipe.commit()
        part = blank(plan, plan.core.integer) if fx.const_expr(plan.block) else acc
        part, held = multiplied(plan, sides, blocks, wave, here, (part, held, k + tile_k))
        if fx.const_expr(plan.block):
            rows, columns = factors(plan, finish, wave.m, wave.beside, k)
            acc = scaled(acc, part, rows, columns)
        else:
            acc = part
        here = there
    if fx.const_expr(plan.a.direct or plan.b.direct):
        # The last one, of a tile past the end, would arrive when LDS may be others' already.
        fx.rocdl.wait_asyncmark(0)
    if fx.const_expr(plan.a.tensor or plan.b.tensor):
        arrived()
    return acc


def sides_of(
    plan: GemmPlan, a: Operand, b: Operand | Weights, wave: Wave
) -> tuple[list[_Side], Blocks | None]:
    """Return the operands that go through LDS, and a wave's blocks of preshuffled weights."""
    first: _Side = (a, offsets_of(a), 0)
    if isinstance(b, Weights):
        return [first], opened(b, plan.core, wave.beside, plan.tiles_n)
    return [first, (b, offsets_of(b), plan.a.pieces)], None


def multiplied(
    plan: GemmPlan, sides: list[_Side], blocks: Blocks | None, wave: Wave, buffer: Any,
    carried: tuple[Any, list[Any], Any],
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Return the new sums, and of weights the next tile's fragments; see `weighted`."""
    if blocks is not None:
        return weighted(plan, sides[0][0], blocks, wave, buffer, carried)
    (a, *_), (b, *_) = sides
    return product(plan, a, b, wave, buffer, carried[0]), []


def fragments_of(blocks: Blocks | None, k: Any) -> list[Any]:
    """Load the fragments of weights of the tile at column `k`; none without weights."""
    if blocks is None:
        return []
    # As in the loop, after A's: its waits are for the worse of both orders. The compiler moves no
    # loads across a fence to the loop that uses them, where it would reverse their order.
    fx.rocdl.sched_barrier()
    at = place_of(blocks, k)
    found = [piece for step in range(blocks.steps) for piece in load_step(blocks, at, step)]
    fx.rocdl.lds_barrier()
    return found


def offsets_of(operand: Operand) -> list[Any]:
    """Return the offsets of the thread's items; a transfer needs none."""
    return [] if operand.plan.tensor else start(operand)


def first(operand: Operand, k: Any, offsets: list[Any], at: int) -> list[Any]:
    """Bring the first tile to LDS, and return what registers have of the second: none if direct."""
    if operand.plan.direct:
        bring(operand, k, offsets, fx.Int32(at))
        return []
    if operand.plan.tensor:
        transfer(operand, k, fx.Int32(at))
        return []
    place(operand, fetch(operand, k, offsets), fx.Int32(at))
    return fetch(operand, k + operand.plan.tile_k, offsets)


def following(operand: Operand, k: Any, offsets: list[Any], at: Any, items: list[Any]) -> list[Any]:
    """Bring the tile after that of column `k` to LDS, and return what is loaded of the next."""
    tile_k = operand.plan.tile_k
    if operand.plan.direct:
        bring(operand, k + tile_k, offsets, at)
        return []
    if operand.plan.tensor:
        transfer(operand, k + tile_k, at)
        return []
    place(operand, items, at)
    return fetch(operand, k + 2 * tile_k, offsets)


def blank(plan: GemmPlan, integer: bool) -> list[list[Any]]:
    """Return zeros for all tiles of a wave."""
    kind = fx.Int32 if integer else fx.Float32
    zeros = fx.Vector.filled((plan.core.values,), 0, kind)
    return [[zeros] * plan.tiles_n for _ in range(plan.tiles_m)]


def operands(
    plan: GemmPlan,
    A: Any,
    B: Any,
    layers: tuple[Any, Any],
    corner: tuple[Any, Any],
    k: Any,
) -> tuple[Operand, Operand | Weights]:
    """Return both operands of a workgroup's tile.

    Args:
        plan: The plan.
        A: Matrices A.
        B: Matrices B.
        layers: Which of either.
        corner: The tile's first row of A, and of B's columns.
        k: Where the workgroup's columns of A end.
    """
    lds = fx.recast_iter(fx.Int128, fx.SharedAllocator().allocate(plan.lds_bytes, alignment=1024))
    found: list[Any] = []
    for tensor, part, layer, first in zip((A, B), (plan.a, plan.b), layers, corner, strict=True):
        pointer = tensor.iter + fx.Int64(layer) * tensor.stride[0]
        if part.order:
            whole = fx.Int32(A.shape[2 if plan.a.k_major else 1])
            found.append(Weights(part, pointer, first, fx.Int32(tensor.shape[1]), k, whole))
            continue
        rows = fx.Int32(tensor.shape[1 if part.k_major else 2])
        found.append(Operand(part, pointer, tensor.stride[1], first, rows, k, lds))
    return found[0], found[1]


def compute(
    plan: GemmPlan, a: Operand, b: Operand | Weights, where: tuple[Any, Any, Any], finish: Finish
) -> None:
    """Multiply a workgroup's tile, finish it and store it.

    Args:
        plan: The plan.
        a: A's tile.
        b: B's tile.
        where: The first column of A, C, and the matrix of it.
        finish: What to do with the sums.
    """
    begin, c, layer = where
    wave = wave_of(plan)
    acc = accumulate(plan, a, b, begin, wave, finish)
    target = c, corner(c, layer, finish)
    spread = plan.b.spread
    for i in range(plan.tiles_m):
        for j in range(plan.tiles_n // spread):
            sums = joined(acc[i][j * spread : (j + 1) * spread])
            deliver(sums, wave.m + i * 16, wave.n + j * 16 * spread, finish, target)


@flyc.kernel
def dense_kernel(
    A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, extras: Extras, plan: fx.Constexpr[GemmPlan]
) -> None:
    """C = finished(A B); with split K, sums of each part."""
    config = plan.config
    rows, columns = fx.Int32(C.shape[1]), fx.Int32(C.shape[2])
    k = fx.Int32(A.shape[2 if plan.a.k_major else 1])
    tiles_m = (rows + (config.tile_m - 1)) // config.tile_m
    tiles_n = (columns + (config.tile_n - 1)) // config.tile_n
    layers = fx.Int32(C.shape[0])
    own = spot((tiles_m, tiles_n), layers, config.group_m, plan.dies)
    row, column = own.tile_m * config.tile_m, own.tile_n * config.tile_n
    layer, begin, end = own.layer, fx.Int32(0), k
    if fx.const_expr(config.split_k > 1):
        batches = layers // config.split_k
        part, layer = own.layer // batches, own.layer % batches
        tiles = (k + (config.tile_k - 1)) // config.tile_k
        each = (tiles + (config.split_k - 1)) // config.split_k * config.tile_k
        begin = part * each
        end = fx.min(k, begin + each)
    a, b = operands(plan, A, B, (layer, layer), (row, column), end)
    finish = Finish(plan.epilogue, extras, layer, row, column, rows, columns)
    compute(plan, a, b, (begin, C, own.layer), finish)


def joined(tiles: list[Any]) -> Any:
    """Return the results of neighbouring tiles as one vector."""
    while len(tiles) > 1:
        pairs = zip(tiles[::2], tiles[1::2], strict=True)
        tiles = [a.shuffle(b, range(2 * a.numel)) for a, b in pairs]
    return tiles[0]


@flyc.jit
def launch_dense(
    A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, extras: Extras,
    plan: fx.Constexpr[GemmPlan], stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch one workgroup per tile of every layer of C."""
    config = plan.config
    tiles_m = (C.shape[1] + (config.tile_m - 1)) // config.tile_m
    tiles_n = (C.shape[2] + (config.tile_n - 1)) // config.tile_n
    groups = tiles_m * tiles_n * C.shape[0]
    dense_kernel(A, B, C, extras, plan).launch(grid=(groups,), block=(plan.threads,), stream=stream)
