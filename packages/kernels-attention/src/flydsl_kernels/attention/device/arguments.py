"""The run-time arguments of the forward kernel."""

from __future__ import annotations

import flydsl.expr as fx

__all__ = ["FlashArguments"]


@fx.struct
class FlashArguments(fx.Struct):
    """Arguments of the forward kernel; arrays that a plan has no use for are any array.

    Attributes:
        q: Queries [batch, length, heads, d_qk]; packed sequences are one batch.
        k: Keys [batch, length, kv heads, d_qk], or pages of them.
        v: Values [batch, length, kv heads, d_v], or pages of them.
        o: Result [batch, length, heads, d_v]; with splits one such after another.
        lse: Logarithms of the sums [batch, heads, length], f32; likewise.
        starts_q: Where the sequences of q start, int32 [sequences + 1].
        starts_k: Where those of k and v start.
        lengths: Keys of each sequence, int32 [sequences].
        pages: Pages of each sequence, int32 [sequences, pages].
        bias: Added to the scores [batch, heads, length, keys].
        slopes: What scores lose per key of distance, f32 [batch, heads].
        sink: Logarithm of the denominator's own term, f32 [heads].
        scale_q: Unit of q, f32 [batch, heads].
        scale_k: Unit of k, f32 [batch, kv heads].
        scale_v: Unit of v.
        scale: Factor of the scores, times log2(e).
        left: Keys that a row sees to the left of its own place.
        right: Keys that it sees to the right.
        group: Heads of q that share one of k and v.
        sequences: Number of sequences.
    """

    q: fx.Tensor
    k: fx.Tensor
    v: fx.Tensor
    o: fx.Tensor
    lse: fx.Tensor
    starts_q: fx.Tensor
    starts_k: fx.Tensor
    lengths: fx.Tensor
    pages: fx.Tensor
    bias: fx.Tensor
    slopes: fx.Tensor
    sink: fx.Tensor
    scale_q: fx.Tensor
    scale_k: fx.Tensor
    scale_v: fx.Tensor
    scale: fx.Float32
    left: fx.Int32
    right: fx.Int32
    group: fx.Int32
    sequences: fx.Int32
