"""Adds up the parts of each sequence, in their order."""

from __future__ import annotations

import math

import flydsl.compiler as flyc
import flydsl.expr as fx

__all__ = ["ReduceArguments", "launch_reduce"]

_LN_2 = math.log(2.0)
_THREADS = 64


@fx.struct
class ReduceArguments(fx.Struct):
    """Arguments of the kernel that adds up parts.

    Attributes:
        parts: Results of the parts, f32 [parts, kv heads, rows, d_v].
        sums: Their references and sums, f32 [2, parts, kv heads, rows].
        starts: Number of the first part of each sequence, int32 [sequences + 1].
        scale_v: Unit of values, f32 [1], or any array.
        o: Result [sequences, queries, heads, d_v].
        lse: Natural logarithms of the sums, f32 [sequences, heads, queries], or any array.
        scaled: Whether there is a unit of values.
        kept: Whether logarithms are wanted.
    """

    parts: fx.Tensor
    sums: fx.Tensor
    starts: fx.Tensor
    scale_v: fx.Tensor
    o: fx.Tensor
    lse: fx.Tensor
    scaled: fx.Constexpr[bool] = False
    kept: fx.Constexpr[bool] = False


@flyc.kernel
def reduce_kernel(a: ReduceArguments) -> None:
    """One workgroup for each row of each sequence."""
    heads, queries = fx.Int32(a.o.shape[2]), fx.Int32(a.o.shape[1])
    kv_heads = fx.Int32(a.parts.shape[1])
    number = fx.block_idx.x
    head = number % heads
    query = number // heads % queries
    sequence = number // heads // queries
    group = heads // kv_heads
    kv_head, row = head // group, query * group + head % group
    begin, end = a.starts[sequence], a.starts[sequence + 1]
    most = fx.Float32(float("-inf"))
    for part in range(begin, end):
        most = fx.maxnumf(most, a.sums[0, part, kv_head, row])
    total = fx.Float32(0.0)
    for part in range(begin, end):
        factor = fx.math.exp2(a.sums[0, part, kv_head, row] - most)
        total = total + a.sums[1, part, kv_head, row] * factor
    nothing = total == 0.0
    scale = fx.arith.select(nothing, fx.Float32(0.0), fx.Float32(1.0) / total)
    if fx.const_expr(a.scaled):
        scale = scale * a.scale_v[0]
    for column in range(fx.thread_idx.x, fx.Int32(a.o.shape[3]), _THREADS):
        value = fx.Float32(0.0)
        for part in range(begin, end):
            factor = fx.math.exp2(a.sums[0, part, kv_head, row] - most)
            value = value + a.parts[part, kv_head, row, column] * factor
        # Sums that are zero times what nothing was added to.
        value = fx.arith.select(nothing, fx.Float32(0.0), value * scale)
        a.o[sequence, query, head, column] = value.to(a.o.dtype)
    if fx.const_expr(a.kept):  # noqa: SIM102  (decided while tracing)
        if fx.thread_idx.x == 0:
            value = (most + fx.math.log2(total)) * _LN_2
            value = fx.arith.select(nothing, fx.Float32(float("-inf")), value)
            a.lse[sequence, head, query] = value


@flyc.jit
def launch_reduce(a: ReduceArguments, stream: fx.Stream) -> None:
    """Launch a workgroup for each row."""
    rows = a.o.shape[0] * a.o.shape[1] * a.o.shape[2]
    reduce_kernel(a).launch(grid=(rows,), block=(_THREADS,), stream=stream)
