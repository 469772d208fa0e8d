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

__all__ = [
    "LEAST",
    "across_halves",
    "exponentials",
    "largest_of",
    "narrow_pair",
    "power",
    "raised",
    "summed",
]

LEAST = -3.0e38
"""Reference of a row that has seen no key."""


def across_halves(value: Any, unit: Unit) -> Any:
    """Return the value of the lane that has the other share of the row."""
    return fx.gpu.shuffle_xor(value, unit.rows)


def largest_of(values: list[Any]) -> Any:
    """Return the maximum of numbers.

    Where some are NaN it is any of them: their row becomes NaN through its weights. Without the
    flag every score would be made canonical first, which costs as much as the maximum.
    """
    while len(values) > 1:
        groups = [values[at : at + 3] for at in range(0, len(values), 3)]
        values = [fx.max(*group, fastmath="nnan") if len(group) > 1 else group[0]
                  for group in groups]  # fmt: skip
    return values[0]


def power(x: Any) -> Any:
    """Return 2^x of a number, results below 2^-126 as zero: one instruction."""
    return fx.rocdl.exp2(fx.Float32, x)


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
    wanted = [top * scale > column[0] + plan.limit for top, column in pairs]
    some = wanted[0]
    for other in wanted[1:]:
        some = some | other
    if fx.rocdl.ballot(fx.Int64 if unit.lanes == 64 else fx.Int32, some) != 0:
        moved = []
        for top, (reference, total, parts) in pairs:
            most = fx.maxnumf(top, across_halves(top, unit)) * scale
            needed = most > reference + plan.limit
            grown = fx.arith.select(needed, most - plan.raised_by, reference)
            factor = power(reference - grown)
            moved.append((grown, total * factor, [part * factor for part in parts]))
        state = moved
    return state


def exponentials(scores: list[Any], reference: Any, scale: Any, tiles: Any) -> Any:
    """Return (sums of the lane's weights, their operands for the second product).

    Args:
        scores: The blocks of scores.
        reference: The row's reference.
        scale: Factor of the scores.
        tiles: The tile.
    """
    plan, unit = tiles.plan, UNITS[tiles.plan.unit]
    total: Any = fx.Vector.filled((plan.sums,), 0.0, fx.Float32)
    pieces = []
    for block in scores:
        factor, start = (fx.Vector.filled((2,), x, fx.Float32) for x in (scale, -reference))
        for first in fx.range_constexpr(0, unit.registers, 8):
            pairs = []
            for at in fx.range_constexpr(first, first + 8, 2):
                pair = fx.math.fma(block.shuffle(block, (at, at + 1)), factor, start)
                pairs.append(fx.Vector.from_elements([power(x) for x in pair]))
            narrow, counted = narrowed(pairs, plan)
            for pair, exact in zip(counted, pairs, strict=True):
                total = total + (pair if plan.sums == 2 else pair.shuffle(exact, range(4)))
            pieces.append(paired(narrow, unit, tiles.lane.half))
    return total, pieces


def narrowed(pairs: list[Any], plan: FlashPlan) -> tuple[Any, list[Any]]:
    """Return weights in the operands' type, and the weights that the row's sum is of.

    Args:
        pairs: Eight f32 weights.
        plan: The plan. Where bf16 is cut, not rounded, references are `CUT` too low and the sum is
            too large by that factor, as the operand is on average before it is cut.
    """
    if not plan.byte:
        packed = [narrow_pair(pair, plan) for pair in pairs]
        return fx.Vector.from_elements(packed).bitcast(ELEMENTS[plan.element]), pairs
    while len(pairs) > 1:
        pairs = [
            pairs[at].shuffle(pairs[at + 1], range(2 * pairs[at].numel))
            for at in range(0, len(pairs), 2)
        ]
    # Bytes have few bits: the sum is of what the product takes, and V = 1 gives 1.
    narrow = pairs[0].to(_narrow(plan))
    weights = narrow.to(fx.Float32)
    halves = [weights.shuffle(weights, (at, at + 1)) for at in range(0, 8, 2)]
    return narrow.bitcast(ELEMENTS[plan.element]), halves


def narrow_pair(pair: Any, plan: FlashPlan) -> Any:
    """Return two weights of 16 bits in a word."""
    if plan.cut:
        word = pair.bitcast(fx.Int32)
        return fx.rocdl.perm(fx.Int32, word[1], word[0], fx.Int32(0x07060302))
    return pair.to(ELEMENTS[plan.element]).bitcast(fx.Int32)[0]


def summed(total: Any, weights: Any, word: Any, plan: FlashPlan) -> Any:
    """Return the sums of weights with two more.

    Where one instruction adds the products of two pairs, the sum is of the narrow weights, unless
    its logarithm is wanted.

    Args:
        total: Two sums.
        weights: The weights.
        word: The same as operands.
        plan: The plan.
    """
    if plan.unit != "mfma-16" or plan.lse:
        return total + weights
    pair = fx.Vector.from_elements([word]).bitcast(ELEMENTS[plan.element])
    name = "fdot2_f32_bf16" if plan.element == "bfloat16" else "fdot2"
    ones = fx.Vector.filled((2,), 1.0, ELEMENTS[plan.element])
    added = getattr(fx.rocdl, name)(fx.Float32, pair, ones, total[0], fx.Boolean(False))
    return fx.Vector.from_elements([added, total[1]])


def _narrow(plan: FlashPlan) -> Any:
    return fx.Float8E4M3FNUZ if plan.element.endswith("fnuz") else fx.Float8E4M3FN
