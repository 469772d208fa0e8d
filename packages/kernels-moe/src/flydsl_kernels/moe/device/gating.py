"""Choosing experts: the lanes of a part of a wave share a token.

Experts are compared as integers whose order is that of their numbers, so the choice is total: NaN
comes after every number, and of equal experts the first one wins. Without a bias the logits
themselves are compared, which softmax and the logistic function keep in order.
"""

from __future__ import annotations

import math
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.moe.selection import GatingPlan

__all__ = ["launch_gating"]

LOG2_E = math.log2(math.e)
OUT = -(1 << 31)
"""Key of an expert that cannot be chosen (any more)."""
LAST = OUT + 1
"""Key of NaN."""


def key_of(value: Any) -> Any:
    """Return an `Int32` in the order of f32 numbers; both zeros have one key, NaN the least."""
    bits = (value + fx.Float32(0.0)).bitcast(fx.Int32)
    key = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (value == value).select(key, fx.Int32(LAST))  # noqa: PLR0124


def exponential(value: Any) -> Any:
    """Return e to the power of an f32 number."""
    return fx.math.exp2(value * LOG2_E, fastmath=fx.arith.FastMathFlags.afn)


def score_of(logit: Any, top: Any, scoring: str) -> Any:
    """Return a logit's score, for softmax relative to that of the largest one; NaN has 0."""
    if scoring == "softmax":
        # The difference of equal infinities counts as 0.
        score = exponential((logit == top).select(fx.Float32(0.0), logit - top))
    else:
        score = 1.0 / (1.0 + exponential(-logit))
    return (logit == logit).select(score, fx.Float32(0.0))  # noqa: PLR0124


def across(value: Any, combine: Any, lanes: int) -> Any:
    """Combine a value over the lanes of a token; all of them get the same bits."""
    offset = 1
    while offset < lanes:
        value = combine(value, fx.gpu.shuffle_xor(value, offset))
        offset *= 2
    return value


def first_largest(keys: list[Any], first: Any, lanes: int) -> tuple[Any, Any]:
    """Return the largest key over the lanes of a token and the least index that has it.

    Args:
        keys: The lane's keys.
        first: Index of the first one; the others follow.
        lanes: Lanes of a token.
    """
    best, place = keys[0], first
    for position, key in enumerate(keys[1:], 1):
        better = key > best
        best, place = better.select(key, best), better.select(first + position, place)
    offset = 1
    while offset < lanes:
        other, there = (fx.gpu.shuffle_xor(v, offset) for v in (best, place))
        better = (other > best) | ((other == best) & (there < place))
        best, place = better.select(other, best), better.select(there, place)
        offset *= 2
    return best, place


def load_logits(start: Any, first: Any, plan: GatingPlan) -> list[Any]:
    """Load the lane's logits as f32; those past the last expert are the first lane's."""
    whole = plan.each * plan.lanes == plan.experts
    if whole and plan.each & (plan.each - 1) == 0 and plan.each > 1:
        vector = (start + first).load(vector_alias(start.element, (plan.each,)))
        return list(vector.to(fx.Float32))
    places = [first + i for i in range(plan.each)]
    if not whole:
        places = [(place < plan.experts).select(place, fx.Int32(0)) for place in places]
    return [(start + place).load().to(fx.Float32) for place in places]


def blocked(keys: list[Any], first: Any, plan: GatingPlan) -> list[Any]:
    """Return keys, `OUT` past the last expert."""
    if plan.each * plan.lanes == plan.experts:
        return keys
    return [
        (first + i < plan.experts).select(key, fx.Int32(OUT)) for i, key in enumerate(keys)
    ]  # fmt: skip


