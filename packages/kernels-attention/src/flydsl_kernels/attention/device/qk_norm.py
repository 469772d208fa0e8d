"""Queries and keys: normalised, rotated and perhaps quantised, in one kernel.

A head belongs to a few lanes of a wave, several heads to a workgroup. Lane `l` has the vectors
``l, l + lanes, …`` of the head, so that pairs of neighbours are within a thread.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl.ext import coop
from flydsl_kernels.attention.device.caches import stored
from flydsl_kernels.attention.device.rotary import (
    Angles,
    joined,
    parted,
    table_row,
    token_position,
)
from flydsl_kernels.attention.rotary import NormPlan

__all__ = ["Heads", "launch_qk_norm"]


@fx.struct
class Heads(fx.Struct):
    """Heads, their weight, the result and its scales."""

    source: fx.Tensor
    weight: fx.Tensor
    result: fx.Tensor
    scales: fx.Tensor


def _column(chunk: int, lane: Any, plan: NormPlan) -> Any:
    """Return the first column of a thread's vector."""
    return (lane + chunk * plan.lanes) * plan.vector


def _normalised(start: Any, weight: Any, lane: Any, plan: NormPlan) -> list[Any]:
    """Return a thread's vectors of a head over its root mean square, times the weight."""
    kind = vector_alias(start.element, (plan.vector,))
    columns = [_column(chunk, lane, plan) for chunk in range(plan.chunks)]
    values = [(start + column).load(kind).to(fx.Float32) for column in columns]
    total = fx.Float32(0.0)
    for value in values:
        total = total + (value * value).reduce("add")
    total = coop.warp_sum(total, width=plan.lanes)
    factor = fx.rsqrt(total * (1.0 / plan.rotation.head_dim) + plan.eps)
    out = [value * factor for value in values]
    if weight is None:
        return out
    weights = vector_alias(weight.element, (plan.vector,))
    return [
        value * (weight + column).load(weights).to(fx.Float32)
        for value, column in zip(out, columns, strict=True)
    ]


def _factors(table: Any, pair: Any, plan: NormPlan) -> tuple[Any, Any]:
    """Load a table's factors of a vector's pairs: of first and of second elements."""
    count = plan.vector // 2
    if plan.rotation.whole_table:
        both = (table + pair * 2).load(vector_alias(table.element, (plan.vector,)))
        return parted(both.to(fx.Float32))
    one = (table + pair).load(vector_alias(table.element, (count,))).to(fx.Float32)
    return one, one


@flyc.jit
def _rotated(value: Any, column: Any, tables: Any, plan: NormPlan) -> Any:
    """Return a vector with its pairs turned, if it lies in the rotated part of the head."""
    cosines, sines, there = tables
    rotation = plan.rotation
    inside = column >= rotation.first
    if inside & (column < rotation.first + rotation.rotary_dim):
        pair = (column - rotation.first) // 2
        a, b = parted(value)
        cos_a, cos_b = _factors(cosines, pair, plan)
        sin_a, sin_b = _factors(sines, pair, plan)
        turned = joined(fx.math.fma(a, cos_a, -(b * sin_a)), fx.math.fma(b, cos_b, a * sin_b))
        lost = fx.Float32(float("nan"))
        value = fx.Vector.from_elements([fx.arith.select(there, x, lost) for x in turned])
    return value


def _worst(a: Any, b: Any) -> Any:
    return fx.max(a, b)


def _scale(largest: Any, plan: NormPlan) -> tuple[Any, Any]:
    """Return a group's scale as it is kept, and as an f32 number; at least 2^-126.

    A power of two is the least whose product with the type's largest number is not less than the
    largest magnitude of the group.
    """
    exact = largest * (1.0 / plan.limit)
    if not plan.power_of_two:
        tiny = exact < 2.0**-126
        scale = fx.arith.select(tiny, fx.Float32(2.0**-126), exact)
        return scale, scale
    bits = exact.bitcast(fx.Uint32)
    exponent = (bits + fx.Uint32(0x7FFFFF)) >> fx.Uint32(23)
    least = fx.arith.select(exponent < fx.Uint32(1), fx.Uint32(1), exponent)
    byte = fx.arith.select(exact == exact, least, fx.Uint32(255))  # noqa: PLR0124
    scale = (least << fx.Uint32(23)).bitcast(fx.Float32)
    scale = fx.arith.select(exact == exact, scale, exact)  # noqa: PLR0124
    return byte.to(fx.Uint8), scale


