"""`fused_rope_kv_cache`."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.ext.arguments import (
    check_no_gradient,
    compiling,
    through_pytorch,
    unless_number,
)
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.attention.ops.caching import CacheOptions, run_rope_cache
from flydsl_kernels.attention.ops.rotation import rotated

__all__ = ["fused_rope_kv_cache"]

__flydsl_internal__ = True  # errors are at the line of the caller


@at_user_line()
@outputs_in_graphs("q_out")
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
    traced = through_pytorch(
        (q_out is None and (k_out is None or compiling()) and stream is None) or None,
        {"q": q, "k": k, "v": v, "cos": cos, "sin": sin, "slots": slots,
         "key_cache": key_cache, "value_cache": value_cache},
        positions=positions, k_scale=unless_number(k_scale), v_scale=unless_number(v_scale),
        q_out=q_out, k_out=k_out,
    )  # fmt: skip
    check_no_gradient(
        "rotations into a cache", "FLY-U968", q=q, k=k, v=v, cos=cos, sin=sin,
        key_cache=key_cache, value_cache=value_cache, k_scale=k_scale, v_scale=v_scale,
    )  # fmt: skip
    given = (q, k, v), (cos, sin, positions), (slots, key_cache, value_cache), (k_scale, v_scale)
    options = CacheOptions(style, rotated(cos, rotary_dim), cache_layout, q_out, k_out, stream)
    if traced:
        from flydsl_kernels.attention.ops.rotary_operators import cache_through_pytorch

        return cache_through_pytorch(*given, options)
    return run_rope_cache(*given, options)
