"""Preshuffled weights on their way from global memory straight to fragments.

Every order in `flydsl_kernels.gemm.plan.WEIGHTS` has blocks of 16 columns of B, and in a block
unit after unit: what 16 bytes of k of A meet (a piece), or two of these, of all 16 columns. A lane
loads its column's part of a piece; lane groups have pieces in turn, as those of A's rows in LDS. So
neighbouring lanes read neighbouring memory, a whole wave one run of it, and nothing is rearranged
on the way. Packed elements stay packed until the step that multiplies them.

Blocks have a descriptor each, which ends where the workgroup's columns of A do. What is past it,
and blocks past the last column, become zeros and cost no memory traffic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import flydsl.expr as fx
from flydsl_kernels.gemm.device.staging import natural_row
from flydsl_kernels.gemm.device.windows import wide
from flydsl_kernels.gemm.instruction import PIECE, MatrixCore
from flydsl_kernels.gemm.plan import WEIGHTS, OperandPlan, WeightOrder
from flydsl_rocdl.kernels.unpacking import unpacker
from flydsl_rocdl.kernels.word_buffers import WordBuffer, beyond, pinned

__all__ = ["Blocks", "Weights", "load_step", "opened", "place_of"]

__flydsl_internal__ = True  # plain Python: nothing here decides on run-time values

_SIDE = 16


@dataclass(frozen=True, slots=True)
class Weights:
    """Preshuffled weights in a kernel; run-time values are those of its workgroup.

    Attributes:
        plan: The compile-time part.
        pointer: Start of the matrix.
        first: The tile's first column of B.
        rows: Columns of B.
        k: Columns of A, where the workgroup's part of them ends.
        whole: All columns of A.
    """

    plan: OperandPlan
    pointer: Any
    first: Any
    rows: Any
    k: Any
    whole: Any

    def moved(self, tensor: Any, layer: Any, first: Any, k: Any) -> Weights:
        """Return the weights of another tile: of a layer of `tensor`, from a column on, to `k`."""
        pointer = tensor.iter + wide(layer) * tensor.stride[0]
        return replace(self, pointer=pointer, first=first, k=k)


@dataclass(frozen=True, slots=True)
class Blocks:
    """A wave's blocks of 16 columns.

    Attributes:
        order: How pieces lie in memory.
        buffers: Memory of each block.
        lane: The lane's byte offset in a block.
        steps: Steps of a tile along k.
        reads: Pieces of a step that a lane loads.
        groups: Lane groups, which have pieces in turn.
        element_bytes: Bytes of an element of A.
        tile_k: Columns of A in a tile.
        unpacking: What makes pieces of packed ones; empty: nothing has to.
    """

    order: WeightOrder
    buffers: tuple[WordBuffer, ...]
    lane: Any
    steps: int
    reads: int
    groups: int
    element_bytes: int
    tile_k: int
    unpacking: str

    def pieces(self, held: list[Any], first: int) -> list[Any]:
        """Return a lane's pieces of a step and a block as vectors of four words.

        Args:
            held: What `load_step` returned.
            first: Which of these is the first one.
        """
        unpack = unpacker(self.unpacking)
        return [unpack(piece) for piece in held[first : first + self.reads]]


def opened(weights: Weights, core: MatrixCore, beside: Any, tiles: int) -> Blocks:
    """Return the blocks of a wave.

    Args:
        weights: The weights.
        core: The instruction.
        beside: The wave's first column within the tile.
        tiles: Blocks that it has.
    """
    plan = weights.plan
    order = WEIGHTS[plan.order]
    column = weights.first + beside
    shared = order.pieces(plan.element_bytes)
    per_k = _per_k(order, plan.element_bytes)
    pitch = wide(weights.whole) * per_k
    extent = fx.max(weights.k, fx.Int32(0)) * per_k
    start = fx.recast_iter(fx.Int8, weights.pointer) + wide(column // _SIDE) * pitch
    buffers = []
    for tile in range(tiles):
        there = column + tile * _SIDE < weights.rows
        size = there.select(extent, fx.Int32(0))
        buffers.append(WordBuffer.of(start + pitch * tile, size))
    thread = fx.thread_idx.x % core.wave
    lane = natural_row(plan, thread % _SIDE) * order.part_bytes
    if core.groups > 1:
        group = thread // _SIDE
        lane = lane + group // shared * (_SIDE * order.unit_bytes)
        if shared > 1:
            lane = lane + group % shared * (order.unit_bytes // shared)
    return Blocks(
        order, tuple(buffers), lane, plan.row_bytes // core.step_bytes, core.reads, core.groups,
        plan.element_bytes, plan.tile_k, plan.unpacking,
    )  # fmt: skip


def _per_k(order: WeightOrder, element_bytes: int) -> int:
    """Return the bytes of 16 columns at one k."""
    unit_k = order.pieces(element_bytes) * PIECE // element_bytes
    return _SIDE * order.unit_bytes // unit_k


def place_of(blocks: Blocks, k: Any) -> Any:
    """Return the lane's byte offset in every block for the tile at column `k` of A."""
    # As one value, to which the offsets of pieces are constants of the instructions.
    return pinned(blocks.lane + k * _per_k(blocks.order, blocks.element_bytes))


def load_step(blocks: Blocks, at: Any, step: int) -> list[Any]:
    """Load a lane's pieces of one step of a tile, those of each block in turn.

    Args:
        blocks: The wave's blocks.
        at: `place_of` the tile.
        step: Number of the step.

    Returns:
        Vectors of Int32, or one, as they are stored.
    """
    order, found = blocks.order, []
    shared = order.pieces(blocks.element_bytes)
    for buffer in blocks.buffers:
        for read in range(blocks.reads):
            piece = (step * blocks.reads + read) * blocks.groups
            unit, within = divmod(piece, shared)
            first = unit * _SIDE * order.unit_bytes + within * order.unit_bytes // shared
            found.append(_piece(order, buffer, beyond(at, first), shared))
    return found


def _piece(order: WeightOrder, buffer: WordBuffer, at: Any, shared: int) -> Any:
    """Load a piece, part by part, of a unit that has `shared` of them."""
    words = order.part_bytes // shared // 4
    parts = [
        buffer.load(beyond(at, part * _SIDE * order.part_bytes), words=words)
        for part in range(order.parts)
    ]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [a.shuffle(b, range(2 * a.numel)) for a, b in pairs]
    return parts[0]
