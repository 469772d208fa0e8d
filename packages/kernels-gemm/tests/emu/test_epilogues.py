"""Scales, bias, activations, residuals and 8-bit results against float64."""

from __future__ import annotations

import numpy as np
import pytest
from product_reference import (
    ACTIVATIONS,
    BF16,
    LARGEST,
    After,
    check,
    dtype_of,
    finished,
    fp8,
    operand,
    padded,
    product,
)

from flydsl import config
from flydsl_kernels.gemm import gemm

M, N, K = 33, 72, 96


def extras(random, m=M, n=N):
    """Return a bias and a residual, which lies in poisoned memory."""
    bias = random.standard_normal(n).astype(BF16)
    return bias, padded(random.standard_normal((m, n)).astype(np.float32), (4, 8, 1))


@pytest.mark.parametrize(
    ("activation", "n", "parts"),
    [*((name, N, 1) for name in ACTIVATIONS), ("silu", N - 1, 2), ("gelu_erf", N - 1, 1)],
)
def test_bias_activation_and_residual(n, parts, activation, gfx942):
    random = np.random.default_rng()
    a, b = operand(random, (M, K), "bfloat16"), operand(random, (n, K), "bfloat16")
    bias, residual = extras(random, n=n)
    got = gemm(a, b, bias=bias, activation=activation, residual=residual, split_k=parts)
    after = After(bias=bias, activation=activation, residual=residual)
    check(got, *product(a, b.T, after, "bfloat16", parts))


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu"])
def test_everything_at_once(activation, target):
    """Scales, bias, activation, residual and an 8-bit result with a scale of every row."""
    random = np.random.default_rng()
    name = "int8" if activation == "relu" else fp8(target) or "int8"
    a, b = operand(random, (M, K), name), operand(random, (N, K), name)
    scale_a = (random.random(M) / K).astype(np.float32)
    scale_b = random.random((N, 1)).astype(np.float32)
    bias, residual = extras(random)
    scale_out = ((random.random(M) + 0.5) / LARGEST[name]).astype(np.float32)
    got = gemm(
        a, b, scale_a=scale_a, scale_b=scale_b, bias=bias, activation=activation,
        residual=residual, scale_out=scale_out, out_dtype=name,
    )  # fmt: skip
    after = After(scale_a[:, None], scale_b.T, bias, activation, residual, scale_out[:, None])
    assert got.dtype == dtype_of(name)
    check(got, *product(a, b.T, after, name))


def test_scales_of_tensors_and_of_batches(gfx942):
    random = np.random.default_rng()
    name = fp8("gfx942")
    a, b = operand(random, (2, 17, 64), name), operand(random, (2, 40, 64), name)
    one, two = np.float32([0.5]), np.full((), 0.25, np.float32)
    expected = product(a, np.swapaxes(b, 1, 2), After(0.5, 0.25), "float32")
    check(gemm(a, b, scale_a=one, scale_b=two, out_dtype="float32"), *expected)
    rows = random.random((2, 17)).astype(np.float32)
    bias = random.random((2, 40)).astype(np.float32)
    residual = random.random((17, 40)).astype(np.float16)
    after = After(rows[:, :, None], 1.0, bias[:, None], None, residual)
    got = gemm(a, b, scale_a=rows, bias=bias, residual=residual, out_dtype="float32")
    check(got, *product(a, np.swapaxes(b, 1, 2), after, "float32"))


@pytest.mark.parametrize(("arch", "extents", "parts"), [
    ("gfx942", (33, 300, 384), 1), ("gfx942", (5, 129, 256), 2), ("gfx950", (5, 129, 128), 1),
    ("gfx1100", (17, 300, 256), 1), ("gfx1201", (33, 40, 384), 2),
])  # fmt: skip
def test_scales_of_blocks(parts, extents, arch):
    """One scale per row and 128 columns of A, and per 128 x 128 of B."""
    with config.scope(FLYDSL_TARGET=arch):
        scales_of_blocks(parts, extents, fp8(arch) or "int8")


def scales_of_blocks(parts, extents, name):
    """Check a product with scales of blocks."""
    random = np.random.default_rng()
    m, n, k = extents
    a, b = operand(random, (m, k), name), operand(random, (n, k), name)
    scale_a = random.random((m, k // 128)).astype(np.float32)
    scale_b = random.random((-(-n // 128), k // 128)).astype(np.float32)
    got = gemm(a, b, scale_a=scale_a, scale_b=scale_b, out_dtype="float32", split_k=parts)
    wide_a = a.astype(np.float64) * np.repeat(scale_a, 128, 1)
    wide_b = b.astype(np.float64) * np.repeat(np.repeat(scale_b, 128, 1), 128, 0)[:n]
    magnitude = np.abs(wide_a) @ np.abs(wide_b).T
    # Blocks of scales are two more roundings of each block's sum.
    check(got, *finished(wide_a @ wide_b.T, magnitude, After(), "float32", k + parts + 3))


def test_a_residual_may_be_the_output(gfx942):
    random = np.random.default_rng()
    a, b = operand(random, (M, K), "float16"), operand(random, (N, K), "float16")
    c = random.standard_normal((M, N)).astype(np.float32)
    expected = product(a, b.T, After(residual=c.copy()), "float32")
    check(gemm(a, b, out=c, residual=c), *expected)


def test_results_that_are_too_large_are_saturated(gfx942):
    a = np.full((3, 64), 100, np.int8)
    a[1] = -100
    b = np.full((5, 64), 100, np.int8)
    scale = np.float32([1.0])
    for name in ("int8", fp8("gfx942")):
        got = gemm(a, b, scale_out=scale, out_dtype=name).astype(np.float64)
        assert np.array_equal(got[:, 0], [LARGEST[name], -LARGEST[name], LARGEST[name]])


def test_nan_stays_in_its_row_and_column(gfx942):
    random = np.random.default_rng()
    a, b = operand(random, (M, K), "bfloat16"), operand(random, (N, K), "bfloat16")
    a[7, 3], b[9, K - 1] = np.nan, np.inf
    got = gemm(a, b, activation="relu", out_dtype="float32")
    assert np.isnan(got[7]).all()
    kept = np.ones(M, bool)
    kept[7] = False
    expected, bound = product(a[kept], np.delete(b, 9, 0).T, After(activation="relu"), "float32")
    check(np.delete(got[kept], 9, 1), expected, bound)
