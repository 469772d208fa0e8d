"""The operations against float64, over element types, sizes and architectures."""

from __future__ import annotations

import numpy as np
import pytest
import row_reference as reference
from row_reference import BF16, check

from flydsl import config
from flydsl_kernels.norm import (
    fused_add_layernorm,
    fused_add_rmsnorm,
    layernorm,
    log_softmax,
    rmsnorm,
    softmax,
)
from flydsl_kernels.norm.selection import SPLIT_ROWS

TYPES = [np.dtype(np.float32), np.dtype(np.float16), BF16]
# A row in part of a wave, in a wave, in registers of a workgroup, and split among workgroups; with
# and without a tail; the last one is split as bf16 too.
SIZES = [7, 65, 1000, 8192, 20000, 65600 + 3]
# As many rows as are not split: looped over by one workgroup each.
UNSPLIT = SPLIT_ROWS + 1
# Reference kernels' own shapes and the edges around the vectors and waves.
MANY = [
    1, 2, 8, 9, 63, 64, 128, 255, 256, 257, 511, 513, 2000, 2047, 2048, 2049, 3001, 4096 + 8, 5120,
    8191, 16384, 32768, 32769, 65536, 131072,
]  # fmt: skip


def rows(columns):
    """Number of rows: no multiple of the rows of a workgroup, fewer when they are long."""
    return 5 if columns <= 256 else 3 if columns <= 2000 else 1


def run(columns, dtype, count=None):
    """Run every operation on a fresh random matrix and check it."""
    random = np.random.default_rng()
    shape = (count or rows(columns), columns)
    x = (3 * random.standard_normal(shape) + random.uniform(-5, 5)).astype(dtype)
    other = random.standard_normal(shape).astype(dtype)
    w = (1 + 0.5 * random.standard_normal(columns)).astype(np.float32)
    b = random.standard_normal(columns).astype(dtype)
    check(rmsnorm(x, w, 1e-6), *reference.rmsnorm(x, w, 1e-6, dtype))
    check(layernorm(x, w, b, 1e-5), *reference.layernorm(x, w, b, 1e-5, dtype))
    check(softmax(x), *reference.softmax(x, dtype))
    check(log_softmax(x), *reference.log_softmax(x, dtype))
    total = (x.astype(np.float32) + other.astype(np.float32)).astype(dtype)
    y, kept = fused_add_rmsnorm(x, other, w, 1e-6)
    assert np.array_equal(kept.view(np.uint8), total.view(np.uint8))
    check(y, *reference.rmsnorm(total, w, 1e-6, dtype))
    y, kept = fused_add_layernorm(x, other, w, b, 1e-5)
    assert np.array_equal(kept.view(np.uint8), total.view(np.uint8))
    check(y, *reference.layernorm(total, w, b, 1e-5, dtype))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("columns", SIZES)
def test_random_rows(columns, dtype, gfx942):
    run(columns, dtype)


@pytest.mark.parametrize("columns", [1, 63, 64, 255, 257, 2047])
def test_sizes_around_vectors_and_waves(columns, gfx942):
    run(columns, TYPES[columns % 3])


@pytest.mark.parametrize("columns", [1, 63, 257, 1000, 4104, 8192, 65600 + 3])
@pytest.mark.parametrize("arch", ["gfx950", "gfx1100", "gfx1201"])
def test_random_rows_on_other_architectures(columns, arch):
    with config.scope(FLYDSL_TARGET=arch):
        run(columns, TYPES[columns % 3] if columns < 4104 else BF16)


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_long_rows_that_are_not_split(arch):
    with config.scope(FLYDSL_TARGET=arch):
        run(32768 + 33, TYPES[0], UNSPLIT)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_random_rows_of_many_sizes(dtype, target):
    for columns in [*SIZES, *MANY]:
        run(columns, dtype)
    run(256, dtype, 64)
    run(128, dtype, 32)
    run(65536 + 9, dtype, UNSPLIT)
    run(131072, dtype, 16)


def test_without_weight_and_bias(gfx942):
    x = np.random.default_rng().standard_normal((3, 300)).astype(np.float32)
    one, zero = np.ones(300), np.zeros(300)
    check(rmsnorm(x, eps=1e-3), *reference.rmsnorm(x, one, 1e-3, x.dtype))
    check(layernorm(x, bias=zero.astype(np.float32)), *reference.layernorm(
        x, one, zero, 1e-5, x.dtype))  # fmt: skip


