"""Sums of MFMA and SMFMAC with f32 accumulators: each term a fused multiply-add, k ascending.

The reference takes rational numbers and rounds each sum once. Operands are edge values: zeros of
both signs, denormals, infinities, NaN, and sizes whose products overflow or fall below f32's
smallest denormal.
"""

from __future__ import annotations

import math
import zlib
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from matrix_layouts import (
    DENSE,
    SPARSE,
    WAVES,
    Run,
    Shape,
    architectures,
    codes_of,
    element,
    fragments,
    packed,
    parsed,
    place_results,
    values_of,
)

from flydsl_emu.decode import Operand

Array = Any
CHAINED = [name for name in DENSE if parsed(name).accumulator == "f32"]
SAMPLES = 24


def rounded(x: Fraction) -> float:
    """Round to f32, ties to even; of the magnitude only."""
    size = abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** max(exponent - 23, -149)
    found = round(size / step) * step
    return math.copysign(math.inf if found >= 2**128 else float(found), x)


def fused(a: float, b: float, c: float) -> float:
    """Return ``a * b + c`` rounded once to f32."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        with np.errstate(invalid="ignore"):
            return float(np.float64(a) * np.float64(b) + np.float64(c))
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        # Of exact zeros only those of one sign are negative.
        signs = math.copysign(1, a) * math.copysign(1, b), math.copysign(1, c)
        return -0.0 if c == 0 and signs == (-1, -1) else 0.0
    return rounded(total)


def edges(rng: np.random.Generator, shape: tuple[int, ...], kind: Any) -> Array:
    """Return values of one size a row: about one, near either end of the range, and a few edges."""
    info = ml_dtypes.finfo(kind)
    largest, smallest = float(info.max), float(info.smallest_subnormal)
    ends = [2.0**-74, 2.0**-64, 2.0**63] if largest > 1e30 else [8 * smallest, largest / 8]
    x = rng.standard_normal(shape) * rng.choice([1.0, *ends], shape[:-1])[..., None]
    special = rng.choice([0, -0.0, np.inf, -np.inf, np.nan, largest, -smallest], shape)
    with np.errstate(over="ignore"):
        return np.where(rng.random(shape) < 0.25 / shape[-1], special, x).astype(kind)


def small_edges(rng: np.random.Generator, shape: tuple[int, ...], kind: Any) -> Array:
    """Return values of an 8-bit format: any code, but few that are not finite."""
    codes = rng.integers(0, 256, shape).astype(np.uint8)
    wild = ~np.isfinite(codes.view(kind).astype(np.float32)) & (rng.random(shape) < 0.9)
    return np.where(wild, np.uint8(0x80 if rng.random() < 0.5 else 0), codes).view(kind)


def operand(rng: np.random.Generator, shape: tuple[int, ...], kind: str, arch: str) -> Array:
    dtype, bits = element(kind, arch)
    return small_edges(rng, shape, dtype) if bits == 8 else edges(rng, shape, dtype)


def addends(rng: np.random.Generator, shape: Shape) -> Array:
    extent = (WAVES, shape.blocks, shape.m, shape.n)
    c = rng.standard_normal(extent) * rng.choice([1.0, 2.0**-140, 2.0**-149, 2.0**127], extent)
    special = rng.choice([0.0, -0.0, np.inf, np.nan], extent)
    with np.errstate(over="ignore"):
        return np.where(rng.random(extent) < 0.02, special, c).astype(np.float32)


def compare(
    rng: np.random.Generator, got: Array, sides: tuple[Array, Array], c: Array, shape: Shape
) -> None:
    """Compare some results, at random places, with chains of rational numbers."""
    # The inverse of `place_results`: which element and lane holds a result.
    extent = (1, shape.blocks, shape.m, shape.n)
    numbers = np.arange(np.prod(extent), dtype=np.int64).reshape(extent)
    placed = place_results(np.repeat(numbers, WAVES, axis=0), shape)[:, 0]
    for _ in range(SAMPLES):
        wave, block, i, j = (int(rng.integers(n)) for n in (WAVES, shape.blocks, shape.m, shape.n))
        total = float(c[wave, block, i, j])
        for k in range(shape.k):
            factors = (float(sides[0][wave, block, i, k]), float(sides[1][wave, block, j, k]))
            total = fused(*factors, total)
        register, lane = np.argwhere(placed == numbers[0, block, i, j])[0]
        found = got[register, wave, lane]
        want = np.float32(total)
        same = found.view(np.uint32) == want.view(np.uint32)
        assert same or (np.isnan(found) and np.isnan(want)), (wave, block, i, j, found, want)


@pytest.mark.parametrize("name", CHAINED)
def test_dense(name: str) -> None:
    shape = parsed(name)
    for arch in architectures(name):
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        sides = [
            operand(rng, (WAVES, shape.blocks, rows, shape.k), kind, arch)
            for rows, kind in zip((shape.m, shape.n), shape.kinds, strict=True)
        ]
        c = addends(rng, shape)
        run = Run(arch)
        places = []
        for at, x, kind in zip((0, 32), sides, shape.kinds, strict=True):
            bits = element(kind, arch)[1]
            places.append(run.put(at, packed(codes_of(fragments(x), bits), bits)))
        third = run.accumulator(c, shape)
        target = Operand("v", 128, third.count)
        run.execute(name, target, *places, third)
        wide = tuple(
            values_of(x, kind) if kind == "xf32" else x.astype(np.float64)
            for x, kind in zip(sides, shape.kinds, strict=True)
        )
        compare(rng, run.result(target, shape), wide, c, shape)


@pytest.mark.parametrize("name", [n for n in SPARSE if parsed(n).accumulator == "f32"])
def test_sparse(name: str) -> None:
    """Of each four k the first two; the others are zeros, which change no sum of finite terms."""
    shape = parsed(name)
    for arch in architectures(name):
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        kept = operand(rng, (WAVES, 1, shape.m, shape.k // 2), shape.kinds[0], arch)
        b = operand(rng, (WAVES, 1, shape.n, shape.k), shape.kinds[1], arch)
        b = np.where(np.isfinite(b.astype(np.float64)), b, np.zeros((), b.dtype)).astype(b.dtype)
        c = addends(rng, shape)
        run = Run(arch)
        bits = element(shape.kinds[0], arch)[1]
        left = run.put(0, packed(codes_of(fragments(kept), bits), bits))
        runs = 2 if shape.n * shape.k * bits // 8 // 64 == 32 else 1
        right = run.put(32, packed(codes_of(fragments(b, runs), bits), bits))
        third = run.accumulator(c, shape)
        # Places 0 and 1 in every group of four.
        run.bench.state.vector[200] = 0x44444444
        run.execute(name, third, left, right, Operand("v", 200))
        spread = np.zeros((WAVES, 1, shape.m, shape.k))
        spread[..., 0::4], spread[..., 1::4] = kept[..., 0::2], kept[..., 1::2]
        compare(rng, run.result(third, shape), (spread, b.astype(np.float64)), c, shape)
