"""`fused_rope_kv_cache`."""

from __future__ import annotations

from typing import Any

from flydsl.ext import arrays
from flydsl_kernels.attention.ops.caching import CacheOptions, cache_scales, run_rope_cache

__all__ = ["fused_rope_kv_cache"]

__flydsl_internal__ = True  # errors are at the line of the caller


def fused_rope_kv_cache(
    q: Any,
    k: Any,
    v: Any,
    cos: Any,
    sin: Any,
    positions: Any,
    *,
    slots: Any,
    key_cache: Any,
    value_cache: Any,
    style: str = "neox",
    rotary_dim: int | None = None,
    cache_layout: str = "linear",
    k_scale: Any = None,
    v_scale: Any = None,
    q_out: Any = None,
    k_out: Any = None,
    stream: Any = None,
) -> Any:
    """Rotate queries and keys, and put rotated keys and values into a paged cache: one kernel.

    Slot s is token s mod page of page s div page. With x = 16 / itemsize of the cache:

    * ``"linear"``: both caches [pages, page, kv_heads, dim];
    * ``"vectorised"``: keys [pages, kv_heads, head_dim/x, page, x], values
      [pages, kv_heads, page/x, value_dim, x];
    * ``"transposed"``: keys as vectorised, values [pages, kv_heads, value_dim, page].

    Args:
        q: Queries [..., heads, head_dim] of float32, float16 or bfloat16; leading axes are tokens.
        k: Keys [..., kv_heads, head_dim].
        v: Values [..., kv_heads, value_dim], stored as they are.
        cos: Cosines, as of `rope`.
        sin: Sines, as of `rope`.
        positions: Position of every token, int32 or int64, or None for 0, 1, 2, …
        slots: Slot of every token, int32 or int64; tokens with a negative slot, or one that the
            cache does not have, are not stored. Two tokens with the same slot are an error of the
            caller: either may win.
        key_cache: Written to: float32, float16, bfloat16, int8 or an 8-bit float.
        value_cache: Written to; of the same type.
        style: How elements are paired, as of `rope`.
        rotary_dim: As of `rope`.
        cache_layout: One of the above.
        k_scale: What keys are divided by before they are rounded to the cache's type: a number, or
            f32 [1] or [kv_heads]. Beyond the range of an 8-bit type they become its largest number.
        v_scale: The same for values.
        q_out: Where to put rotated queries, `q` itself included; default: a new array.
        k_out: Where to put rotated keys too, `k` itself included; default: nowhere.
        stream: Where to launch; default: the current stream.

    Returns:
        The rotated queries.

    Raises:
        ConfigError: A style, head size or rotary size that is not supported.
        UserTypeError: Arguments of other libraries or devices.
        UserValueError: Shapes or element types that do not fit.
    """
    arrays.is_torch(cos)
    if rotary_dim is None and len(cos.shape) == 2:
        rotary_dim = 2 * int(cos.shape[1])
    angles, cache = (cos, sin, positions), (slots, key_cache, value_cache)
    scales = (k_scale, v_scale)
    if q_out is None and k_out is None and stream is None and arrays.differentiable(q, k, v):
        from flydsl_kernels.attention.ops.rotary_operators import fused_rope_kv_cache_operator

        return fused_rope_kv_cache_operator(
            [q, k, v],
            list(angles),
            *cache,
            list(cache_scales(*scales, int(k.shape[-2]), key_cache)),
            style=style,
            rotary_dim=rotary_dim,
            cache_layout=cache_layout,
        )
    options = CacheOptions(style, rotary_dim, cache_layout, q_out, k_out, stream)
    return run_rope_cache((q, k, v), angles, cache, scales, options)
