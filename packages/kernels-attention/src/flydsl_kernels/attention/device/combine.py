"""Combines the results of the parts of the keys that different workgroups took."""

from __future__ import annotations

import math

import flydsl.compiler as flyc
import flydsl.expr as fx

__all__ = ["CombineArguments", "launch_combine"]

_THREADS = 64
_LN_2 = math.log(2.0)


@fx.struct
class CombineArguments(fx.Struct):
    """Arguments of the kernel that combines parts.

    Attributes:
        parts: Results of the parts [parts * batch, length, heads, width], f32.
        sums: Logarithms of their sums [parts * batch, heads, length], f32.
        o: Result [batch, length, heads, width].
        lse: Logarithms of the sums [batch, heads, length], f32, or any array.
        sink: Logarithm of the denominator's own term, f32 [heads], or any array.
        batch: Batches of the result.
        sunk: Whether there is a sink.
        kept: Whether the logarithms are wanted.
    """

    parts: fx.Tensor
    sums: fx.Tensor
    o: fx.Tensor
    lse: fx.Tensor
    sink: fx.Tensor
    batch: fx.Int32
    splits: fx.Constexpr[int] = 1
    sunk: fx.Constexpr[bool] = False
    kept: fx.Constexpr[bool] = False


@flyc.kernel
def combine_kernel(a: CombineArguments) -> None:
    """One workgroup per (row, head); the parts are summed in their order."""
    length, heads = fx.Int32(a.o.shape[1]), fx.Int32(a.o.shape[2])
    number = fx.block_idx.x
    head = number % heads
    row = number // heads % length
    batch = number // heads // length
    most = fx.Float32(float("-inf"))
    if fx.const_expr(a.sunk):
        most = a.sink[head].to(fx.Float32)
    logs = [a.sums[split * a.batch + batch, head, row] for split in fx.range_constexpr(a.splits)]
    for log in logs:
        most = fx.maxnumf(most, log)
    # No key at all: every term is zero.
    most = fx.arith.select(most == float("-inf"), fx.Float32(0.0), most)
    factors = [fx.math.exp2((log - most) * (1.0 / _LN_2)) for log in logs]
    total = fx.Float32(0.0)
    if fx.const_expr(a.sunk):
        total = fx.math.exp2((a.sink[head].to(fx.Float32) - most) * (1.0 / _LN_2))
    for factor in factors:
        total = total + factor
    nothing = total == 0.0
    scale = fx.arith.select(nothing, fx.Float32(0.0), fx.Float32(1.0) / total)
    for column in range(fx.thread_idx.x, fx.Int32(a.o.shape[3]), _THREADS):
        value = fx.Float32(0.0)
        for split, factor in enumerate(factors):
            value = value + a.parts[split * a.batch + batch, row, head, column] * factor
        a.o[batch, row, head, column] = (value * scale).to(a.o.dtype)
    if fx.const_expr(a.kept):  # noqa: SIM102  (decided while tracing)
        if fx.thread_idx.x == 0:
            value = most + fx.math.log2(total) * _LN_2
            a.lse[batch, head, row] = fx.arith.select(nothing, fx.Float32(float("-inf")), value)


@flyc.jit
def launch_combine(a: CombineArguments, stream: fx.Stream) -> None:
    """Launch a workgroup per row and head."""
    groups = a.batch * a.o.shape[1] * a.o.shape[2]
    combine_kernel(a).launch(grid=(groups,), block=(_THREADS,), stream=stream)