@flyc.jit
def group_key(keys: list[Any], group: Any, first: Any, plan: GatingPlan) -> Any:
    """Return the key of a group's score: of its best expert, or of the sum of its two best."""
    members = plan.experts // plan.groups
    inside = [(first + i) // members == group for i in range(plan.each)]
    own = [yes.select(key, fx.Int32(OUT)) for yes, key in zip(inside, keys, strict=True)]
    best, place = first_largest(own, first, plan.lanes)
    if fx.const_expr(plan.pair_scores):
        rest = [
            (first + i == place).select(fx.Int32(OUT), key) for i, key in enumerate(own)
        ]  # fmt: skip
        second, _ = first_largest(rest, first, plan.lanes)
        total = number_of(best) + (number_of(second) if members > 1 else 0.0)
        best = key_of(total)
    return best


def number_of(key: Any) -> Any:
    """Return the f32 number of a key, NaN for that of NaN."""
    number = (key ^ ((key >> 31) & 0x7FFFFFFF)).bitcast(fx.Float32)
    return (key <= LAST).select(fx.Float32(float("nan")), number)


@flyc.jit
def in_best_groups(
    keys: list[Any], first: Any, lane: Any, groups: Any, top_groups: Any, plan: GatingPlan
) -> list[Any]:
    """Return keys, `OUT` outside the best groups."""
    mine = fx.Int32(OUT)
    for group in range(groups):
        found = group_key(keys, group, first, plan)
        mine = (lane == group).select(found, mine)
    chosen = fx.Int32(0)
    for _ in range(top_groups):
        _, place = first_largest([mine], lane, plan.lanes)
        chosen = chosen | (fx.Int32(1) << place)
        mine = (lane == place).select(fx.Int32(OUT), mine)
    members = plan.experts // plan.groups
    out = []
    for position, key in enumerate(keys):
        # Past the last expert there is no group, and the key is OUT already.
        group = fx.min((first + position) // members, fx.Int32(plan.groups - 1))
        out.append((((chosen >> group) & 1) != 0).select(key, fx.Int32(OUT)))
    return out


@flyc.jit
def chosen_expert(keys: list[Any], first: Any, lane: Any, turns: Any, plan: GatingPlan) -> Any:
    """Return the lane-th best expert; 0 in the lanes after the last one chosen."""
    mine = fx.Int32(0)
    for turn in range(turns):
        _, place = first_largest(keys, first, plan.lanes)
        mine = (lane == turn).select(place, mine)
        keys = [(first + i == place).select(fx.Int32(OUT), key) for i, key in enumerate(keys)]
    return mine


@flyc.kernel
def gating_kernel(
    X: fx.Tensor, B: fx.Tensor, W: fx.Tensor, I: fx.Tensor, S: fx.Tensor, turns: fx.Int32,
    plan: fx.Constexpr[GatingPlan], indexed: fx.Constexpr[bool],
) -> None:  # fmt: skip
    """W, I = weights and numbers of the experts chosen by logits X (with bias B).

    S, if `indexed`, gets slot * tokens + token. `turns` is `plan.chosen`, plus the groups and the
    groups chosen from times 2^8 and 2^16: numbers of iterations that the code generator must not
    know, because it would unroll everything.
    """
    groups, top_groups, turns = (turns >> 8) & 255, turns >> 16, turns & 255
    lane = fx.thread_idx.x % plan.lanes
    token = fx.block_idx.x * plan.tokens + fx.thread_idx.x // plan.lanes
    tokens = fx.Int32(X.shape[0])
    there = token < tokens
    start = X.iter + there.select(token, fx.Int32(0)).to(fx.Int64) * X.stride[0]
    first = lane * plan.each
    logits = load_logits(start, first, plan)
    exists = [first + i < plan.experts for i in range(plan.each)]
    # NaN is ignored by the maximum; logits past the last expert repeat the first one.
    top = logits[0]
    for logit in logits[1:]:
        top = fx.maxnumf(top, logit)
    top = across(top, fx.maxnumf, plan.lanes)
    total = fx.Float32(1.0)
    if fx.const_expr(plan.scoring == "softmax" and (plan.biased or not plan.renormalise)):
        own = fx.Float32(0.0)
        for yes, logit in zip(exists, logits, strict=True):
            own = own + yes.select(score_of(logit, top, "softmax"), fx.Float32(0.0))
        total = across(own, lambda a, b: a + b, plan.lanes)
        total = (total > 0.0).select(total, fx.Float32(1.0))
    values = logits
    if fx.const_expr(plan.biased):
        places = [yes.select(first + i, fx.Int32(0)) for i, yes in enumerate(exists)]
        values = [
            (logit == logit).select(  # noqa: PLR0124
                score_of(logit, top, plan.scoring) / total + (B.iter + place).load(), logit
            )
            for logit, place in zip(logits, places, strict=True)
        ]
    keys = blocked([key_of(value) for value in values], first, plan)
    if fx.const_expr(plan.top_groups < plan.groups):
        keys = in_best_groups(keys, first, lane, groups, top_groups, plan)
    expert = chosen_expert(keys, first, lane, turns, plan)
    score = score_of((start + expert).load().to(fx.Float32), top, plan.scoring) / total
    score = (lane < plan.chosen).select(score, fx.Float32(0.0))
    if fx.const_expr(plan.renormalise):
        weight = across(score, lambda a, b: a + b, plan.lanes)
        score = (weight > 0.0).select(score / weight, fx.Float32(0.0))
    if there & (lane < plan.chosen):
        place = token.to(fx.Int64) * plan.chosen + lane
        (W.iter + place).store(score * plan.scale)
        (I.iter + place).store(expert)
        if fx.const_expr(indexed):
            (S.iter + place).store(lane * tokens + token)


@flyc.jit
def launch_gating(
    X: fx.Tensor, B: fx.Tensor, W: fx.Tensor, I: fx.Tensor, S: fx.Tensor,
    plan: fx.Constexpr[GatingPlan], indexed: fx.Constexpr[bool], stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch the choice of experts for every row of X."""
    groups = (X.shape[0] + (plan.tokens - 1)) // plan.tokens
    turns = plan.chosen + (plan.groups << 8) + (plan.top_groups << 16)
    gating_kernel(X, B, W, I, S, turns, plan, indexed).launch(
        grid=(groups,), block=(plan.block,), stream=stream
    )
