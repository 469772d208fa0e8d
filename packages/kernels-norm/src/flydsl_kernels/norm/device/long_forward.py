"""Normalisation of rows that do not fit in registers: one loop for the moments, one to write."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.norm.device.long_moments import keep_part_moments, long_moments
from flydsl_kernels.norm.device.rows import (
    Share,
    affine,
    column_count,
    load_tail,
    load_vector,
    own_share,
    store_tail,
    store_vector,
)
from flydsl_kernels.norm.selection import NormPlan

__all__ = ["add_rows", "long_norm_kernel", "norm_part_kernel"]


@flyc.jit
def write_rows(start: Any, tensors: Any, share: Share, moments: Any, plan: Any) -> None:
    """Normalise a row that is loaded again, and store it."""
    weight, bias, result = tensors
    mean, scale, shift = moments
    for index in range(share.first, share.full, share.plan.lanes):
        value = load_vector(start, index, share).to(fx.Float32)
        unit = fx.math.fma(value - mean, scale, shift) if plan.mean else value * scale
        w = load_vector(weight.iter, index, share) if plan.weight else None
        b = load_vector(bias.iter, index, share) if plan.bias else None
        store_vector(share.start(result), index, share, affine(unit, w, b))
    if fx.const_expr(share.plan.tail):
        last = load_tail(start, share, 0.0).to(fx.Float32)
        unit = fx.math.fma(last - mean, scale, shift) if plan.mean else last * scale
        w = load_tail(weight.iter, share, 0.0) if plan.weight else None
        b = load_tail(bias.iter, share, 0.0) if plan.bias else None
        store_tail(share.start(result), share, affine(unit, w, b))


@flyc.jit
def add_rows(first: Any, second: Any, result: Any, share: Share) -> None:
    """Store the sums of two rows."""
    for index in range(share.first, share.full, share.plan.lanes):
        a = load_vector(first, index, share).to(fx.Float32)
        b = load_vector(second, index, share).to(fx.Float32)
        store_vector(result, index, share, a + b)
    if fx.const_expr(share.plan.tail):
        a = load_tail(first, share, 0.0).to(fx.Float32)
        b = load_tail(second, share, 0.0).to(fx.Float32)
        store_tail(result, share, a + b)


@flyc.kernel
def norm_part_kernel(X: fx.Tensor, P: fx.Tensor, plan: fx.Constexpr[NormPlan]) -> None:
    """P = what is to be known of parts of the rows of X."""
    share = own_share(plan.row, X)
    keep_part_moments(share.start(X), share, plan, P)


@flyc.kernel
def long_norm_kernel(
    X: fx.Tensor, W: fx.Tensor, B: fx.Tensor, Y: fx.Tensor, P: fx.Tensor,
    plan: fx.Constexpr[NormPlan],
) -> None:  # fmt: skip
    """Y = normalised rows of X, times W, plus B."""
    share = own_share(plan.row, X)
    start = share.start(X)
    moments = long_moments(start, share, column_count(X).to(fx.Float32), plan, P)
    write_rows(start, (W, B, Y), share, moments, plan)
