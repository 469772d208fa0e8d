"""Groups of rows with a matrix each against float64."""

from __future__ import annotations

import numpy as np
import pytest
from product_reference import BF16, After, check, fp8, operand, padded, product

import flydsl_emu
from flydsl import config
from flydsl.errors import FlyDSLError
from flydsl_kernels.gemm import GemmConfig, grouped_gemm


@pytest.mark.parametrize(("arch", "name", "layout"), [
    ("gfx942", "bfloat16", "nt"), ("gfx950", "fp8", "nt"), ("gfx1100", "float16", "nn"),
    ("gfx1201", "int8", "nt"),
])  # fmt: skip
def test_groups(arch, name, layout):
    """Groups without rows, with one, and with more than a tile; rows after the last group stay."""
    random = np.random.default_rng()
    name = fp8(arch) if name == "fp8" else name
    ends = np.array([3, 3, 40, 41, 141], np.int32)
    groups, rows, n, k = len(ends), 150, 72, 96
    a, b = operand(random, (rows, k), name), operand(random, (groups, n, k), name)
    scale_a = random.random(rows).astype(np.float32)
    scale_b = random.random((groups, n)).astype(np.float32)
    bias = random.standard_normal((groups, n)).astype(BF16)
    residual = padded(random.standard_normal((rows, n)).astype(np.float32))
    out = np.full((rows, n), 7, np.float32)
    given = b if layout == "nt" else b.transpose(0, 2, 1).copy()
    with config.scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize():
        got = grouped_gemm(
            padded(a), given, ends, out=out, scale_a=scale_a, scale_b=scale_b, bias=bias,
            activation="relu", residual=residual, layout=layout,
        )  # fmt: skip
    assert got is out
    start = 0
    for group, end in enumerate(ends):
        own = slice(start, end)
        after = After(scale_a[own, None], scale_b[group], bias[group], "relu", residual[own])
        check(got[own], *product(a[own], b[group].T, after, "float32"))
        start = end
    assert (got[start:] == 7).all()


def test_without_extras(gfx942):
    random = np.random.default_rng()
    a, b = operand(random, (20, 64), "float16"), operand(random, (1, 48, 64), "float16")
    got = grouped_gemm(a, b, np.array([20], np.int32), config=GemmConfig(16, 64, 64, 1, 4))
    check(got, *product(a, b[0].T, After(), "float16"))
    assert grouped_gemm(a[:0], b, np.array([0], np.int32)).shape == (0, 48)


@pytest.mark.parametrize(("ends", "taken"), [
    ([7, 7, 40], [7, 7, 20]), ([7, 2**31 - 1, 3], [7, 20, 20]), ([-5, 4, 2], [0, 4, 4]),
])  # fmt: skip
def test_ends_that_are_no_rows_reach_no_other_memory(ends, taken, gfx942):
    random = np.random.default_rng()
    a, b = operand(random, (20, 64), "float16"), operand(random, (3, 48, 64), "float16")
    out = np.full((20, 48), 7, np.float32)
    with flydsl_emu.sanitize():
        grouped_gemm(a, b, np.array(ends, np.int32), out=out)
    start = 0
    for group, end in enumerate(taken):
        if end > start:
            check(out[start:end], *product(a[start:end], b[group].T, After(), "float32"))
        start = end
    assert (out[start:] == 7).all()


@pytest.mark.parametrize(("change", "code"), [
    ({"layout": "tt"}, "C912"), ({"ends": np.array([20], np.int64)}, "U543"),
    ({"ends": np.array([9, 20], np.int32)}, "U542"), ({"b": np.ones((48, 64), np.float16)}, "U911"),
    ({"b": np.ones((1, 48, 60), np.float16)}, "U911"),
    ({"bias": np.ones((2, 48), np.float32)}, "U542"),
    ({"config": GemmConfig(16, 64, 64, 1, 4, 2)}, "C918"), ({"split_k": 2}, "C918"),
    ({"scale_out": np.ones(1, np.float32)}, "C918"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(change, code, gfx942):
    given = {"b": np.ones((1, 48, 64), np.float16), "ends": np.array([20], np.int32), **change}
    with pytest.raises(FlyDSLError) as caught:
        grouped_gemm(np.ones((20, 64), np.float16), **given)
    assert caught.value.code == f"FLY-{code}"
