"""What is added to scores, and which of them a row sees."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx
from flydsl_kernels.attention.device.matrix import UNITS

__all__ = ["Row", "adjusted", "head_scale", "own_rows", "seen", "uneven_spans", "visible"]


_LOG2_E = 1.0 / math.log(2.0)


@dataclass(frozen=True, slots=True)
class Row:
    """The row of queries that a lane has in a block of rows.

    Attributes:
        number: The row in its sequence; may be past the last one.
        place: The key that it stands at.
        low: First key that it sees, or None for all.
        high: Last key that it sees.
        bias: Pointer to the row of the bias, or None.
        slope: What scores lose per key, in the logarithm to base 2, or None.
    """

    number: Any
    place: Any
    low: Any
    high: Any
    bias: Any
    slope: Any


def own_rows(tiles: Any) -> list[Row]:
    """Return the lane's rows, one per block of rows."""
    a, plan, lane, block = tiles.a, tiles.plan, tiles.lane, tiles.block
    unit, out = UNITS[plan.unit], []
    for column in fx.range_constexpr(plan.columns):
        number = block.first + (lane.wave * plan.columns + column) * unit.rows + lane.column
        place = number + block.offset
        high = block.end - 1
        if plan.right:
            high = fx.min(place + a.right, high)
        low, bias, slope = None, None, None
        if plan.left:
            low = place - a.left
        if plan.bias:
            known = block.base_q + fx.max(fx.min(number, block.length_q - 1), 0)
            bias = a.bias.iter + (
                block.batch.to(fx.Int64) * a.bias.stride[0]
                + block.head.to(fx.Int64) * a.bias.stride[1]
                + known.to(fx.Int64) * a.bias.stride[2]
            )
        if plan.alibi:
            slope = a.slopes[block.sequence, block.head] * _LOG2_E
        out.append(Row(number, place, low, high, bias, slope))
    return out


def head_scale(a: Any, plan: Any, block: Any) -> Any:
    """Return the factor of a head's scores, times log2(e)."""
    if not plan.byte:
        return a.scale
    own = a.scale_q[block.sequence, block.head] * a.scale_k[block.sequence, block.kv_head]
    return a.scale * fx.rocdl.read_first_lane(own)


def adjusted(tiles: Any, scores: Any, first: Any, row: Row, scale: Any) -> Any:
    """Return scores in the logarithm to base 2 with what a row adds to them.

    Args:
        tiles: The tile.
        scores: The lane's registers of a result.
        first: Key of row 0 of the result, for the lane's half.
        row: The lane's row.
        scale: Factor of the scores.
    """
    unit = UNITS[tiles.plan.unit]
    out = []
    for register in fx.range_constexpr(unit.registers):
        key = first + unit.row(register)
        value = scores[register] * scale
        if row.bias is not None:
            known = fx.max(fx.min(key, tiles.block.end - 1), 0)
            offset = known.to(fx.Int64) * tiles.a.bias.stride[3]
            value = value + (row.bias + offset).load().to(fx.Float32) * _LOG2_E
        if row.slope is not None:
            away = fx.max(row.place - key, key - row.place)
            value = value - row.slope * away.to(fx.Float32)
        out.append(value)
    return fx.Vector.from_elements(out)


def seen(key: int, first: Any, row: Row) -> Any:
    """Return whether a row sees a key, counted from `first`."""
    if row.low is None:
        return key <= row.high - first
    # One comparison for both sides.
    after = (key - (row.low - first)).bitcast(fx.Uint32)
    return after < fx.max(row.high - row.low + 1, 0).bitcast(fx.Uint32)


def uneven_spans(tiles: Any, row: Row) -> list[tuple[Any, Any]]:
    """Return which keys a row sees in tiles that some rows of the workgroup see in part.

    Limits are those of tiles or beyond: each is at most the rows of a workgroup and a tile from
    what the row itself sees.
    """
    plan, block = tiles.plan, tiles.block
    most = plan.waves * plan.columns * UNITS[plan.unit].rows + plan.tile
    low = block.begin if plan.splits > 1 else fx.Int32(0)
    if row.low is not None:
        low = fx.max(row.low, low)
    spans = [(fx.max(low, row.high + 1 - most), row.high + 1)]
    if row.low is not None:
        spans.append((low, fx.min(low + most, row.high + 1)))
    return spans


def visible(tiles: Any, scores: Any, first: Any, row: Row) -> Any:
    """Return scores, minus infinity where the row does not see the key.

    Args:
        tiles: The tile.
        scores: The lane's registers of a result.
        first: Key of row 0 of the result, for the lane's half.
        row: The lane's row.
    """
    unit = UNITS[tiles.plan.unit]
    hidden = fx.Float32(float("-inf"))
    out = []
    for register in fx.range_constexpr(unit.registers):
        there = seen(unit.row(register), first, row)
        out.append(fx.arith.select(there, scores[register], hidden))
    return fx.Vector.from_elements(out)
