"""From the sums of a tile to memory: scales, activation, weight of the pair, rounding."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.ext import activation
from flydsl_kernels.moe.plans import Activation, GemmPlan

__all__ = ["finish"]

TOKEN = (1 << 24) - 1


def _fast() -> Any:
    """Return the flags of the activations: approximate functions and reciprocals."""
    return fx.arith.FastMathFlags.afn | fx.arith.FastMathFlags.arcp


def gated(gate: Any, up: Any, how: Activation) -> Any:
    """Return the activation of a gate times the gated numbers, f32 vectors."""
    if how.name == "silu":
        return activation.swiglu(
            gate, up, limit=how.limit, alpha=how.alpha, up_offset=how.offset, fastmath=_fast()
        )
    if how.limit is not None:
        gate = fx.min(gate, fx.Vector.filled((4,), how.limit, fx.Float32))
        up = activation.clamp(up, -how.limit, how.limit)
    if how.offset:
        up = up + fx.Vector.filled((4,), how.offset, fx.Float32)
    form = "tanh" if how.name == "gelu_tanh" else "none"
    return activation.geglu(gate, up, approximate=form, fastmath=_fast())


def four(number: Any) -> Any:
    """Return a vector of four copies of a number."""
    return fx.Vector.filled((4,), number, fx.Float32)


def channel_scales(B: Any, tile: Any) -> list[Any]:
    """Load the scales of the lane's channels: four for each block of them."""
    plan, sizes = tile.plan, tile.sizes
    start = B.iter + tile.expert.to(fx.Int64) * sizes.expert_scales
    quarter = tile.lane // 16 * 4
    last = (sizes.expert_scales - 4).to(fx.Int32)
    out = []
    for block in tile.blocks:
        for number in range(plan.tiles):
            # Channels past the last one have no scale, and are not stored.
            place = fx.min((block + number) * 16 + quarter, last)
            out.append((start + place).load(fx.Float32x4))
    return out


def own_sums(
    sums: list[Any], place: int, factor: Any, scales: list[Any], plan: GemmPlan
) -> list[Any]:
    """Return four channels of an entry, of the gates and what they gate, in f32 and scaled."""
    step = plan.tiles * plan.columns
    parts = [sums[place + half * step].to(fx.Float32) for half in range(plan.halves)]
    if not scales:
        return parts
    return [part * (scale * four(factor)) for part, scale in zip(parts, scales, strict=True)]


@flyc.jit
def store_channels(Y: Any, row: Any, channel: Any, value: Any, tile: Any) -> None:
    """Store four neighbouring channels of a row, or those of them that exist."""
    plan, channels = tile.plan, tile.sizes.channels
    place = Y.iter + (row.to(fx.Int64) * channels.to(fx.Int64) + channel)
    if fx.const_expr(plan.atomic or plan.channel_step == 1):
        for number in fx.range_constexpr(4):
            if channel + number < channels:
                if fx.const_expr(plan.atomic):
                    fx.atomic_add(place + number, value[number])
                else:
                    (place + number).store(value[number])
    elif fx.const_expr(plan.ragged_n):
        if channel < channels:
            place.store(value)
    else:
        place.store(value)


@flyc.jit
def finish(sums: list[Any], tile: Any, data: Any, order: Any) -> None:
    """Write a tile.

    Args:
        sums: What `product` returned.
        tile: The tile.
        data: Where scales and the result are.
        order: The sorted order.
    """
    plan: GemmPlan = tile.plan
    scaled = plan.numbers.w_scale == "channel"
    of_channels = channel_scales(data.b, tile) if scaled else []
    for column in fx.range_constexpr(plan.columns):
        entry = tile.first + column * 16 + tile.lane % 16
        packed = (order.ids.iter + entry).load()
        token, slot = packed & TOKEN, packed >> 24
        if token < tile.sizes.tokens:
            factor = fx.Float32(1.0)
            pair = token * tile.sizes.slots + slot
            if fx.const_expr(scaled):
                row = {"token": token, "pair": pair}.get(plan.source)
                row = slot * tile.sizes.tokens + token if row is None else row
                factor = (data.a.iter + row).load()
            weight = (order.weights.iter + entry).load()
            target = token if plan.atomic else pair
            for number in fx.range_constexpr(plan.tiles):
                scales = of_channels[number :: plan.tiles]
                parts = own_sums(sums, number * plan.columns + column, factor, scales, plan)
                value = parts[0]
                if fx.const_expr(plan.activation is not None):
                    value = gated(parts[0], parts[1], plan.activation)  # type: ignore[arg-type]
                if fx.const_expr(plan.weighted):
                    value = value * four(weight)
                channel = (tile.blocks[0] + number) * 16 + tile.lane // 16 * 4
                store_channels(data.y, target, channel, value.to(data.y.dtype), tile)
