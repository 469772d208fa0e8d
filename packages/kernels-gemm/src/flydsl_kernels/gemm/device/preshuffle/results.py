"""From sums to C: scales, bias, activation, rounding, stores.

The matrix instruction is given B's columns as its rows, so that a lane has four neighbouring
columns of one row of C. They are stored together, or exchanged within the wave so that eight lanes
store 128 bytes of a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flydsl.expr as fx
from flydsl_kernels.gemm.device.preshuffle.operands import Pitches, Place
from flydsl_kernels.gemm.device.preshuffle.plan import SIDE, PreshufflePlan
from flydsl_rocdl.kernels.row_exchange import WAVE_BYTES, RowExchange
from flydsl_rocdl.kernels.word_buffers import OUTSIDE, WordBuffer

__all__ = ["finish"]

__flydsl_internal__ = True  # plain Python: nothing here decides on run-time values

_KINDS = {"bf16": fx.BFloat16, "fp16": fx.Float16, "f32": fx.Float32}
_TOGETHER = 4


def _bytes(pointer: Any) -> Any:
    return fx.recast_iter(fx.Int8, pointer)


def _column_values(pointer: Any, kind: Any, columns: Any, at: list[Any]) -> list[Any]:
    """Load the four values of each block of columns; zero past the end."""
    size = kind.width // 8
    buffer = WordBuffer.of(_bytes(pointer), columns * size)
    words = _TOGETHER * size // 4
    return [buffer.load(column * size, words=words).bitcast(kind) for column in at]


def finish(
    plan: PreshufflePlan, acc: list[Any], c: Any, extras: tuple[Any, Any, Any] | None,
    extents: tuple[Any, Any], place: Place, memory: Any, pitches: Pitches,
) -> None:  # fmt: skip
    """Store a workgroup's tile.

    Args:
        plan: The configuration.
        acc: Sums, blocks of columns fastest.
        c: Pointer to C (M, N).
        extras: Scales of the rows, of the columns, and the bias; None for a plain epilogue.
        extents: M and N.
        place: The thread's place.
        memory: Pointer of Int128 to the local data share of the steps.
        pitches: How far rows are apart.
    """
    rows, columns = extents
    kind = _KINDS[plan.out_dtype]
    size = kind.width // 8
    left = rows - place.first_row
    pitch = (columns if pitches.c is None else pitches.c) * size
    start = _bytes(c) + place.first_row.to(fx.Int64) * pitch.to(fx.Int64)
    buffer = WordBuffer.of(start, fx.min(left, plan.tile_m) * pitch)
    results = _results(plan, acc, extras, extents, place)
    if plan.exchanged:
        fx.rocdl.sched_barrier()
        fx.rocdl.lds_barrier()
        exchange = RowExchange(memory + place.wave * (WAVE_BYTES // 16), place.lane)
        column = place.first_column + exchange.piece * (16 // size)
        lane = _inside(plan, exchange.row * pitch + column * size, column, columns)
        for block, values in enumerate(results):
            for half, words in enumerate(exchange.rows(values)):
                buffer.store(words, lane + pitch * (block * SIDE + half * 8))
        return
    own = place.first_column + place.group * _TOGETHER
    at = [own + SIDE * block for block in range(plan.column_blocks)]
    lanes = [_inside(plan, place.row * pitch + x * size, x, columns) for x in at]
    for block, values in enumerate(results):
        for lane, value in zip(lanes, values, strict=True):
            # Lanes' own offsets are bounded by every hardware, uniform ones are not.
            buffer.store(value, lane + pitch * (block * SIDE))


def _inside(plan: PreshufflePlan, lane: Any, column: Any, columns: Any) -> Any:
    """Return a lane's offset, outside of C where its column is."""
    if plan.n % plan.tile_n == 0:
        return lane
    return (column < columns).select(lane, fx.Int32(OUTSIDE))


def _results(
    plan: PreshufflePlan, acc: list[Any], extras: tuple[Any, Any, Any] | None,
    extents: tuple[Any, Any], place: Place,
) -> Iterator[list[Any]]:  # fmt: skip
    """Yield the results of each block of rows: four numbers for each block of columns."""
    (rows, columns), steps = extents, plan.epilogue
    own = place.first_column + place.group * _TOGETHER
    at = [own + SIDE * block for block in range(plan.column_blocks)]
    scales = bias = row_scales = None
    if steps.bias and extras is not None:
        bias = _column_values(extras[2].iter, extras[2].dtype, columns, at)
    if steps.scaled and extras is not None:
        scales = _column_values(extras[1].iter, fx.Float32, columns, at)
        first = _bytes(extras[0].iter) + place.first_row.to(fx.Int64) * 4
        row_scales = WordBuffer.of(first, (rows - place.first_row) * 4)
    for block in range(plan.row_blocks):
        row_scale = None
        if row_scales is not None:
            row_scale = row_scales.load((place.row + block * SIDE) * 4, words=1)
            row_scale = row_scale.bitcast(fx.Float32)
        yield [
            steps.apply(
                acc[block * plan.column_blocks + column], _KINDS[plan.out_dtype],
                row_scale=row_scale, column_scales=scales[column] if scales else None,
                bias=bias[column] if bias else None,
            )
            for column in range(plan.column_blocks)
        ]  # fmt: skip
