"""Quantising rows of activations: per row, per 128 columns, or per 32 with powers of two.

Scales are the largest magnitude over the largest number of the type; powers of two are rounded up,
so nothing saturates. A part of magnitudes below 2^-119 becomes zeros (with powers of two, one that
their least cannot show); NaN makes the part's scale NaN.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.moe.selection import QuantPlan

__all__ = ["launch_quantise"]


def magnitude(value: Any) -> Any:
    """Return the largest magnitude of an f32 number or the elements of a vector; NaN wins."""
    size = fx.math.absf(value)
    return size.reduce("max") if isinstance(value, fx.Vector) else size


def across(value: Any, lanes: int) -> Any:
    """Return the largest of neighbouring lanes' numbers."""
    offset = 1
    while offset < lanes:
        value = fx.max(value, fx.gpu.shuffle_xor(value, offset))
        offset *= 2
    return value


@flyc.jit
def load_part(start: Any, index: Any, inside: Any, plan: QuantPlan) -> Any:
    """Load the thread's elements in f32; zero where it has none."""
    kind = start.element if plan.vector == 1 else vector_alias(start.element, (plan.vector,))
    if fx.const_expr(plan.vector == 1):
        value = start.element(0.0)
    else:
        value = fx.Vector.filled((plan.vector,), 0.0, start.element)
    if inside:
        value = (start + index * plan.vector).load(kind)
    return value.to(fx.Float32)


@flyc.jit
def smoothed(value: Any, factors: Any, index: Any, inside: Any, plan: QuantPlan) -> Any:
    """Return a part times the expert's factors of its columns."""
    if fx.const_expr(plan.smooth):
        value = value * load_part(factors, index, inside, plan)
    return value


def narrowed(value: Any, inverse: Any, plan: QuantPlan) -> Any:
    """Return a part times `inverse` in the small type, as bytes."""
    factor = inverse
    if isinstance(value, fx.Vector):
        factor = fx.Vector.filled((plan.vector,), inverse, fx.Float32)
    scaled = value * factor
    kind = {
        "int8": fx.Int8, "float8_e4m3fn": fx.Float8E4M3FN, "float8_e4m3fnuz": fx.Float8E4M3FNUZ,
        "float4_e2m1fn": fx.Float4E2M1FN,
    }[plan.dtype]  # fmt: skip
    if kind is fx.Int8:
        return fx.math.roundeven(scaled).to(fx.Int8).bitcast(fx.Uint8)
    return scaled.to(kind).bitcast(fx.Uint8)


def exponent_of(top: Any, plan: QuantPlan) -> Any:
    """Return the exponent byte of the least power of two of at least top / limit."""
    bits = (top * (1.0 / plan.limit)).bitcast(fx.Int32)
    byte = (bits + 0x7FFFFF) >> 23
    return (top == top).select(fx.min(byte, fx.Int32(254)), fx.Int32(255))  # noqa: PLR0124


@flyc.jit
def store_part(target: Any, index: Any, inside: Any, value: Any, plan: QuantPlan) -> None:
    """Store a part's bytes."""
    size = plan.vector // 2 if plan.dtype == "float4_e2m1fn" else plan.vector
    if inside:
        (target + index * size).store(value)


@flyc.jit
def quantise_groups(
    start: Any, factors: Any, target: Any, scales: Any, vectors: Any, plan: QuantPlan
) -> None:
    """Quantise a row whose groups of columns have scales of their own."""
    lanes = plan.group // plan.vector
    for base in range(0, vectors, plan.block):
        index = base + fx.thread_idx.x
        inside = index < vectors
        value = load_part(start, index, inside, plan)
        value = smoothed(value, factors, index, inside, plan)
        top = across(magnitude(value), lanes)
        if fx.const_expr(plan.group == 32):
            byte = exponent_of(top, plan)
            # 2^(127 - byte), which is 2^-127 at most 254 and in f32 below the normal numbers.
            inverse = (fx.max(254 - byte, fx.Int32(1)) << 23).bitcast(fx.Float32)
            inverse = (byte == 255).select(fx.Float32(float("nan")), inverse)
            kept = byte.to(fx.Uint8)
        else:
            inverse = (top < 2.0**-119).select(fx.Float32(0.0), plan.limit / top)
            kept = top * (1.0 / plan.limit)
        store_part(target, index, inside, narrowed(value, inverse, plan), plan)
        if inside & (fx.thread_idx.x % lanes == 0):
            (scales + index // lanes).store(kept)


@flyc.jit
def quantise_row(
    start: Any, factors: Any, target: Any, scale: Any, vectors: Any, plan: QuantPlan
) -> None:
    """Quantise a row with one scale."""
    top = fx.Float32(0.0)
    for index in range(fx.thread_idx.x, vectors, plan.block):
        value = load_part(start, index, fx.Boolean(True), plan)
        top = fx.max(top, magnitude(smoothed(value, factors, index, fx.Boolean(True), plan)))
    top = fx.coop.block_max(top)
    inverse = (top < 2.0**-119).select(fx.Float32(0.0), plan.limit / top)
    for index in range(fx.thread_idx.x, vectors, plan.block):
        value = load_part(start, index, fx.Boolean(True), plan)
        value = smoothed(value, factors, index, fx.Boolean(True), plan)
        store_part(target, index, fx.Boolean(True), narrowed(value, inverse, plan), plan)
    if fx.thread_idx.x == 0:
        scale.store(top * (1.0 / plan.limit))


@flyc.kernel
def quantise_kernel(
    X: fx.Tensor, I: fx.Tensor, F: fx.Tensor, Q: fx.Tensor, S: fx.Tensor,
    plan: fx.Constexpr[QuantPlan],
) -> None:  # fmt: skip
    """Q, S = rows of X, times the factors F of the expert that I names, and their scales."""
    row, columns = fx.block_idx.x, fx.Int32(X.shape[1])
    source, factors, wanted = row, F.iter, fx.Boolean(True)
    if fx.const_expr(plan.smooth):
        pair = row
        if fx.const_expr(plan.by_slot):
            tokens = fx.Int32(X.shape[0])
            slot = row // tokens
            source = row - slot * tokens
            pair = source * fx.Int32(I.shape[1]) + slot
        expert = (I.iter + pair).load()
        wanted = (expert >= 0) & (expert < fx.Int32(F.shape[0]))
        safe = wanted.select(expert, fx.Int32(0))
        factors = F.iter + safe.to(fx.Int64) * columns.to(fx.Int64)
    start = X.iter + source.to(fx.Int64) * X.stride[0]
    target = Q.iter + row.to(fx.Int64) * Q.stride[0]
    vectors = columns // plan.vector
    if fx.const_expr(plan.group):
        scales = S.iter + row.to(fx.Int64) * S.stride[0]
        quantise_groups(start, factors, target, scales, vectors, plan)
    else:
        quantise_row(start, factors, target, S.iter + row, vectors, plan)


@flyc.jit
def launch_quantise(
    X: fx.Tensor, I: fx.Tensor, F: fx.Tensor, Q: fx.Tensor, S: fx.Tensor,
    plan: fx.Constexpr[QuantPlan], stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch one workgroup per row of Q."""
    quantise_kernel(X, I, F, Q, S, plan).launch(
        grid=(Q.shape[0],), block=(plan.block,), stream=stream
    )
