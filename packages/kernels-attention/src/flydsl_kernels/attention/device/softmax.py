"""The online softmax: maxima, sums and weights of a lane's rows, a tile of scores at a time.

A lane has a share of the scores of its row; the lane ``rows`` away has the others. Weights are
2^(score - reference) in the logarithm to base 2, where the reference follows the row's maximum, but
only when weights would exceed 2^limit: until then nothing is exchanged between lanes and nothing
rescaled. Every row decides for itself.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.attention.device.matrix import ELEMENTS, UNITS, Unit, paired
from flydsl_kernels.attention.selection import FlashPlan

__all__ = ["LEAST", "across_halves", "exponentials", "largest_of", "raised"]

LEAST = -3.0e38
"""Reference of a row that has seen no key."""


def across_halves(value: Any, unit: Unit) -> Any:
    """Return the value of the lane that has the other share of the row."""
    return fx.gpu.shuffle_xor(value, unit.rows)


def largest_of(values: list[Any]) -> Any:
    """Return the maximum of numbers, the others' where some are NaN."""
    while len(values) > 1:
        pairs = [fx.maxnumf(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(values) // 2 * 2 :]
    return values[0]


@flyc.jit
def raised(state: list[Any], tops: list[Any], scale: Any, plan: FlashPlan) -> list[Any]:
    """Return the state with references that no weight exceeds by more than the limit.

    Args:
        state: Per block of rows: reference, sum, and the blocks of the result.
        tops: Per block of rows the maximum of the lane's scores.
        scale: Factor of the scores.
        plan: The plan.
    """
    unit = UNITS[plan.unit]
    pairs = list(zip(tops, state, strict=True))
    wanted = [top * scale > column[0] + float(plan.limit) for top, column in pairs]
    some = wanted[0]
    for other in wanted[1:]:
        some = some | other
    if fx.rocdl.ballot(fx.Int64 if unit.lanes == 64 else fx.Int32, some) != 0:
        moved = []
        for top, (reference, total, parts) in pairs:
            most = fx.maxnumf(top, across_halves(top, unit)) * scale - float(plan.raised_by)
            grown = fx.arith.select(most > reference, most, reference)
            factor = fx.math.exp2(reference - grown)
            moved.append((grown, total * factor, [part * factor for part in parts]))
        state = moved
    return state


def exponentials(scores: list[Any], reference: Any, scale: Any, tiles: Any) -> Any:
    """Return (sum of the lane's weights, their operands for the second product).

    Args:
        scores: The blocks of scores.
        reference: The row's reference.
        scale: Factor of the scores.
        tiles: The tile.
    """
    plan, unit = tiles.plan, UNITS[tiles.plan.unit]
    total, pieces = fx.Float32(0.0), []
    for block in scores:
        factor, start = (fx.Vector.filled_like(block, x) for x in (scale, -reference))
        weights = fx.math.exp2(fx.math.fma(block, factor, start))
        narrow = weights.to(_narrow(plan))
        if plan.byte:
            # Bytes have few bits: the sum is of what the product takes, and V = 1 gives 1.
            weights = narrow.to(fx.Float32)
        total = total + weights.reduce("add")
        for first in fx.range_constexpr(0, unit.registers, 8):
            part = narrow.shuffle(narrow, range(first, first + 8))
            pieces.append(paired(part.bitcast(ELEMENTS[plan.element]), unit, tiles.lane.half))
    return total, pieces


def _narrow(plan: FlashPlan) -> Any:
    if plan.byte:
        return fx.Float8E4M3FNUZ if plan.element.endswith("fnuz") else fx.Float8E4M3FN
    return ELEMENTS[plan.element]
