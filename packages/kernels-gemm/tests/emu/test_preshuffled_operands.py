"""`gemm` with preshuffled weights."""

from __future__ import annotations

import numpy as np
import pytest
from product_reference import BF16, After, check, dtype_of, fp8, operand, product

from flydsl import config
from flydsl.errors import ConfigError, FlyDSLError
from flydsl_kernels.gemm import gemm, preshuffle_b


@pytest.mark.parametrize(
    "kinds", [("bfloat16", ""), ("fp8", ""), ("int8", "int4"), ("float16", "int4")]
)
def test_weights(kinds, gfx942):
    random = np.random.default_rng()
    name = fp8("gfx942") if kinds[0] == "fp8" else kinds[0]
    m, n, k = 33, 80, 256
    a = operand(random, (3, 11, k), name)
    if kinds[1]:
        b = random.integers(-8, 8, (n, k)).astype(np.int8)
        weight = preshuffle_b(b, layout="int4_packed", dtype="int4")
    else:
        b = operand(random, (n, k), name)
        weight = preshuffle_b(b)
    scale_a, scale_b = (random.random(x).astype(np.float32) for x in (m, n))
    bias = random.standard_normal(n).astype(BF16)
    flat = a.reshape(m, k)
    got = gemm(a, weight, scale_a=scale_a, scale_b=scale_b, bias=bias, activation="silu")
    wanted = "float16" if name == "float16" else "bfloat16"
    assert got.shape == (3, 11, n)
    assert got.dtype == dtype_of(wanted)
    after = After(scale_a[:, None], scale_b, bias, "silu")
    check(got.reshape(m, n), *product(flat, b.astype(np.float64).T, after, wanted))
    # What the kernel does not finish itself: a residual, rows that lie apart, 8-bit results.
    memory = np.full((m, n + 8), 7, np.float32)
    residual = random.standard_normal((m, n)).astype(np.float32)
    out = gemm(flat, weight, scale_b=scale_b, residual=residual, out=memory[:, :n])
    after = After(1.0, scale_b, residual=residual)
    check(out, *product(flat, b.astype(np.float64).T, after, "float32", 2))
    assert (memory[:, n:] == 7).all()


def test_what_does_not_fit_is_refused(gfx942):
    a, b = np.ones((4, 64), BF16), np.ones((32, 64), BF16)
    plain = preshuffle_b(b)
    with pytest.raises(ConfigError, match="no layout"):
        gemm(a, plain, layout="nn")
    with pytest.raises(ConfigError, match="types"):
        gemm(a.astype(np.float16), plain)
    with pytest.raises(FlyDSLError, match="fit the weights"):
        gemm(a[:, :32], plain)
    rdna = preshuffle_b(np.ones((32, 64), dtype_of("float8_e4m3fn")), layout="rdna4_fp8")
    with pytest.raises(ConfigError):
        gemm(np.ones((4, 64), dtype_of("float8_e4m3fn")), rdna)


@pytest.mark.parametrize(
    ("arch", "made", "match"),
    [
        ("gfx1100", ("float8_e4m3fn", {}), "gfx1100 do not read float8"),
        ("gfx1201", ("float8_e4m3fnuz", {}), "gfx1201 do not read float8"),
        ("gfx1201", ("bfloat16", {"arch": "gfx942"}), "another architecture"),
        ("gfx1100", ("bfloat16", {"layout": "cdna5_16x16"}), "another layout"),
        ("gfx950", ("float8_e4m3fn", {"layout": "rdna4_fp8"}), "another layout"),
    ],
)
def test_another_architecture_is_refused(arch, made, match):
    name, options = made
    weight = preshuffle_b(np.ones((32, 64), dtype_of(name)), **options)
    with config.scope(FLYDSL_TARGET=arch), pytest.raises(ConfigError, match=match) as caught:
        gemm(np.ones((4, 64), dtype_of(name)), weight)
    assert caught.value.allowed
    assert caught.value.hint
