"""From sums to C: scales, bias, activation, rounding, stores.

The matrix instruction is given B's columns as its rows, so that a lane has four neighbouring
columns of one row of C: they are stored together.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl_kernels.gemm.device.preshuffle.operands import Place
from flydsl_kernels.gemm.device.preshuffle.plan import SIDE, PreshufflePlan
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
    plan: PreshufflePlan, acc: list[Any], c: Any, extras: tuple[Any, Any, Any],
    extents: tuple[Any, Any], place: Place,
) -> None:  # fmt: skip
    """Store a workgroup's tile.

    Args:
        plan: The configuration.
        acc: Sums, blocks of columns fastest.
        c: C (M, N).
        extras: Scales of the rows, of the columns, and the bias.
        extents: M and N.
        place: The thread's place.
    """
    rows, columns = extents
    kind, steps = _KINDS[plan.out_dtype], plan.epilogue
    size = kind.width // 8
    own = place.first_column + place.group * _TOGETHER
    at = [own + SIDE * block for block in range(plan.column_blocks)]
    scales = _column_values(extras[1].iter, fx.Float32, columns, at) if steps.scaled else None
    bias = _column_values(extras[2].iter, extras[2].dtype, columns, at) if steps.bias else None
    left = rows - place.first_row
    pitch = columns * size
    start = _bytes(c.iter) + place.first_row.to(fx.Int64) * pitch.to(fx.Int64)
    buffer = WordBuffer.of(start, fx.min(left, plan.tile_m) * pitch)
    lanes = [place.row * pitch + column * size for column in at]
    if plan.n % plan.tile_n:
        lanes = [
            (column < columns).select(lane, fx.Int32(OUTSIDE))
            for lane, column in zip(lanes, at, strict=True)
        ]
    row_scales = None
    if steps.scaled:
        first = _bytes(extras[0].iter) + place.first_row.to(fx.Int64) * 4
        row_scales = WordBuffer.of(first, left * 4)
    for block in range(plan.row_blocks):
        row_scale = None
        if row_scales is not None:
            row_scale = row_scales.load((place.row + block * SIDE) * 4, words=1)
            row_scale = row_scale.bitcast(fx.Float32)
        for column in range(plan.column_blocks):
            value = steps.apply(
                acc[block * plan.column_blocks + column], kind, row_scale=row_scale,
                column_scales=scales[column] if scales else None,
                bias=bias[column] if bias else None,
            )  # fmt: skip
            # Lanes' own offsets are bounded by every hardware, uniform ones are not.
            buffer.store(value, lanes[column] + pitch * (block * SIDE))