@pytest.mark.parametrize(("columns", "count"), [(40, 2), (5000, 2), (65603, 2), (32801, UNSPLIT)])
def test_a_large_common_offset_costs_no_accuracy(columns, count, gfx942):
    """Constant rows become exactly the bias, up to the rounding of the first mean's error."""
    random = np.random.default_rng()
    one, zero = np.ones(columns, np.float32), np.zeros(columns, np.float32)
    x = np.full((count, columns), 1e4, np.float32)
    x[1] += random.standard_normal(columns).astype(np.float32)
    y = layernorm(x, one, zero)
    check(y, *reference.layernorm(x, one, zero, 1e-5, x.dtype))
    assert np.abs(y[0]).max() < 1e-3
    assert abs(y[1].astype(np.float64).std() - 1) < 1e-4


@pytest.mark.parametrize("columns", [40, 5000, 65600 + 3])
def test_extreme_values_and_nan_stay_in_their_rows(columns, gfx942):
    random = np.random.default_rng()
    x = random.standard_normal((8, columns)).astype(np.float32)
    places = random.integers(0, columns, 8)
    specials = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 0.0, 88.0]
    x[np.arange(8), places] = specials
    x[5] *= np.float32(1e-30)
    with np.errstate(invalid="ignore", over="ignore"):
        check(softmax(x), *reference.softmax(x, x.dtype))
        got, (expected, bound) = log_softmax(x), reference.log_softmax(x, x.dtype)
        finite = np.isfinite(expected)
        assert np.array_equal(np.isnan(got), np.isnan(expected))
        infinite = np.isinf(expected)
        assert np.array_equal(got[infinite], expected[infinite])
        check(got[finite], expected[finite], bound[finite])
    w, b = np.ones(columns, np.float32), np.zeros(columns, np.float32)
    # Squares of 3e38 are infinite in f32, as in PyTorch; the other rows are as they should be.
    rows = [5, 6, 7]
    check(rmsnorm(x, w)[rows], *reference.rmsnorm(x[rows], w, 1e-6, x.dtype))
    check(layernorm(x, w, b)[rows], *reference.layernorm(x[rows], w, b, 1e-5, x.dtype))
    assert np.isnan(rmsnorm(x)[0]).all()
    assert np.isnan(layernorm(x)[:3]).all()


@pytest.mark.parametrize("columns", [40, 65600])
def test_rows_of_minus_infinity(columns, gfx942):
    """A mask that hides all of a row leaves NaN, as a quotient of zeros does; a prefix does not."""
    x = np.random.default_rng().standard_normal((3, columns)).astype(np.float32)
    x[0] = -np.inf
    x[1, : columns - 3] = -np.inf
    y = softmax(x)
    assert np.isnan(y[0]).all()
    check(y[1:], *reference.softmax(x[1:], x.dtype))
    assert np.isnan(log_softmax(x)[0]).all()


@pytest.mark.parametrize("columns", [7, 4096, 65600])
def test_nans_with_all_digits_set_stay_nans(columns, gfx942):
    """Rounding to bf16 must not carry them away, whatever the type of the weights."""
    x = np.ones((2, columns), BF16)
    x.view(np.uint16)[0, 3] = 0x7FFF
    for kind, bits in ((np.uint32, 0xFFFFFFFF), (np.uint16, 0x7FFF)):
        w = np.ones(columns, np.float32 if kind is np.uint32 else np.float16)
        w.view(kind)[5] = bits
        for y in (rmsnorm(x, w), layernorm(x, w), layernorm(x, None, w)):
            found = np.isnan(y.astype(np.float32))
            assert found[0].all()
            assert list(np.flatnonzero(found[1])) == [5]
    assert np.isnan(softmax(x)[0].astype(np.float32)).all()


@pytest.mark.parametrize("operation", [rmsnorm, layernorm, softmax, log_softmax])
def test_split_rows_are_the_same_in_every_run(operation, gfx942):
    x = np.random.default_rng().standard_normal((2, 65600 + 3)).astype(np.float32)
    assert np.array_equal(operation(x), operation(x.copy()))
