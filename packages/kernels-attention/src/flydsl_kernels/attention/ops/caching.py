"""Checks and the launch of `fused_rope_kv_cache`, without PyTorch's knowledge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from flydsl.errors import UserValueError
from flydsl.ext import arrays
from flydsl.ext.arguments import check_fields, check_results_apart, is_finite, is_number
from flydsl_kernels.attention.ops.rotation import (
    FLOATS,
    POSITIONS,
    address_of,
    checked_tables,
    planned,
    token_heads,
)
from flydsl_kernels.attention.rotary import CACHE_LAYOUTS, LIMITS, CachePlan

__all__ = ["CacheOptions", "cache_scales", "run_rope_cache"]

__flydsl_internal__ = True  # errors are at the line of the caller


def _cache_shapes(keys: Any, values: Any, heads: int, dims: tuple[int, int], layout: str) -> None:
    """Check the shapes of a cache.

    Raises:
        UserValueError: They are not those of the layout.
    """
    if layout not in CACHE_LAYOUTS:
        raise UserValueError(
            "there is no cache layout of this name",
            code="FLY-U959",
            value=layout,
            allowed=", ".join(CACHE_LAYOUTS),
        )
    block = 16 // keys.itemsize
    axes = 4 if layout == "linear" else 5
    if len(keys.shape) != axes:
        raise UserValueError(
            "the cache of keys has another shape than its layout",
            code="FLY-U960",
            value=tuple(keys.shape),
            allowed=f"{axes} axes for {layout!r}",
        )
    pages = int(keys.shape[0])
    page = int(keys.shape[1 if layout == "linear" else 3])
    if not page:
        raise UserValueError(
            "the pages of a cache have no tokens", code="FLY-U960", value=tuple(keys.shape),
            allowed="pages of at least one token",
        )  # fmt: skip
    d, dv = dims
    if layout == "linear":
        wanted: tuple[tuple[int, ...], ...] = (pages, page, heads, d), (pages, page, heads, dv)
    else:
        key = (pages, heads, d // block, page, block)
        if d % block or (layout == "vectorised" and page % block):
            raise UserValueError(
                "the cache layout needs heads and pages of whole blocks of 16 bytes",
                code="FLY-U961",
                value=(d, page),
                allowed=f"multiples of {block}",
            )
        blocked = (pages, heads, page // block, dv, block)
        wanted = key, blocked if layout == "vectorised" else (pages, heads, dv, page)
    arrays.check_shape(keys, wanted[0], "key_cache")
    arrays.check_shape(values, wanted[1], "value_cache")
    arrays.check_writable(keys, "key_cache")
    arrays.check_writable(values, "value_cache")
    for array, what in ((keys, "key_cache"), (values, "value_cache")):
        if arrays.strides(array)[-1] != 1 and array.shape[-1] > 1 and layout != "transposed":
            raise UserValueError(
                f"the last axis of {what} is not contiguous",
                code="FLY-U956",
                value=arrays.strides(array),
                allowed="a last stride of 1",
            )


def _scale(scale: Any, heads: int, like: Any, what: str) -> Any:
    """Return a scale as an f32 vector of one element, or one per head.

    Raises:
        UserValueError: Another shape or element type, or a number that divides nothing.
    """
    if is_number(scale):
        if not (is_finite(scale) and scale > 0):
            raise UserValueError(
                f"{what} is no finite positive number", code="FLY-U962", value=scale
            )
        return arrays.zeros((1,), "float32", like) + float(scale)
    arrays.check_same_library(scale, like, what)
    arrays.check_dtype(scale, ("float32",), what)
    flat = scale.reshape(-1)
    if int(flat.shape[0]) not in {1, heads}:
        arrays.check_shape(flat, (heads,), what)
    return arrays.contiguous(flat)


def cache_scales(key: Any, value: Any, heads: int, caches: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return both scales, of the same length, or None for both."""
    if key is None and value is None:
        return None, None
    found = [
        _scale(1.0 if scale is None else scale, heads, caches[0], what)
        for scale, what in ((key, "k_scale"), (value, "v_scale"))
    ]
    longest = max(int(scale.shape[0]) for scale in found)
    spread = arrays.zeros((longest,), "float32", caches[0])
    first, second = (s if int(s.shape[0]) == longest else s + spread for s in found)
    return first, second


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """The options of `fused_rope_kv_cache`, without scales."""

    style: str
    rotary_dim: int | None
    cache_layout: str
    q_out: Any = None
    k_out: Any = None
    stream: Any = None

    def __post_init__(self) -> None:
        check_fields(self)


