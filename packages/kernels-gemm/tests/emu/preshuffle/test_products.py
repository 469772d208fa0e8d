"""Products with preshuffled weights against float64 of the same inputs, under the sanitizer."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import flydsl_emu
from flydsl.config import scope
from flydsl.errors import ConfigError
from flydsl_kernels.gemm.device.preshuffle.launch import compile_preshuffle_gemm
from flydsl_rocdl.kernels.preshuffle import preshuffle_b

OUT = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16, "f32": np.float32}
EPS = {"bf16": 2.0**-8, "fp16": 2.0**-11, "f32": 2.0**-23}
CHECKS = "wait,race,oob,barrier"
FOUR_BITS = ("int4", "bf16_int4", "fp16_int4")


@dataclass(frozen=True)
class Case:
    """One product: types, extents, tile and options."""

    dtype: str
    shape: tuple[int, int, int]
    tile: tuple[int, int, int]
    epilogue: str = "none"
    out: str = "bf16"
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        numbers = "x".join(map(str, (*self.shape, *self.tile)))
        return f"{self.dtype}-{numbers}-{self.epilogue}-{self.out}"


def _raw(array: Any) -> Any:
    return array.view(np.uint8) if array.itemsize == 1 else array


def _numbers(random: Any, shape: tuple[int, ...], kind: Any) -> Any:
    if kind is np.int8:
        return random.integers(-127, 128, shape).astype(np.int8)
    return random.standard_normal(shape).astype(kind)


def _operands(case: Case, arch: str) -> tuple[Any, Any, Any]:
    """Return A, B and the preshuffled B."""
    random = np.random.default_rng(zlib.crc32(f"{case} {arch}".encode()))
    m, n, k = case.shape
    eight = ml_dtypes.float8_e4m3fnuz if arch == "gfx942" else ml_dtypes.float8_e4m3fn
    kind = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16, "fp8": eight}.get(
        case.dtype.split("_", maxsplit=1)[0], np.int8
    )
    a = _numbers(random, (m, k), kind)
    if case.dtype in FOUR_BITS:
        b = random.integers(-8, 8, (n, k)).astype(np.int8)
        return a, b, preshuffle_b(b, layout="int4_packed", dtype="int4").data
    b = _numbers(random, (n, k), kind)
    return a, b, _raw(preshuffle_b(b, arch=arch).data)


def _after(epilogue: str, x: Any, bias: Any) -> Any:
    """Return the float64 result of an epilogue."""
    if epilogue == "none":
        return x
    x = x + bias
    if epilogue.endswith("relu"):
        return np.maximum(x, 0)
    if epilogue.endswith("silu"):
        return x / (1 + np.exp(np.minimum(-x, 700)))
    if epilogue.endswith("gelu"):
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x


def check(case: Case, arch: str) -> None:
    """Run a case, and compare; rows past M must stay as they were."""
    m, n, k = case.shape
    a, b, weights = _operands(case, arch)
    random = np.random.default_rng(1)
    scale_a = random.uniform(0.01, 0.02, m).astype(np.float32)
    scale_b = random.uniform(0.5, 1, n).astype(np.float32)
    bias = random.standard_normal(n).astype(OUT[case.out])
    c = np.full((m + 3, n), np.nan, OUT[case.out])
    with scope(FLYDSL_TARGET=arch, FLYDSL_SANITIZE=CHECKS):
        launcher = compile_preshuffle_gemm(
            N=n, K=k, tile_m=case.tile[0], tile_n=case.tile[1], tile_k=case.tile[2],
            in_dtype=case.dtype, out_dtype=case.out, epilogue=case.epilogue, **dict(case.options),
        )  # fmt: skip
        launcher(c[:m], _raw(a), weights, scale_a, scale_b, bias, m, n, None)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    exact, size = wide_a @ wide_b.T, np.abs(wide_a) @ np.abs(wide_b).T
    if case.dtype not in ("bf16", "fp16"):
        scale = scale_a[:, None].astype(np.float64) * scale_b[None]
        exact, size = exact * scale, size * scale
    wanted = _after(case.epilogue, exact, bias.astype(np.float64))
    found = c[:m].astype(np.float64)
    # One rounding of the result; K additions in f32, each of at most all magnitudes (activations
    # have slopes of at most 1.13); a few roundings of the epilogue.
    tolerance = EPS[case.out] * np.abs(wanted) + (k + 8) * 2.0**-24 * 1.13 * size
    tolerance += 2e-6 * (1 + np.abs(wanted))
    assert np.all(np.abs(found - wanted) <= tolerance)
    assert np.isnan(c[m:].astype(np.float64)).all()


def _cases(dtype: str) -> list[Case]:
    k = 64 if dtype.split("_", maxsplit=1)[0] in ("bf16", "fp16") else 128
    half = k if dtype in ("bf16_int4", "fp16_int4") else k // 2
    order = ("xcd_swizzle", 2)
    return [
        Case(dtype, (33, 64, 3 * k + half), (32, 64, k)),
        Case(dtype, (17, 80, 4 * k), (16, 128, 2 * k), "bias", "f32"),
        Case(dtype, (112, 144, half), (64, 64, k), "bias_gelu", "fp16"),
        Case(dtype, (1, 64, 2 * k), (32, 64, k), "bias_relu", "bf16", (order, ("lds_stage", 1))),
        Case(dtype, (129, 192, 5 * k), (32, 64, k), "bias_silu", "bf16",
             (order, ("enable_scheduler", False))),
    ]  # fmt: skip


CASES = [case for dtype in ("bf16", "fp8", "int8", *FOUR_BITS[:2]) for case in _cases(dtype)]
MORE = [
    Case("fp16", (16, 64, 128), (32, 64, 64)),
    Case("bf16", (64, 256, 320), (64, 256, 128)),
    Case("fp8", (129, 256, 320), (128, 256, 128), "bias"),
    Case("int8", (64, 320, 192), (64, 256, 128)),
    Case("fp8", (16, 64, 1024), (16, 64, 512)),
    Case("bf16", (33, 64, 1056), (32, 64, 512)),
]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("case", [*CASES[::2], *MORE], ids=str)
def test_products(case: Case, arch: str) -> None:
    check(case, arch)


@pytest.mark.nightly
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("case", [*CASES[1::2], *_cases("fp16"), *_cases("fp16_int4")], ids=str)
def test_more_products(case: Case, arch: str) -> None:
    check(case, arch)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize(("dtype", "tile_k"), [("bf16", 64), ("fp8", 128), ("int8", 256)])
def test_local_data_share_has_no_bank_conflicts(arch: str, dtype: str, tile_k: int) -> None:
    with flydsl_emu.collect() as reports:
        check(Case(dtype, (64, 128, 2 * tile_k), (64, 128, tile_k)), arch)
    traffic = [t for t in reports[0].traffic if t.space == "lds"]
    assert {t.direction for t in traffic} == {"read", "write"}
    assert all(t.conflict_ratio == 1.0 for t in traffic)


DIRECT = (("use_async_copy", True),)
STRAIGHT = [
    Case("bf16", (33, 64, 224), (32, 64, 64), options=DIRECT),
    Case("fp8", (129, 192, 512), (64, 128, 128), "bias", options=DIRECT),
    Case("int8", (64, 128, 1024), (64, 128, 256), options=(*DIRECT, ("enable_scheduler", False))),
    Case("bf16", (33, 64, 1056), (32, 64, 512), options=DIRECT),
]


@pytest.mark.parametrize("case", STRAIGHT, ids=str)
def test_a_comes_straight_into_local_data_share(case: Case) -> None:
    with flydsl_emu.collect() as reports:
        check(case, "gfx950")
    texts = [a.text for a in reports[0].accesses if a.executions]
    assert any(text.startswith("buffer_load") and "lds" in text for text in texts)
    assert not any(t.conflict_ratio > 1 for t in reports[0].traffic if t.space == "lds")


def test_architectures_without_wide_loads_into_local_data_share_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        check(Case("bf16", (33, 64, 128), (32, 64, 64), options=DIRECT), "gfx942")
    assert caught.value.code == "FLY-C932"
    assert "gfx950" in str(caught.value.allowed)


def test_numbers_past_the_end_are_not_multiplied() -> None:
    """NaN around A, in the rows past M and behind the last column, stays out."""
    random = np.random.default_rng(2)
    whole = np.full((40, 96), np.nan, ml_dtypes.bfloat16).reshape(-1)
    a = whole[: 17 * 96].reshape(17, 96)
    a[...] = random.standard_normal(a.shape)
    b = random.standard_normal((64, 96)).astype(ml_dtypes.bfloat16)
    c, scale = np.zeros((17, 64), np.float32), np.ones(64, np.float32)
    with scope(FLYDSL_TARGET="gfx942", FLYDSL_SANITIZE=CHECKS):
        launcher = compile_preshuffle_gemm(
            N=64, K=96, tile_m=32, tile_n=64, tile_k=64, in_dtype="bf16", out_dtype="f32"
        )
        launcher(c, a, preshuffle_b(b).data, scale, scale, scale, 17, 64, None)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.allclose(c, exact, rtol=0, atol=1e-4)
