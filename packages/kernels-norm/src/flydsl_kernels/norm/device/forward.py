"""Normalisation of rows that fit in registers, and its launch for all rows."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.norm.device.long_forward import long_norm_kernel, norm_part_kernel
from flydsl_kernels.norm.device.moments import centred
from flydsl_kernels.norm.device.rows import (
    Share,
    affine,
    column_count,
    in_order,
    load_chunk,
    load_share,
    load_tail,
    narrowed,
    own_share,
    store_part,
    widened,
)
from flydsl_kernels.norm.selection import NormPlan

__all__ = ["launch_norm", "load_columns", "normalise"]


AHEAD = 2
"""How many parts before its use a bias is loaded, and a weight of 32 bits."""
EARLY = 4
"""How many parts before its use a weight of 16 bits is loaded."""


def load_columns(
    tensor: Any, share: Share, present: bool, *, first: int = 0, last: int = 99
) -> Any:
    """Load parts `first` to `last` of a thread's share of weights, or as many times None."""
    chunks = share.plan.chunks
    positions = range(chunks + share.plan.tail)[first:last]
    if not present:
        return [None for _ in positions]
    return [
        load_chunk(tensor.iter, i, share, 0.0) if i < chunks else load_tail(tensor.iter, share, 0.0)
        for i in positions
    ]


def mixed(tensors: tuple[Any, Any, Any], plan: NormPlan) -> bool:
    """Return whether weight or bias is of another type than the result."""
    weight, bias, result = tensors
    given = [t for t, present in ((weight, plan.weight), (bias, plan.bias)) if present]
    return any(t.dtype is not result.dtype for t in given)


def normalise(values: list[Any], share: Share, tensors: tuple[Any, Any, Any], plan: Any) -> None:
    """Normalise f32 values of a row and store them.

    Args:
        values: The thread's share.
        share: Its place.
        tensors: Weight, bias and result.
        plan: What to do.
    """
    weight, bias, result = tensors
    # The first ones before the values are combined, so that the latencies overlap.
    early = AHEAD if weight.dtype is fx.Float32 or share.plan.chunks > EARLY else EARLY
    weights = load_columns(weight, share, plan.weight, last=early)
    columns = column_count(result).to(fx.Float32)
    biases: list[Any] = []

    def load_first_biases() -> None:
        in_order()
        biases.extend(load_columns(bias, share, plan.bias, last=AHEAD))

    values, _, scale, shift = centred(values, share, columns, plan, load_first_biases)
    start, exact = share.start(result), mixed(tensors, plan)
    for position, value in enumerate(values):
        in_order()
        at = position + early
        weights += load_columns(weight, share, plan.weight, first=at, last=at + 1)
        at = position + AHEAD
        biases += load_columns(bias, share, plan.bias, first=at, last=at + 1)
        unit = fx.math.fma(value, scale, shift) if plan.mean else value * scale
        out = narrowed(affine(unit, weights[position], biases[position]), result.dtype, exact)
        store_part(start, position, share, out)


@flyc.kernel
def norm_kernel(
    X: fx.Tensor, W: fx.Tensor, B: fx.Tensor, Y: fx.Tensor, plan: fx.Constexpr[NormPlan]
) -> None:
    """Y = normalised rows of X, times W, plus B."""
    share = own_share(plan.row, X)
    values = widened(load_share(share.start(X), share))
    normalise(values, share, (W, B, Y), plan)


@flyc.jit
def launch_norm(
    X: fx.Tensor, W: fx.Tensor, B: fx.Tensor, Y: fx.Tensor, P: fx.Tensor,
    plan: fx.Constexpr[NormPlan], stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch the kernel for rows in registers, or those for long rows; P is for split ones."""
    row = plan.row
    grid, block = ((X.shape[0] + (row.rows - 1)) // row.rows, row.splits), (row.block,)
    if fx.const_expr(row.splits > 1):
        norm_part_kernel(X, P, plan).launch(grid=grid, block=block, stream=stream)
    if fx.const_expr(row.looped):
        long_norm_kernel(X, W, B, Y, P, plan).launch(grid=grid, block=block, stream=stream)
    else:
        norm_kernel(X, W, B, Y, plan).launch(grid=grid, block=block, stream=stream)
