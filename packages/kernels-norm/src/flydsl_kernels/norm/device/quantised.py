"""Normalisation with an 8-bit result and one scale per row.

The scale is the largest magnitude of the normalised row over the largest number of the 8-bit type;
the result is the normalised row divided by it. A row of magnitudes below 2^-119 becomes zeros; a
row with NaN has scale NaN.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.norm.device.combine import combine_row
from flydsl_kernels.norm.device.long_forward import long_moments
from flydsl_kernels.norm.device.moments import centred
from flydsl_kernels.norm.device.rows import (
    Share,
    affine,
    column_count,
    load_share,
    load_tail,
    load_vector,
    own_share,
    place_chunk,
    place_tail,
    widened,
)
from flydsl_kernels.norm.selection import QuantPlan

__all__ = ["launch_quantised"]


def worst(a: Any, b: Any) -> Any:
    """Return the larger number; NaN if one is."""
    return fx.max(a, b)


def magnitude(value: Any) -> Any:
    """Return the largest magnitude of an f32 number or the elements of a vector."""
    size = fx.math.absf(value)
    return size.reduce("max") if isinstance(value, fx.Vector) else size


def narrowed(value: Any, inverse: Any, kind: Any) -> Any:
    """Return f32 values times `inverse` in an 8-bit type, to nearest even."""
    scaled = value * inverse
    if kind is fx.Int8:
        return fx.math.roundeven(scaled).to(fx.Int8)
    return scaled.to(kind)


@flyc.jit
def scale_of(largest: Any, share: Share, scales: Any, plan: QuantPlan) -> Any:
    """Combine the largest magnitude over a row, write the row's scale, return its inverse."""
    (top,) = combine_row([largest], worst, share)
    if (share.lane == 0) & (share.row < fx.Int32(scales.shape[1])):
        (scales.iter + share.row).store(top * (1.0 / plan.limit))
    return fx.arith.select(top < 2.0**-119, fx.Float32(0.0), plan.limit / top)


@flyc.kernel
def quantised_kernel(
    X: fx.Tensor, W: fx.Tensor, B: fx.Tensor, Q: fx.Tensor, S: fx.Tensor,
    plan: fx.Constexpr[QuantPlan],
) -> None:  # fmt: skip
    """Q, S = normalised rows of X in 8 bits, and their scales."""
    share, norm = own_share(plan.norm.row, X), plan.norm
    values = widened(load_share(share.start(X), share))
    columns = column_count(X).to(fx.Float32)
    values, _, scale, shift = centred(values, share, columns, norm.eps, norm.mean)
    weights = load_share(W.iter, share) if norm.weight else [None] * len(values)
    biases = load_share(B.iter, share) if norm.bias else [None] * len(values)
    out = []
    for value, w, b in zip(values, weights, biases, strict=True):
        unit = fx.math.fma(value, scale, shift) if norm.mean else value * scale
        out.append(affine(unit, w, b))
    # Where a thread has no element its value is 0, but not what became of it.
    largest = fx.Float32(0.0)
    for position, value in enumerate(out):
        largest = worst(largest, present(magnitude(value), position, share))
    inverse = scale_of(largest, share, S, plan)
    start = share.start(Q)
    for position, value in enumerate(out):
        small = narrowed(value, inverse, Q.dtype)
        if fx.const_expr(position < share.plan.chunks):
            place_chunk(start, position, share, small)
        else:
            place_tail(start, share, small)


def present(value: Any, position: int, share: Share) -> Any:
    """Return a number for a part of a share, or 0 where the thread has no such part."""
    if position >= share.plan.chunks:
        return fx.arith.select(share.in_tail, value, fx.Float32(0.0))
    if not share.masked(position):
        return value
    return fx.arith.select(share.index(position) < share.full, value, fx.Float32(0.0))


@flyc.jit
def long_values(load: Any, starts: Any, index: Any, share: Share, moments: Any, norm: Any) -> Any:
    """Return the normalised f32 values of a vector, or of the tail's element."""
    start, weight, bias = starts
    mean, scale, shift = moments
    value = load(start, index, share).to(fx.Float32)
    unit = fx.math.fma(value - mean, scale, shift) if norm.mean else value * scale
    w = load(weight, index, share) if norm.weight else None
    b = load(bias, index, share) if norm.bias else None
    return affine(unit, w, b)


def tail_of(start: Any, _: Any, share: Share) -> Any:
    """Load the element of the tail."""
    return load_tail(start, share, 0.0)


@flyc.kernel
def long_quantised_kernel(
    X: fx.Tensor, W: fx.Tensor, B: fx.Tensor, Q: fx.Tensor, S: fx.Tensor,
    plan: fx.Constexpr[QuantPlan],
) -> None:  # fmt: skip
    """Q, S = normalised long rows of X in 8 bits, and their scales; rows are read three times."""
    share, norm = own_share(plan.norm.row, X), plan.norm
    starts = share.start(X), W.iter, B.iter
    moments = long_moments(starts[0], share, column_count(X).to(fx.Float32), norm)
    largest = fx.Float32(0.0)
    for index in range(share.lane, share.full, share.plan.lanes):
        value = long_values(load_vector, starts, index, share, moments, norm)
        largest = worst(largest, magnitude(value))
    if fx.const_expr(share.plan.tail):
        last = long_values(tail_of, starts, None, share, moments, norm)
        largest = worst(largest, present(magnitude(last), 0, share))
    inverse = scale_of(largest, share, S, plan)
    start = share.start(Q)
    for index in range(share.lane, share.full, share.plan.lanes):
        value = long_values(load_vector, starts, index, share, moments, norm)
        (start + index * share.plan.vector).store(narrowed(value, inverse, Q.dtype))
    if fx.const_expr(share.plan.tail):
        last = long_values(tail_of, starts, None, share, moments, norm)
        place_tail(start, share, narrowed(last, inverse, Q.dtype))


@flyc.jit
def launch_quantised(
    X: fx.Tensor, W: fx.Tensor, B: fx.Tensor, Q: fx.Tensor, S: fx.Tensor,
    plan: fx.Constexpr[QuantPlan], stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch the kernel for rows in registers, or the one for long rows."""
    row = plan.norm.row
    groups = (X.shape[0] + (row.rows - 1)) // row.rows
    kernel = long_quantised_kernel if row.looped else quantised_kernel
    kernel(X, W, B, Q, S, plan).launch(grid=(groups,), block=(row.block,), stream=stream)