@flyc.jit
def _quantise(values: list[Any], heads: Heads, place: Any, lane: Any, plan: NormPlan) -> None:
    """Store a thread's vectors of a head in 8 bits, and the scales of its groups.

    `place` is the result's head and the scales of the head.
    """
    start, scales = place
    across = min(plan.lanes, plan.group // plan.vector)
    together = max(1, plan.group // plan.vector // plan.lanes)
    for chunk in fx.range_constexpr(0, plan.chunks, together):
        largest = fx.Float32(0.0)
        for value in values[chunk : chunk + together]:
            largest = _worst(largest, fx.math.absf(value).reduce("max"))
        largest = coop.warp_reduce(largest, _worst, width=across)
        kept, scale = _scale(largest, plan)
        for index, value in enumerate(values[chunk : chunk + together]):
            small = stored(value, scale, heads.result.dtype, plan.limit)
            (start + _column(chunk + index, lane, plan)).store(small)
        if lane % across == 0:
            (scales + _column(chunk, lane, plan) // plan.group).store(kept)


@flyc.jit
def _head(
    heads: Heads, which: int, token: Any, head: Any, lane: Any, angles: Angles, plan: NormPlan
) -> None:
    """Compute one head."""
    wide, far = token.to(fx.Int64), head.to(fx.Int64)
    source, result = heads.source, heads.result
    start = source.iter + wide * source.stride[0] + far * source.stride[1]
    weight = heads.weight.iter if plan.weights[which] else None
    values = _normalised(start, weight, lane, plan)
    position = token_position(angles.positions, token, plan.rotation)
    cosines, there = table_row(angles.cos, position)
    sines, _ = table_row(angles.sin, position)
    tables = (cosines, sines, there)
    out = [
        _rotated(value, _column(chunk, lane, plan), tables, plan)
        for chunk, value in enumerate(values)
    ]
    target = result.iter + wide * result.stride[0] + far * result.stride[1]
    if fx.const_expr(plan.group):
        scales = heads.scales
        row = scales.iter + wide * scales.stride[0] + far * scales.stride[1]
        _quantise(out, heads, (target, row), lane, plan)
    else:
        for chunk, value in enumerate(out):
            (target + _column(chunk, lane, plan)).store(value.to(result.dtype))


@flyc.kernel
def qk_norm_kernel(
    queries: Heads, keys: Heads, angles: Angles, plan: fx.Constexpr[NormPlan]
) -> None:
    """Normalise, rotate and store the heads of one token's queries and keys."""
    token = fx.block_idx.x
    thread = fx.thread_idx.x
    head = fx.block_idx.y * plan.rows + thread // plan.lanes
    lane = thread % plan.lanes
    count, kv_count = fx.Int32(queries.source.shape[1]), fx.Int32(keys.source.shape[1])
    if head < count:
        _head(queries, 0, token, head, lane, angles, plan)
    elif head < count + kv_count:
        _head(keys, 1, token, head - count, lane, angles, plan)


@flyc.jit
def launch_qk_norm(
    queries: Heads, keys: Heads, angles: Angles, plan: fx.Constexpr[NormPlan], stream: fx.Stream
) -> None:
    """Launch a few lanes for each head of each token."""
    heads = queries.source.shape[1] + keys.source.shape[1]
    qk_norm_kernel(queries, keys, angles, plan).launch(
        grid=(queries.source.shape[0], (heads + (plan.rows - 1)) // plan.rows),
        block=(plan.rows * plan.lanes,),
        stream=stream,
    )
