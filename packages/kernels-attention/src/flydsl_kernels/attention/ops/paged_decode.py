"""`paged_attention_decode`."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.ext.arguments import check_no_gradient, through_pytorch, unless_number
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.attention.ops.decode import DecodeOptions, run_decode

__all__ = ["paged_attention_decode"]

__flydsl_internal__ = True  # errors are at the line of the caller


@at_user_line()
@outputs_in_graphs("out")
def paged_attention_decode(
    q: Any,
    key_cache: Any,
    value_cache: Any,
    block_table: Any,
    seqlens: Any,
    *,
    softmax_scale: float | None = None,
    window: int | None = None,
    k_scale: Any = None,
    v_scale: Any = None,
    cache_layout: str = "linear",
    partitions: int | None = None,
    return_lse: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Any:
    """Return the attention of a few queries per sequence to a paged cache.

    Query i of n stands at key ``seqlens - n + i`` of its sequence and sees the keys up to there.
    Keys and values are read once for all queries and heads that share them, divided into parts on
    the device (lengths are not looked at on the host, so a captured graph may be replayed with
    others), and parts are added up in a fixed order: results are the same in every run.

    Args:
        q: Queries [sequences, queries, heads, d] or [sequences, heads, d], bfloat16 or float16.
        key_cache: Keys in pages of a multiple of 16 tokens, of `q`'s type or of 8 bits (int8 or a
            float); layouts as of `fused_rope_kv_cache`.
        value_cache: Values, of the same type.
        block_table: Pages of each sequence, int32 [sequences, pages]; entries past a sequence's
            last page are not used.
        seqlens: Keys of each sequence, int32 [sequences]; a sequence without keys gives zeros.
        softmax_scale: Factor of the scores; default: d^(-1/2).
        window: Keys that a query sees to the left of its own place; default: all.
        k_scale: Unit of keys: a number, f32 [1], or f32 [pages, kv heads, page] for each token.
        v_scale: Unit of values likewise.
        cache_layout: ``"linear"``, ``"vectorised"`` or ``"transposed"``.
        partitions: For how many parts beyond one per sequence there is room; default: for two
            workgroups on each of 304 compute units.
        return_lse: Return the logarithms of the sums too.
        out: Contiguous array to write the result to.
        stream: Where to launch; default: the current stream.

    Returns:
        `out`, or a new array like `q` with d of the values; with `return_lse` also the natural
        logarithms of the sums, f32 [sequences, heads, queries], -inf where there is no key.

    Raises:
        ConfigError: A type, head, page or layout that is not supported.
        UserTypeError: Arguments of other libraries or devices.
        UserValueError: Shapes, alignments or options that do not fit.
    """
    options = DecodeOptions(softmax_scale, window, cache_layout, partitions, return_lse)
    cache = {"key_cache": key_cache, "value_cache": value_cache}
    traced = through_pytorch(
        (out is None and stream is None) or None,
        {"q": q, **cache, "block_table": block_table, "seqlens": seqlens},
        k_scale=unless_number(k_scale), v_scale=unless_number(v_scale), out=out,
    )  # fmt: skip
    check_no_gradient("decoded queries", "FLY-U968", q=q, **cache, k_scale=k_scale, v_scale=v_scale)
    if traced:
        from flydsl_kernels.attention.ops.decode_operators import decode_through_pytorch

        result, lse = decode_through_pytorch(
            q, (key_cache, value_cache), (block_table, seqlens), (k_scale, v_scale), options
        )
    else:
        result, lse = run_decode(
            q,
            (key_cache, value_cache),
            (block_table, seqlens),
            (k_scale, v_scale),
            options,
            out,
            stream,
        )
    return (result, lse) if return_lse else result
