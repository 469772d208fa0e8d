"""`gemm` with E8M0 scales: floats of 8, 6 and 4 bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from product_reference import After, check, finished

import flydsl_emu
from flydsl import config
from flydsl.errors import ConfigError, FlyDSLError
from flydsl_kernels.gemm import GemmConfig, gemm, preshuffle_b
from flydsl_rocdl.kernels.preshuffle import pack_fp6

KINDS = {
    "fp4": ml_dtypes.float4_e2m1fn,
    "fp6": ml_dtypes.float6_e2m3fn,
    "fp8": ml_dtypes.float8_e4m3fn,
}


def codes(random, rows, k, name):
    """Return finite numbers of a type, with their E8M0 scales, and both as float64."""
    values = random.uniform(-3, 3, (rows, k)).astype(KINDS[name])
    scales = random.integers(120, 134, (rows, k // 32)).astype(np.uint8)
    times = np.repeat(np.exp2(scales.astype(np.float64) - 127), 32, 1)
    return values, scales, values.astype(np.float64) * times


@pytest.mark.parametrize("kinds", ["fp4 fp4", "fp6 fp4", "fp8 fp8", "fp8 fp4"])
def test_products(kinds):
    random = np.random.default_rng()
    first, second = kinds.split()
    m, n, k = 33, 96, 512
    a, scale_a, wide_a = codes(random, m, k, first)
    b, scale_b, wide_b = codes(random, n, k, second)
    weight = preshuffle_b(b, layout="fp4_16lane" if second == "fp4" else "16x16", scales=scale_b)
    given = pack_fp6(a.view(np.uint8)) if first == "fp6" else a
    magnitude = np.abs(wide_a) @ np.abs(wide_b).T
    with config.scope(FLYDSL_TARGET="gfx950"):
        got = gemm(given, weight, scale_a=scale_a)
        assert got.dtype == ml_dtypes.bfloat16
        check(got, *finished(wide_a @ wide_b.T, magnitude, After(), "bfloat16", k))
        bias = random.standard_normal(n).astype(np.float32)
        got = gemm(
            given, weight, scale_a=scale_a, bias=bias, activation="relu", out_dtype="float32"
        )
        after = After(bias=bias, activation="relu")
        check(got, *finished(wide_a @ wide_b.T, magnitude, after, "float32", k))


@pytest.mark.parametrize(
    ("kinds", "chosen", "parts"),
    [
        ("fp4 fp4", None, 2), ("fp6 fp4", GemmConfig(32, 128, 128, 1, 4), 3),
        ("fp8 fp8", GemmConfig(32, 256, 256, 1, 4, split_k=3), None),
        ("fp8 fp4", GemmConfig(64, 128, 256, 1, 4, group_m=2), 1),
    ],
)  # fmt: skip
def test_parts_of_k_and_configurations(kinds, chosen, parts):
    """In a batch of rows, into an array of which the batches lie apart."""
    random = np.random.default_rng()
    first, second = kinds.split()
    m, n, k = 34, 160, 1536
    a, scale_a, wide_a = codes(random, m, k, first)
    b, scale_b, wide_b = codes(random, n, k, second)
    weight = preshuffle_b(b, layout="fp4_16lane" if second == "fp4" else "16x16", scales=scale_b)
    given = pack_fp6(a.view(np.uint8)) if first == "fp6" else a
    residual = random.standard_normal((2, 17, n)).astype(np.float32)
    memory = np.full((2, 19, n), np.nan, np.float32)
    magnitude = np.abs(wide_a) @ np.abs(wide_b).T
    with config.scope(FLYDSL_TARGET="gfx950"), flydsl_emu.sanitize():
        got = gemm(
            given.reshape(2, 17, k), weight, scale_a=scale_a.reshape(2, 17, -1), config=chosen,
            split_k=parts, residual=residual, activation="silu", out=memory[:, :17],
        )  # fmt: skip
    after = After(activation="silu", residual=residual.reshape(m, n))
    check(got.reshape(m, n), *finished(wide_a @ wide_b.T, magnitude, after, "float32", k + 8))
    assert np.isnan(memory[:, 17:]).all()


def test_there_is_no_gradient():
    torch = pytest.importorskip("torch")
    a, scales = torch.zeros((4, 128), dtype=torch.uint8), torch.zeros((4, 8), dtype=torch.uint8)
    weight = preshuffle_b(
        torch.zeros((32, 128), dtype=torch.uint8), layout="fp4_16lane", dtype="float4_e2m1fn",
        scales=torch.zeros((32, 8), dtype=torch.uint8),
    )  # fmt: skip
    bias = torch.zeros(32, requires_grad=True)
    with config.scope(FLYDSL_TARGET="gfx950"), pytest.raises(FlyDSLError) as caught:
        gemm(a, weight, scale_a=scales, bias=bias)
    assert caught.value.code == "FLY-U914"


def test_what_does_not_fit_is_refused():
    random = np.random.default_rng()
    a, scale_a, _ = codes(random, 4, 256, "fp8")
    b, scale_b, _ = codes(random, 32, 256, "fp4")
    weight = preshuffle_b(b, layout="fp4_16lane", scales=scale_b)
    with config.scope(FLYDSL_TARGET="gfx950"):
        for given, options in (
            (a, {}), (a, {"scale_a": scale_a[:, :4]}), (a.astype(np.float16), {"scale_a": scale_a}),
            (a, {"scale_a": scale_a.astype(np.float32)}),
            (a, {"scale_a": scale_a, "scale_b": np.ones(32, np.float32)}),
        ):  # fmt: skip
            with pytest.raises(FlyDSLError):
                gemm(given, weight, **options)
    with config.scope(FLYDSL_TARGET="gfx942"), pytest.raises(ConfigError, match="do not read"):
        gemm(a, weight, scale_a=scale_a)
