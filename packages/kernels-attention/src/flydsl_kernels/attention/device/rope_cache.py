"""Rotation of queries and keys, and writing keys and values to a cache, in one kernel."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.attention.device.caches import (
    key_place,
    page_of,
    store_value,
    stored,
    value_place,
)
from flydsl_kernels.attention.device.rotary import (
    Angles,
    copied_column,
    joined,
    rotated_unit,
    store_unit,
    table_row,
    token_position,
)
from flydsl_kernels.attention.rotary import BLOCK, CachePlan

__all__ = ["Cache", "Operands", "launch_rope_cache"]


@fx.struct
class Cache(fx.Struct):
    """A paged cache, the tokens' slots in it, and the scales of what it holds."""

    slots: fx.Tensor
    keys: fx.Tensor
    values: fx.Tensor
    key_scale: fx.Tensor
    value_scale: fx.Tensor


@fx.struct
class Operands(fx.Struct):
    """Queries, keys and values, and where rotated queries and keys go."""

    q: fx.Tensor
    k: fx.Tensor
    v: fx.Tensor
    q_out: fx.Tensor
    k_out: fx.Tensor


def _row(tensor: Any, token: Any, head: Any) -> Any:
    """Return the pointer to a token's head."""
    wide = head.to(fx.Int64) * tensor.stride[1]
    return tensor.iter + token.to(fx.Int64) * tensor.stride[0] + wide


def _rotated(source: Any, unit: Any, token: Any, angles: Angles, plan: CachePlan) -> Any:
    """Return a rotated unit's pairs."""
    position = token_position(angles.positions, token, plan.rotation)
    cosines, there = table_row(angles.cos, position)
    sines, _ = table_row(angles.sin, position)
    return rotated_unit(source, unit, (cosines, sines, there), plan.rotation)


@flyc.jit
def _rotate_unit(
    source: Any, result: Any, unit: Any, token: Any, angles: Angles, plan: CachePlan
) -> None:
    """Rotate or copy a unit of a head into an array."""
    rotation = plan.rotation
    if unit < rotation.rotated_units:
        store_unit(result, unit, _rotated(source, unit, token, angles, plan), rotation)
    else:
        column = copied_column(unit, rotation)
        kind = vector_alias(source.element, (rotation.vector,))
        (result + column).store((source + column).load(kind))


def _put_key(place: Any, column: Any, value: Any) -> None:
    """Store a vector of a key at a column of its place in the cache."""
    start, distance, block = place
    if block:
        start = start + (column // block).to(fx.Int64) * distance
        column = column % block
    (start + column).store(value)


def _scale(scales: Any, head: Any, plan: CachePlan) -> Any:
    """Return a head's f32 scale, or None."""
    if not plan.scaled:
        return None
    return scales[head if plan.scale_per_head else 0]


@flyc.jit
def _cache_key(
    source: Any, where: Any, unit: Any, token: Any, angles: Angles, cache: Cache, plan: CachePlan
) -> None:
    """Rotate or copy a unit of a key into the cache; `where` is its head, page and slot there."""
    head, page, slot = where
    rotation = plan.rotation
    place = key_place(cache.keys, head, page, slot, plan.layout)
    scale = _scale(cache.key_scale, head, plan)
    kind = cache.keys.dtype
    column = unit * rotation.vector
    if unit < rotation.rotated_units:
        first, second = _rotated(source, unit, token, angles, plan)
        if fx.const_expr(rotation.neox):
            half = rotation.rotary_dim // 2
            _put_key(place, column, stored(first, scale, kind, plan.limit))
            _put_key(place, column + half, stored(second, scale, kind, plan.limit))
        else:
            _put_key(place, column * 2, stored(joined(first, second), scale, kind, plan.limit))
    else:
        column = copied_column(unit, rotation)
        value = (source + column).load(vector_alias(source.element, (rotation.vector,)))
        _put_key(place, column, stored(value.to(fx.Float32), scale, kind, plan.limit))


def _cache_value(source: Any, where: Any, unit: Any, cache: Cache, plan: CachePlan) -> None:
    """Copy a unit of a value into the cache."""
    head, page, slot = where
    column = unit * plan.value_vector
    value = (source + column).load(vector_alias(source.element, (plan.value_vector,)))
    start, distance = value_place(cache.values, head, page, slot, plan.layout)
    scale = _scale(cache.value_scale, head, plan)
    small = stored(value.to(fx.Float32), scale, cache.values.dtype, plan.limit)
    store_value(start, distance, column, small)


def _page_tokens(cache: Cache, plan: CachePlan) -> Any:
    """Return the tokens of a page, 64-bit."""
    return fx.Int64(cache.keys.shape[1 if plan.layout == "linear" else 3])


@flyc.kernel
def rope_cache_kernel(
    heads: Operands, angles: Angles, cache: Cache, plan: fx.Constexpr[CachePlan]
) -> None:
    """Rotate queries into their output, keys into the cache (and their output); cache values.

    Work items of a token are the units of the queries' heads, of the keys' and of the values'.
    """
    token = fx.block_idx.x
    item = fx.block_idx.y * BLOCK + fx.thread_idx.x
    units = plan.rotation.units
    count, kv_count = fx.Int32(heads.q.shape[1]), fx.Int32(heads.k.shape[1])
    head, unit = item // units, item % units
    slot = (cache.slots.iter + token.to(fx.Int64) * cache.slots.stride).load().to(fx.Int64)
    page, inner = page_of(slot, _page_tokens(cache, plan))
    there = (slot >= 0) & (page < fx.Int64(cache.keys.shape[0]))
    if head < count:
        source, result = _row(heads.q, token, head), _row(heads.q_out, token, head)
        _rotate_unit(source, result, unit, token, angles, plan)
    elif head < count + kv_count:
        own = head - count
        source = _row(heads.k, token, own)
        if there:
            _cache_key(source, (own, page, inner), unit, token, angles, cache, plan)
        if fx.const_expr(plan.keys_out):
            # After the cache: the output may be the keys themselves.
            _rotate_unit(source, _row(heads.k_out, token, own), unit, token, angles, plan)
    else:
        rest = item - (count + kv_count) * units
        own, column = rest // plan.value_units, rest % plan.value_units
        if there & (own < kv_count):
            _cache_value(_row(heads.v, token, own), (own, page, inner), column, cache, plan)


@flyc.jit
def launch_rope_cache(
    heads: Operands, angles: Angles, cache: Cache, plan: fx.Constexpr[CachePlan], stream: fx.Stream
) -> None:
    """Launch one thread for each unit of each head of each token."""
    tokens, count, kv_count = heads.q.shape[0], heads.q.shape[1], heads.k.shape[1]
    work = (count + kv_count) * plan.rotation.units + kv_count * plan.value_units
    rope_cache_kernel(heads, angles, cache, plan).launch(
        grid=(tokens, (work + (BLOCK - 1)) // BLOCK), block=(BLOCK,), stream=stream
    )
