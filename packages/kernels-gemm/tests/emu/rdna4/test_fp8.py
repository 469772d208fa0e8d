"""Products of 8-bit floats on RDNA4 with preshuffled weights against float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flydsl.config import scope
from flydsl.errors import ConfigError, TargetError, UserValueError
from flydsl_kernels.gemm import compile_fp8_gemm, gemm, preshuffle_b

FP8, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16
CHECKS = "wait,race,oob,barrier"


def _operands(m: int, n: int, k: int) -> tuple[Any, ...]:
    """Return A, B, the preshuffled B, scales, and the exact product and the size of its terms."""
    random = np.random.default_rng([m, n, k])
    a, b = (random.standard_normal((rows, k)).astype(FP8) for rows in (m, n))
    scales = [random.uniform(0.5, 2, rows).astype(np.float32) for rows in (m, n)]
    wide = [
        x.astype(np.float64) * s[:, None].astype(np.float64)
        for x, s in zip((a, b), scales, strict=True)
    ]
    exact, size = wide[0] @ wide[1].T, np.abs(wide[0]) @ np.abs(wide[1]).T
    return a, preshuffle_b(b, layout="rdna4_fp8"), *scales, exact, size


def _near(found: Any, exact: Any, size: Any, k: int, eps: float) -> bool:
    error = np.abs(found.astype(np.float64) - exact)
    return bool(np.all(error <= eps * np.abs(exact) + (k + 8) * 2.0**-24 * size))


@pytest.mark.parametrize(
    ("shape", "tile", "unroll"),
    [
        ((32, 128, 128), (32, 128, 32), None), ((32, 256, 256), (32, 128, 32), 4),
        ((33, 80, 96), (32, 64, 32), 1), ((70, 144, 320), (64, 128, 64), 3),
        ((1, 16, 32), (16, 32, 32), None), ((112, 96, 64), (16, 32, 64), 8),
    ],
    ids=str,
)  # fmt: skip
def test_products(shape: tuple[int, int, int], tile: tuple[int, int, int], unroll: Any) -> None:
    m, n, k = shape
    a, weights, scale_a, scale_b, exact, size = _operands(m, n, k)
    c = np.full((m + 2, n), np.nan, BF16)
    with scope(FLYDSL_TARGET="gfx1201", FLYDSL_SANITIZE=CHECKS):
        launch = compile_fp8_gemm(M=m, N=n, K=k, tile_m=tile[0], tile_n=tile[1], tile_k=tile[2],
                                  k_unroll=unroll, group_m=2)  # fmt: skip
        launch(c[:m], a.view(np.uint8), weights.data.view(np.uint8), scale_a, scale_b, None)
    assert _near(c[:m], exact, size, k, 2.0**-8)
    assert np.isnan(c[m:].astype(np.float64)).all()


@pytest.mark.parametrize("out", ["bfloat16", "float32", "float16"])
def test_gemm_takes_the_layout(out: str) -> None:
    m, n, k = 37, 144, 96
    a, weights, scale_a, scale_b, exact, size = _operands(m, n, k)
    bias = np.random.default_rng(3).standard_normal(n).astype(np.float32)
    with scope(FLYDSL_TARGET="gfx1201", FLYDSL_SANITIZE=CHECKS):
        c = gemm(a, weights, scale_a=scale_a, scale_b=scale_b, bias=bias, activation="relu",
                 out_dtype=out)  # fmt: skip
    eps = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-22}[out]
    wanted = np.maximum(exact + bias.astype(np.float64), 0)
    assert _near(c, wanted, size + np.abs(bias), k, eps)


WRONG = [
    {"M": 0}, {"N": 24}, {"K": 48}, {"K": 0}, {"tile_m": 24}, {"tile_n": 48}, {"tile_k": 16},
    {"k_unroll": 0}, {"k_unroll": 9}, {"group_m": -1}, {"tile_m": 128, "tile_n": 256},
    {"tile_k": 512, "K": 512}, {"K": 2**29},
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_numbers_that_the_kernel_cannot_do_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_fp8_gemm(**{"M": 32, "N": 128, "K": 128, **wrong})
    assert caught.value.code == "FLY-C930"


def _launch(c: Any, a: Any, weights: Any, sa: Any, sb: Any, target: str) -> None:
    with scope(FLYDSL_TARGET=target):
        compile_fp8_gemm(M=32, N=128, K=64)(c, a, weights, sa, sb, None)


def _plain() -> dict[str, Any]:
    codes, ones = np.zeros((128, 64), np.uint8), np.ones(128, np.float32)
    return {"c": np.zeros((32, 128), BF16), "a": codes[:32], "weights": codes, "sa": ones[:32],
            "sb": ones, "target": "gfx1201"}  # fmt: skip


@pytest.mark.parametrize("target", ["gfx950", "gfx1100"])
def test_other_architectures_are_refused(target: str) -> None:
    with pytest.raises(TargetError) as caught:
        _launch(**{**_plain(), "target": target})
    assert caught.value.code == "FLY-T910"
    assert "gfx1201" in str(caught.value.allowed)


@pytest.mark.parametrize(
    "wrong",
    [
        {"c": np.zeros((32, 64), BF16)}, {"a": np.zeros((31, 64), np.uint8)},
        {"a": np.zeros((32, 128), np.uint8)}, {"weights": np.zeros((128, 128), np.uint8)},
        {"sa": np.ones(31, np.float32)}, {"sb": np.ones(128, np.float64)},
    ],
    ids=lambda w: next(iter(w)),
)  # fmt: skip
def test_arrays_of_other_sizes_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserValueError) as caught:
        _launch(**{**_plain(), **wrong})
    assert caught.value.code == "FLY-U911"
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


def test_the_layout_is_refused_where_it_is_not_read() -> None:
    a, weights, *_ = _operands(16, 32, 64)
    for target in ("gfx950", "gfx1100"):
        with scope(FLYDSL_TARGET=target), pytest.raises(ConfigError):
            gemm(a, weights)
