"""Random layers of experts in every format, what they mean in float64, and bounds of errors.

`Case.x` and `Case.w` are what operations get, `wide_x` and `wide_w` the numbers that they stand
for. A product sums K exact products in f32, in any order: its error is at most K 2^-24 times the
sum of their magnitudes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["BF16", "FORMATS", "Case", "activated", "allowed", "case", "fenced", "gemm1", "gemm2"]

BF16 = np.dtype(ml_dtypes.bfloat16)
FORMATS = {
    "gfx942": ("bf16", "f16", "fp8", "fp8_block", "int8", "int8_int4", "bf16_int4"),
    "gfx950": ("bf16", "f16", "fp8", "fp8_block", "int8", "int8_int4", "bf16_int4", "bf16_mxfp4",
               "mxfp8_mxfp4", "mxfp4"),
}  # fmt: skip
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


@dataclass
class Case:
    """Activations and weights of a format, as given and in float64."""

    x: Any
    x_scales: Any
    w: Any
    w_scales: Any
    wide_x: Any
    wide_w: Any


def fenced(array):
    """Return a copy of a matrix inside a larger array of NaN (or of the largest number)."""
    shape = (array.shape[0] + 2, *array.shape[1:])
    kind = array.dtype
    if kind.kind in "iu":
        whole = np.full(shape, np.iinfo(kind).max, kind)
    else:
        whole = np.full(shape, np.nan, np.float32).astype(kind)
    whole[1:-1] = array
    return whole[1:-1]


def powers(codes):
    return 2.0 ** (codes.astype(np.float64) - 127)


def unpacked(codes):
    pairs = np.stack([codes & 15, codes >> 4], -1)
    return FP4[pairs.reshape(*codes.shape[:-1], -1)]


def repeated(scales, rows, columns, shape):
    return np.repeat(np.repeat(scales.astype(np.float64), rows, -2), columns, -1)[
        ..., : shape[0], : shape[1]
    ]


def weights(format, arch, shape, random, group):
    """Return weights, their scales, and what they mean."""
    experts, n, k = shape
    norm = 1 / np.sqrt(k)
    eight = ml_dtypes.float8_e4m3fnuz if arch == "gfx942" else ml_dtypes.float8_e4m3fn
    if format in ("bf16", "f16"):
        w = (norm * random.standard_normal(shape)).astype(BF16 if format == "bf16" else np.float16)
        return w, None, w.astype(np.float64)
    if format in ("fp8", "fp8_block"):
        w = (8 * random.standard_normal(shape)).astype(eight)
        if format == "fp8":
            scales = ((random.random((experts, n)) + 0.5) * norm / 8).astype(np.float32)
            return w, scales, w.astype(np.float64) * scales[..., None].astype(np.float64)
        blocks = experts, -(-n // 128), -(-k // 128)
        scales = ((random.random(blocks) + 0.5) * norm / 8).astype(np.float32)
        return w, scales, w.astype(np.float64) * repeated(scales, 128, 128, (n, k))
    if format in ("int8", "int8_int4", "bf16_int4"):
        most = 128 if format == "int8" else 8
        w = random.integers(-most, most, shape).astype(np.int8)
        if format == "bf16_int4":
            scales = (random.random((experts, n, k // group)) * norm / most).astype(np.float32)
            # Weights times their scales are rounded to bf16, as documented.
            wide = (w * np.repeat(scales, group, -1)).astype(BF16).astype(np.float64)
            return w, scales, wide
        scales = (random.random((experts, n)) * norm / most).astype(np.float32)
        return w, scales, w * scales[..., None].astype(np.float64)
    codes = random.integers(0, 256, (experts, n, k // 2)).astype(np.uint8)
    scales = random.integers(120, 124, (experts, n, k // 32)).astype(np.uint8)
    return codes, scales, unpacked(codes) * np.repeat(powers(scales), 32, -1)


def activations(format, arch, shape, random):
    """Return activations, their scales, and what they mean."""
    rows, k = shape
    eight = ml_dtypes.float8_e4m3fnuz if arch == "gfx942" else ml_dtypes.float8_e4m3fn
    if format.startswith("bf16") or format == "f16":
        x = random.standard_normal(shape).astype(np.float16 if format == "f16" else BF16)
        return x, None, x.astype(np.float64)
    if format == "fp8" or format.startswith("int8"):
        x = random.standard_normal(shape).astype(eight)
        if format != "fp8":
            x = random.integers(-128, 128, shape).astype(np.int8)
        scales = ((random.random(rows) + 0.5) / (1 if format == "fp8" else 64)).astype(np.float32)
        return x, scales, x.astype(np.float64) * scales[:, None].astype(np.float64)
    if format == "fp8_block":
        x = random.standard_normal(shape).astype(eight)
        scales = (random.random((rows, -(-k // 128))) + 0.5).astype(np.float32)
        return x, scales, x.astype(np.float64) * repeated(scales, 1, 128, shape)
    scales = random.integers(124, 129, (rows, k // 32)).astype(np.uint8)
    factors = np.repeat(powers(scales), 32, -1)
    if format == "mxfp8_mxfp4":
        x = random.standard_normal(shape).astype(eight)
        return x, scales, x.astype(np.float64) * factors
    codes = random.integers(0, 256, (rows, k // 2)).astype(np.uint8)
    return codes, scales, unpacked(codes) * factors


def case(format, arch, rows, experts, n, k, group=32):
    """Return a random case; activations and their scales lie between poisoned rows."""
    random = np.random.default_rng()
    x, x_scales, wide_x = activations(format, arch, (rows, k), random)
    w, w_scales, wide_w = weights(format, arch, (experts, n, k), random, group)
    return Case(fenced(x), None if x_scales is None else fenced(x_scales), w, w_scales, wide_x,
                wide_w)  # fmt: skip


def activated(gate, up, name="silu", limit=None, alpha=1.0, offset=0.0):
    """Return the activation in float64."""
    from math import erf, sqrt

    if limit is not None:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    up = up + offset
    if name == "silu":
        return gate / (1 + np.exp(-alpha * gate)) * up
    if name == "gelu":
        return gate * (1 + np.vectorize(erf)(gate / sqrt(2))) / 2 * up
    inner = np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)
    return gate * (1 + np.tanh(inner)) / 2 * up


def allowed(dtype):
    """Return the relative error of rounding to a type."""
    return float(ml_dtypes.finfo(dtype).eps) / 2


def gemm1(data, ids, rows_of, dtype, weights=None, **activation):
    """Return the first product for every pair and how far off it may be, both NaN if elsewhere.

    The slope of all activations is below 1.13 (times the gated number), and that of the gated
    number is the activation of the gate. An activation in f32 with the hardware's functions is
    within 2^-19 of itself, tails included.
    """
    tokens, slots = ids.shape
    half = data.wide_w.shape[1] // 2
    k = data.wide_w.shape[2]
    out = np.full((tokens, slots, half), np.nan)
    bound = np.full((tokens, slots, half), np.nan)
    for token in range(tokens):
        for slot in range(slots):
            expert = ids[token, slot]
            if expert < 0:
                continue
            row = data.wide_x[rows_of(token, slot)]
            sums = data.wide_w[expert] @ row
            error = k * 2.0**-24 * (np.abs(data.wide_w[expert]) @ np.abs(row)) + 2.0**-22 * abs(
                sums
            )
            gate, up = sums[:half], sums[half:]
            value = activated(gate, up, **activation)
            slope = 1.13 * (np.abs(up) + abs(activation.get("offset", 0.0)))
            slope *= max(1.0, activation.get("alpha", 1.0))
            off = slope * error[:half] + (np.abs(gate) + error[:half]) * error[half:]
            off += 2.0**-19 * (np.abs(value) + np.abs(gate * 2.0**-8))
            if weights is not None:
                value, off = value * weights[token, slot], off * abs(weights[token, slot])
            out[token, slot] = value
            bound[token, slot] = off + (np.abs(value) + off) * allowed(dtype) + 2.0**-25
    return out, bound


def gemm2(data, ids, dtype, weights=None):
    """Return the second product for every pair and how far off it may be, NaN if elsewhere."""
    tokens, slots = ids.shape
    k = data.wide_w.shape[2]
    shape = tokens, slots, data.wide_w.shape[1]
    out, bound = np.full(shape, np.nan), np.full(shape, np.nan)
    for token in range(tokens):
        for slot in range(slots):
            expert = ids[token, slot]
            if expert < 0:
                continue
            row = data.wide_x[token * slots + slot]
            value = data.wide_w[expert] @ row
            off = k * 2.0**-24 * (np.abs(data.wide_w[expert]) @ np.abs(row)) + 2.0**-22 * abs(value)
            factor = 1.0 if weights is None else float(weights[token, slot])
            value, off = value * factor, off * abs(factor)
            out[token, slot] = value
            bound[token, slot] = off + (np.abs(value) + off) * allowed(dtype) + 2.0**-25
    return out, bound
