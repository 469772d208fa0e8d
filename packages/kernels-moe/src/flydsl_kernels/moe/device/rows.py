"""Copying rows to the sorted order, and summing the rows of a token."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.moe.selection import RowsPlan

__all__ = ["launch_combine", "launch_permute"]

TOKEN = (1 << 24) - 1
"""Bits of a packed id that hold the token."""


def row_of(tensor: Any, row: Any) -> Any:
    """Return the pointer to a row; offsets are 64-bit."""
    return tensor.iter + row.to(fx.Int64) * tensor.stride[0]


@flyc.jit
def own_columns(columns: Any, each: Any, vector: int) -> None:
    """Call `each` with the thread's columns and a vector length or 1.

    Columns after the last full vector go one each to the next threads.
    """
    index = fx.block_idx.y * fx.block_dim.x + fx.thread_idx.x
    full = columns // vector
    if index < full:
        each(index * vector, vector)
    column = full * vector + (index - full)
    if (index >= full) & (column < columns):
        each(column, 1)


def kind_of(tensor: Any, count: int) -> Any:
    """Return the type of `count` neighbouring elements."""
    return tensor.dtype if count == 1 else vector_alias(tensor.dtype, (count,))


@flyc.kernel
def permute_kernel(
    X: fx.Tensor, S: fx.Tensor, Y: fx.Tensor, tokens: fx.Int32, plan: fx.Constexpr[RowsPlan]
) -> None:
    """Y[i] = X[token of S[i]], or 0 where S[i] is no pair."""
    entry = fx.block_idx.x
    token = (S.iter + entry).load() & TOKEN
    there = token < tokens
    source = row_of(X, there.select(token, fx.Int32(0)))
    target = row_of(Y, entry)

    def move(column: Any, count: int) -> None:
        kind = kind_of(X, count)
        zero = kind(0) if count == 1 else fx.Vector.filled((count,), 0, X.dtype)
        value = zero
        if there:
            value = (source + column).load(kind)
        (target + column).store(value)

    own_columns(fx.Int32(X.shape[1]), move, plan.vector)


@flyc.kernel
def combine_kernel(
    X: fx.Tensor, P: fx.Tensor, W: fx.Tensor, Y: fx.Tensor, slots: fx.Int32,
    plan: fx.Constexpr[RowsPlan],
) -> None:  # fmt: skip
    """Y[t] = sum over slots of X[t * slots + s], or of X[P[t, s]]; times W[t, s]."""
    token = fx.block_idx.x
    first = token * slots

    def total(column: Any, count: int) -> None:
        zero = fx.Float32(0.0) if count == 1 else fx.Vector.filled((count,), 0.0, fx.Float32)
        out = zero
        for slot in range(slots):
            pair = first + slot
            row = pair
            if fx.const_expr(plan.placed):
                row = (P.iter + pair).load()
            if row >= 0:
                if fx.const_expr(not plan.gathered):
                    row = pair
                value = (row_of(X, row) + column).load(kind_of(X, count)).to(fx.Float32)
                if fx.const_expr(plan.weighted):
                    weight = (W.iter + pair).load()
                    factor = weight
                    if fx.const_expr(count > 1):
                        factor = fx.Vector.filled((count,), weight, fx.Float32)
                    out = fx.math.fma(value, factor, out)
                else:
                    out = out + value
        (row_of(Y, token) + column).store(out.to(Y.dtype))

    own_columns(fx.Int32(X.shape[1]), total, plan.vector)


@flyc.jit
def launch_permute(
    X: fx.Tensor, S: fx.Tensor, Y: fx.Tensor, plan: fx.Constexpr[RowsPlan], stream: fx.Stream
) -> None:
    """Launch the copy, one line of workgroups per entry."""
    wide = X.shape[1] // plan.vector + plan.vector
    grid = (Y.shape[0], (wide + (plan.block - 1)) // plan.block)
    permute_kernel(X, S, Y, X.shape[0], plan).launch(grid=grid, block=(plan.block,), stream=stream)


@flyc.jit
def launch_combine(
    X: fx.Tensor, P: fx.Tensor, W: fx.Tensor, Y: fx.Tensor, slots: fx.Int32,
    plan: fx.Constexpr[RowsPlan], stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch the sums, one line of workgroups per token."""
    wide = X.shape[1] // plan.vector + plan.vector
    grid = (Y.shape[0], (wide + (plan.block - 1)) // plan.block)
    combine_kernel(X, P, W, Y, slots, plan).launch(grid=grid, block=(plan.block,), stream=stream)
