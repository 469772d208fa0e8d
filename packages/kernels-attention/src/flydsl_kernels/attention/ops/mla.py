"""`mla_decode`."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.ext.arguments import as_number, check_no_gradient, through_pytorch, unless_number
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.attention.ops.decode import DecodeOptions
from flydsl_kernels.attention.ops.latent import run_latent

__all__ = ["mla_decode"]

__flydsl_internal__ = True  # errors are at the line of the caller


@at_user_line()
@outputs_in_graphs("out")
def mla_decode(
    q: Any,
    kv_cache: Any,
    block_table: Any,
    seqlens: Any,
    *,
    softmax_scale: float | None = None,
    q_scale: float | None = None,
    kv_scale: Any = None,
    partitions: int | None = None,
    return_lse: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Any:
    """Return the attention of a few queries per sequence to a paged cache of latent tokens.

    Multi-head latent attention with absorbed projections: every token of the cache has 512 latent
    and 64 rotated elements, which all heads share; keys are all 576, values the 512. Query i of n
    stands at key ``seqlens - n + i`` of its sequence and sees the keys up to there. A step of
    tokens is read once for all heads of a workgroup (128 at a time), and parts of the keys are
    added up in a fixed order: results are the same in every run.

    Args:
        q: Queries [sequences, queries, heads, 576] or [sequences, heads, 576]: bfloat16, float16,
            or an 8-bit float with `q_scale`.
        kv_cache: Tokens [pages, page, 576] or [pages, page, 1, 576] of the type of `q` (bfloat16
            for 8-bit queries), int8 or an 8-bit float; pages of any size.
        block_table: Pages of each sequence, int32 [sequences, pages].
        seqlens: Keys of each sequence, int32 [sequences]; a sequence without keys gives zeros.
        softmax_scale: Factor of the scores; default: 576^(-1/2). Models divide by the width before
            absorption: pass theirs.
        q_scale: Unit of queries: a number.
        kv_scale: Unit of the cache: a number, or f32 [1].
        partitions: As of `paged_attention_decode`.
        return_lse: Return the logarithms of the sums too.
        out: Contiguous array to write the result to.
        stream: Where to launch; default: the current stream.

    Returns:
        `out`, or a new array [..., heads, 512] of `q`'s type (bfloat16 for 8-bit queries); with
        `return_lse` also the natural logarithms of the sums, f32 [sequences, heads, queries].

    Raises:
        ConfigError: A type that is not supported.
        UserTypeError: Arguments of other libraries or devices.
        UserValueError: Shapes, alignments or options that do not fit.
    """
    options = DecodeOptions(softmax_scale, None, "linear", partitions, return_lse)
    scales = (None if q_scale is None else as_number(q_scale, "q_scale"), kv_scale)
    traced = through_pytorch(
        (out is None and stream is None) or None,
        {"q": q, "kv_cache": kv_cache, "block_table": block_table, "seqlens": seqlens},
        kv_scale=unless_number(kv_scale), out=out,
    )  # fmt: skip
    check_no_gradient("decoded queries", "FLY-U968", q=q, kv_cache=kv_cache, kv_scale=kv_scale)
    if traced:
        from flydsl_kernels.attention.ops.decode_operators import latent_through_pytorch

        result, lse = latent_through_pytorch(q, kv_cache, (block_table, seqlens), scales, options)
    else:
        result, lse = run_latent(q, kv_cache, (block_table, seqlens), scales, options, out, stream)
    return (result, lse) if return_lse else result
