"""Gradients of weights: sums over the rows, in a fixed order and without atomics.

Each of `slabs` groups of rows is summed by its own workgroups, then the partial sums are added.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.norm.selection import ColumnPlan

__all__ = ["launch_columns"]


@flyc.jit
def accumulate(tensors: Any, column: Any, kinds: Any, plan: ColumnPlan) -> tuple[Any, Any]:
    """Sum over a slab's rows at a column: of g · x̂, and of g.

    Args:
        tensors: x, g and the moments of the rows.
        column: First column.
        kinds: What to load of x and of g: a vector type or the element type.
        plan: Its `slabs` is the distance of a slab's rows.
    """
    x, g, moments = tensors
    single = kinds[0] is x.dtype
    zero = fx.Float32(0.0) if single else fx.Vector.filled((plan.vector,), 0.0, fx.Float32)
    products, total = zero, zero
    for row in range(fx.block_idx.y, fx.Int32(x.shape[0]), plan.slabs):
        wide_row = fx.Int64(row)
        value = (x.iter + (wide_row * x.stride[0] + column)).load(kinds[0]).to(fx.Float32)
        wide = (g.iter + (wide_row * g.stride[0] + column)).load(kinds[1]).to(fx.Float32)
        mean, scale, shift = (
            (moments.iter + (moments.stride[0] * line + row)).load() for line in range(3)
        )
        unit = fx.math.fma(value - mean, scale, shift)
        products = fx.math.fma(wide, unit, products)
        total = total + wide
    return products, total


@flyc.jit
def keep(partial: Any, column: Any, sums: Any) -> None:
    """Write sums of a slab: of g · x̂ to the first half of the rows, of g to the second."""
    for half, value in enumerate(sums):
        line = fx.block_idx.y + half * fx.grid_dim.y
        (partial.iter + (line.to(fx.Int64) * partial.stride[0] + column)).store(value)


@flyc.kernel
def columns_kernel(
    X: fx.Tensor, G: fx.Tensor, M: fx.Tensor, P: fx.Tensor, plan: fx.Constexpr[ColumnPlan]
) -> None:
    """P = partial sums of g · x̂ and of g of every slab of rows."""
    index = fx.block_idx.x * plan.block + fx.thread_idx.x
    columns = fx.Int32(X.shape[1])
    full = columns // plan.vector
    kinds = [vector_alias(tensor.dtype, (plan.vector,)) for tensor in (X, G)]
    if index < full:
        column = index * plan.vector
        keep(P, column, accumulate((X, G, M), column, kinds, plan))
    # The columns after the last full vector go one each to the next threads.
    column = full * plan.vector + (index - full)
    if (index >= full) & (column < columns):
        keep(P, column, accumulate((X, G, M), column, [X.dtype, G.dtype], plan))


@flyc.kernel
def finish_kernel(
    P: fx.Tensor, DW: fx.Tensor, DB: fx.Tensor, plan: fx.Constexpr[ColumnPlan]
) -> None:
    """DW, DB = sums of the partial sums."""
    column = fx.block_idx.x * plan.block + fx.thread_idx.x
    if column < fx.Int32(P.shape[1]):
        for half, (wanted, out) in enumerate(((plan.weight, DW), (plan.bias, DB))):
            if fx.const_expr(wanted):
                total = fx.Float32(0.0)
                for slab in range(plan.slabs):
                    line = fx.Int64(slab + half * plan.slabs)
                    total = total + (P.iter + (line * P.stride[0] + column)).load()
                (out.iter + column).store(total.to(out.dtype))


@flyc.jit
def launch_columns(
    X: fx.Tensor, G: fx.Tensor, M: fx.Tensor, P: fx.Tensor, DW: fx.Tensor, DB: fx.Tensor,
    plan: fx.Constexpr[ColumnPlan], stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch both steps."""
    vectors = X.shape[1] // plan.vector + plan.vector
    wide = ((vectors + (plan.block - 1)) // plan.block, plan.slabs)
    columns_kernel(X, G, M, P, plan).launch(grid=wide, block=(plan.block,), stream=stream)
    narrow = ((P.shape[1] + (plan.block - 1)) // plan.block,)
    finish_kernel(P, DW, DB, plan).launch(grid=narrow, block=(plan.block,), stream=stream)
