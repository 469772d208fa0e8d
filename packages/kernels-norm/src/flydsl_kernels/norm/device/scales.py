"""Scales of 8-bit results: of a row, or of groups of 128 of its elements.

A scale is the largest magnitude over the largest number of the 8-bit type, in f32, or the least
power of two that is not smaller, as one byte (E8M0). Where a thread has no element its magnitude
is 0.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.ext.coop import warp_reduce
from flydsl_kernels.norm.device.rows import Share
from flydsl_kernels.norm.selection import QuantPlan

__all__ = [
    "keep_group_scale",
    "keep_row_scale",
    "largest_of_group",
    "magnitude",
    "present",
    "reduced",
]

_LEAST = 2.0**-119
"""Rows and groups of smaller magnitudes become zeros with an f32 scale."""


def magnitude(value: Any) -> Any:
    """Return the largest magnitude of an f32 number or the elements of a vector; NaN if one is."""
    size = fx.math.absf(value)
    return size.reduce("max") if isinstance(value, fx.Vector) else size


def present(value: Any, position: int, share: Share) -> Any:
    """Return a number for a part of a share, or 0 where the thread has no such part."""
    if position >= share.plan.chunks:
        return fx.arith.select(share.in_tail, value, fx.Float32(0.0))
    if share.plan.whole:
        return value
    return fx.arith.select(share.index(position) < share.full, value, fx.Float32(0.0))


def reduced(value: Any, inverse: Any, kind: Any) -> Any:
    """Return f32 values times `inverse` in an 8-bit type, to nearest even."""
    scaled = value * inverse
    if kind is fx.Int8:
        return fx.math.roundeven(scaled).to(fx.Int8)
    return scaled.to(kind)


def encoded(top: Any, plan: QuantPlan) -> tuple[Any, Any]:
    """Return the scale for a largest magnitude as it is stored, and its inverse in f32."""
    if not plan.power:
        inverse = fx.arith.select(top < _LEAST, fx.Float32(0.0), plan.limit / top)
        return top * (1.0 / plan.limit), inverse
    # The exponent is rounded up by adding to the fraction; infinities and NaNs become E8M0's NaN.
    bits = (top / plan.limit).bitcast(fx.Uint32)
    code = (bits + 0x7FFFFF) >> 23
    inverse = fx.arith.select(code < 254, (254 - code) << 23, fx.Uint32(0)).bitcast(fx.Float32)
    return fx.arith.select(code < 255, code, fx.Uint32(255)).to(fx.Uint8), inverse


@flyc.jit
def keep_row_scale(top: Any, share: Share, scales: Any, plan: QuantPlan) -> Any:
    """Store the scale of a row for its largest magnitude; return its inverse."""
    scale, inverse = encoded(top, plan)
    if share.is_first() & (share.row < fx.Int32(scales.shape[0])):
        (scales.iter + share.row.to(fx.Int64) * scales.stride[0]).store(scale)
    return inverse


def largest_of_group(size: Any, share: Share, plan: QuantPlan) -> Any:
    """Combine magnitudes of neighbouring threads' vectors over those of a group."""
    width = min(plan.group // share.plan.vector, share.plan.lanes)
    return warp_reduce(size, "max", width=width)


@flyc.jit
def keep_group_scale(
    top: Any, column: Any, here: Any, share: Share, scales: Any, plan: QuantPlan
) -> Any:
    """Store the scale of the group of a column for its largest magnitude; return its inverse.

    Args:
        top: The magnitude.
        column: First column of the thread's in the group.
        here: Whether this thread stores, if the column is the first of the group.
        share: The thread's share.
        scales: Where to.
        plan: What to do.
    """
    scale, inverse = encoded(top, plan)
    if here & (column % plan.group == 0):
        place = share.row.to(fx.Int64) * scales.stride[0] + column // plan.group
        (scales.iter + place).store(scale)
    return inverse