def run_rope_cache(
    operands: tuple[Any, Any, Any],
    angles: tuple[Any, Any, Any],
    cache: tuple[Any, Any, Any],
    scales: tuple[Any, Any],
    options: CacheOptions,
) -> Any:
    """Rotate and store without PyTorch's knowledge; see `fused_rope_kv_cache`.

    Args:
        operands: q, k, v.
        angles: cos, sin, positions.
        cache: slots, key_cache, value_cache.
        scales: k_scale, v_scale.
        options: The others.
    """
    from flydsl_kernels.attention.device.rope_cache import (
        Cache,
        Operands,
        launch_rope_cache,
    )
    from flydsl_kernels.attention.device.rotary import Angles

    _, key_cache, value_cache = cache
    layout, q_out, k_out = options.cache_layout, options.q_out, options.k_out
    _checked(operands, key_cache, value_cache, layout)
    check_results_apart(key_cache=key_cache, value_cache=value_cache, q_out=q_out, k_out=k_out)
    operands, angles, cache, scales = _apart(operands, angles, cache, scales, options)
    q, k, _ = operands
    cos, sin, positions = angles
    slots = cache[0]

    queries, keys, values = _checked(operands, key_cache, value_cache, layout)
    tokens, head_dim = int(queries.shape[0]), int(queries.shape[2])
    heads, value_dim = int(keys.shape[1]), int(values.shape[2])
    tables = checked_tables(cos, sin, positions, q, tokens, options.rotary_dim)
    places = _slots(slots, q, tokens)
    key_scales, value_scales = cache_scales(*scales, heads, key_cache)
    out = arrays.empty(q.shape, arrays.dtype_name(q), q) if q_out is None else q_out
    rotated = _output(out, q, "q_out")
    kept = queries if k_out is None else _output(k_out, k, "k_out")
    extra = (key_cache,) if layout == "linear" else (key_cache[..., 0, :],)
    sources = (queries, keys, rotated) if k_out is None else (queries, keys, rotated, kept)
    rotation = planned(sources, tables, options.style, extra)
    plan = CachePlan(
        rotation,
        layout,
        value_dim,
        _value_vector(values, value_cache, layout),
        key_scales is not None,
        key_scales is not None and int(key_scales.shape[0]) > 1,
        LIMITS.get(arrays.dtype_name(key_cache), 0.0),
        k_out is not None,
    )
    if tokens and head_dim:
        given = tables[2] if rotation.positions else places
        unscaled = tables[0][:, 0]
        launch_rope_cache(
            Operands(queries, keys, values, rotated, kept),
            Angles(tables[0], tables[1], given),
            Cache(
                places, key_cache, value_cache,
                unscaled if key_scales is None else key_scales,
                unscaled if value_scales is None else value_scales,
            ),
            plan, options.stream,
        )  # fmt: skip
    return out


def _apart(
    operands: tuple[Any, Any, Any], angles: tuple[Any, Any, Any], cache: tuple[Any, Any, Any],
    scales: tuple[Any, Any], options: CacheOptions,
) -> Any:  # fmt: skip
    """Return the arguments, those copied that lie where results go, but for rotations in place."""
    q, k, v = operands
    caches = cache[1:]
    (q,) = arrays.apart_from((options.q_out,), q, in_place=True)
    (k,) = arrays.apart_from((options.k_out,), k, in_place=True)
    (q,) = arrays.apart_from((*caches, options.k_out), q)
    (k,) = arrays.apart_from((*caches, options.q_out), k)
    written = (*caches, options.q_out, options.k_out)
    v, slots, *rest = arrays.apart_from(written, v, cache[0], *angles)
    units = tuple(
        unit if is_number(unit) else arrays.apart_from(written, unit)[0] for unit in scales
    )
    return (q, k, v), tuple(rest), (slots, *caches), units


def _checked(
    operands: tuple[Any, Any, Any], key_cache: Any, value_cache: Any, cache_layout: str
) -> tuple[Any, Any, Any]:
    """Return queries, keys and values as heads of tokens, checked with the cache."""
    q, k, v = operands
    queries, keys, values = token_heads(q, "q"), token_heads(k, "k"), token_heads(v, "v")
    tokens, head_dim = int(queries.shape[0]), int(queries.shape[2])
    heads, value_dim = int(keys.shape[1]), int(values.shape[2])
    for array, what in ((k, "k"), (v, "v"), (key_cache, "key_cache"), (value_cache, "value_cache")):
        arrays.check_same_library(array, q, what)
    arrays.check_shape(keys, (tokens, heads, head_dim), "k")
    arrays.check_shape(values, (tokens, heads, value_dim), "v")
    for array, what in ((k, "k"), (v, "v")):
        arrays.check_dtype(array, (arrays.dtype_name(q),), what)
    arrays.check_dtype(key_cache, (*FLOATS, *LIMITS), "key_cache")
    arrays.check_dtype(value_cache, (arrays.dtype_name(key_cache),), "value_cache")
    _cache_shapes(key_cache, value_cache, heads, (head_dim, value_dim), cache_layout)
    return queries, keys, values


def _slots(slots: Any, like: Any, tokens: int) -> Any:
    """Return the slots as a vector."""
    arrays.check_same_library(slots, like, "slots")
    arrays.check_dtype(slots, POSITIONS, "slots")
    flat = slots.reshape(-1)
    arrays.check_shape(flat, (tokens,), "slots")
    return flat


def _output(out: Any, like: Any, what: str) -> Any:
    """Return an output as heads of tokens that a kernel may write."""
    arrays.check_same_library(out, like, what)
    arrays.check_shape(out, like.shape, what)
    arrays.check_dtype(out, (arrays.dtype_name(like),), what)
    return token_heads(out, what, written=True)


def _value_vector(values: Any, cache: Any, layout: str) -> int:
    """Return how many elements of a value one thread copies."""
    widest = 16 // max(values.itemsize, cache.itemsize)
    distances = [*arrays.strides(values)[:2], address_of(values) // values.itemsize]
    if layout == "linear":
        distances += [*arrays.strides(cache)[:3], address_of(cache) // cache.itemsize]
    return math.gcd(widest, int(values.shape[2]), *distances)
