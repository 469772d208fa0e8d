"""What a wave does: A's rows and preshuffled B from memory to registers, products, results.

A lane loads 16 bytes of a row of A, which serve two instructions: of 32 k, lane group g has k 16 g
to 16 g + 15, its half h goes to instruction h. B in layout ``rdna4_fp8`` has the same k of a column
in the eight bytes at ``((2 s + g) 2 + h) 128 + 8 (n % 16)`` of step s. Operands are swapped, so
that a lane has eight neighbouring columns of one row of C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx
from flydsl_kernels.gemm.device.rdna4.plan import SIDE, STEP, WAVE, WAVES, Rdna4Plan
from flydsl_rocdl.kernels.tile_order import grouped
from flydsl_rocdl.kernels.word_buffers import OUTSIDE, WordBuffer

__all__ = ["Corner", "RdnaTile", "corner_of", "store"]

__flydsl_internal__ = True  # plain Python: nothing here decides on run-time values

_KINDS = {"bf16": fx.BFloat16, "f32": fx.Float32}
_VALUES = 8
_PIECE = 128
"""Bytes of eight k of 16 columns of B."""


@dataclass(frozen=True, slots=True)
class Corner:
    """Where a wave's tile begins, and the lane's place.

    Attributes:
        row: First row of the tile.
        column: First column of the wave.
        side: The lane's row of A's blocks, and column of B's.
        group: The lane's group of 16.
    """

    row: Any
    column: Any
    side: Any
    group: Any


def corner_of(plan: Rdna4Plan, rows: Any) -> Corner:
    """Return the calling thread's place; `rows` is M."""
    thread = fx.thread_idx.x
    tiles_m = (rows + (plan.tile_m - 1)) // plan.tile_m
    tile_m, tile_n = grouped(fx.block_idx.x, tiles_m, plan.tiles_n, plan.group_m)
    wave = fx.rocdl.readfirstlane(fx.Int32, thread // WAVE)
    column = tile_n * plan.tile_n + wave * (plan.tile_n // WAVES)
    return Corner(tile_m * plan.tile_m, column, thread % SIDE, thread % WAVE // SIDE)


def _bytes(pointer: Any) -> Any:
    return fx.recast_iter(fx.Int8, pointer)


class RdnaTile:
    """A wave's operands in memory, and one tile of K of its sums."""

    def __init__(self, plan: Rdna4Plan, a: Any, b: Any, rows: Any, corner: Corner) -> None:
        """Make the buffers; rows past M and columns past N are outside of them.

        Args:
            plan: The configuration.
            a: Pointer to A (M, K).
            b: Pointer to B in layout ``rdna4_fp8``.
            rows: M.
            corner: The thread's place.
        """
        k, share = plan.k, plan.column_blocks * SIDE
        self.plan = plan
        start = _bytes(a) + corner.row.to(fx.Int64) * k
        self.a = WordBuffer.of(start, fx.min(rows - corner.row, plan.tile_m) * k)
        start = _bytes(b) + corner.column.to(fx.Int64) * k
        self.b = WordBuffer.of(start, fx.min(fx.Int32(plan.n) - corner.column, share) * k)
        first = corner.side * k + corner.group * 16
        self.rows = [first + block * SIDE * k for block in range(plan.row_blocks)]
        first = corner.group * (2 * _PIECE) + corner.side * _VALUES
        self.columns = [first + block * SIDE * k for block in range(plan.column_blocks)]

    def load(self, step: Any) -> tuple[list[Any], list[Any]]:
        """Return what the lane loads of A and of B for a tile of K."""
        parts = self.plan.tile_k // STEP
        at_a, at_b = step * self.plan.tile_k, step * (self.plan.tile_k * SIDE)
        a = [self.a.load(lane + part * STEP, at_a) for part in range(parts) for lane in self.rows]
        b = [
            self.b.load(lane + part * STEP * SIDE + half * _PIECE, at_b, words=2)
            for part in range(parts)
            for half in range(2)
            for lane in self.columns
        ]
        return a, b

    def start(self) -> tuple[list[Any], list[Any], list[Any]]:
        """Return sums of zero and the first tile's operands."""
        zero = fx.Vector.filled((_VALUES,), 0.0, fx.Float32)
        return [zero] * (self.plan.row_blocks * self.plan.column_blocks), *self.load(0)

    def run(self, step: Any, slot: int, state: Any, more: bool) -> Any:
        """Load the next tile if there is one, and multiply this one."""
        del slot
        acc, a, b = state
        ahead = self.load(fx.Int32(step) + 1) if more else (a, b)
        # Loads stay before the products, which then wait for the loads of a step ago only.
        fx.rocdl.sched_barrier()
        return self._multiply(list(acc), a, b), *ahead

    def _multiply(self, acc: list[Any], a: list[Any], b: list[Any]) -> list[Any]:
        rows, columns = self.plan.row_blocks, self.plan.column_blocks
        for part in range(self.plan.tile_k // STEP):
            for half in range(2):
                own = b[(2 * part + half) * columns :][:columns]
                for i in range(rows):
                    whole = a[part * rows + i]
                    piece = whole.shuffle(whole, range(2 * half, 2 * half + 2))
                    for j in range(columns):
                        place = i * columns + j
                        acc[place] = fx.rocdl.wmma_f32_16x16x16_fp8_fp8(
                            None, own[j], piece, acc[place]
                        )
        return acc


def store(
    plan: Rdna4Plan, acc: list[Any], c: Any, extras: tuple[Any, Any, Any], rows: Any, corner: Corner
) -> None:
    """Finish a wave's sums and store them.

    Args:
        plan: The configuration.
        acc: Sums, blocks of columns fastest.
        c: Pointer to C (M, N).
        extras: Scales of the rows and of the columns, and the bias: tensors.
        rows: M.
        corner: The thread's place.
    """
    kind, steps = _KINDS[plan.out_dtype], plan.epilogue
    size = kind.width // 8
    pitch = plan.n * size
    left = fx.min(rows - corner.row, plan.tile_m)
    target = WordBuffer.of(_bytes(c) + corner.row.to(fx.Int64) * pitch, left * pitch)
    at = [corner.column + block * SIDE + corner.group * _VALUES
          for block in range(plan.column_blocks)]  # fmt: skip
    scales = bias = row_scales = None
    if steps.scaled:
        scales = [_vector(plan, extras[1].iter, fx.Float32, column) for column in at]
        first = _bytes(extras[0].iter) + corner.row.to(fx.Int64) * 4
        row_scales = WordBuffer.of(first, left * 4)
    if steps.bias:
        bias = [_vector(plan, extras[2].iter, extras[2].dtype, column) for column in at]
    for i in range(plan.row_blocks):
        row, row_scale = corner.side + i * SIDE, None
        if row_scales is not None:
            row_scale = row_scales.load(row * 4, words=1).bitcast(fx.Float32)
        for j, column in enumerate(at):
            value = steps.apply(
                acc[i * plan.column_blocks + j], kind, row_scale=row_scale,
                column_scales=scales[j] if scales else None, bias=bias[j] if bias else None,
            )  # fmt: skip
            lane = row * pitch + column * size
            if plan.n % plan.tile_n:
                lane = (column < plan.n).select(lane, fx.Int32(OUTSIDE))
            for part in range(0, _VALUES, 16 // size):
                piece = value.shuffle(value, range(part, part + 16 // size))
                target.store(piece, lane + part * size)


def _vector(plan: Rdna4Plan, pointer: Any, kind: Any, column: Any) -> Any:
    """Return the eight numbers at a column; zero past the end."""
    size = kind.width // 8
    buffer = WordBuffer.of(_bytes(pointer), plan.n * size)
    each = 16 // size
    parts = [
        buffer.load((column + part) * size, words=4).bitcast(kind)
        for part in range(0, _VALUES, each)
    ]
    if len(parts) == 1:
        return parts[0]
    return parts[0].shuffle(parts[1], range(_VALUES))
