"""Products of floats of 8, 6 and 4 bits with E8M0 scales against float64, under the sanitizer."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import flydsl_emu
from flydsl.config import scope
from flydsl.errors import ConfigError, TargetError
from flydsl_kernels.gemm.device.preshuffle.launch import compile_mx_gemm, launch_gemm
from flydsl_rocdl.kernels.preshuffle import pack_fp4, pack_fp6, preshuffle_b, preshuffle_scales

ARCH = "gfx950"
KINDS: dict[str, tuple[Any, int]] = {
    "fp4": (ml_dtypes.float4_e2m1fn, 4),
    "fp6": (ml_dtypes.float6_e2m3fn, 6),
    "fp8": (ml_dtypes.float8_e4m3fn, 8),
}
TYPES = [("fp4", "fp4"), ("fp6", "fp4"), ("fp8", "fp8"), ("fp8", "fp4")]
SHAPES = [((33, 128, 512), (32, 128, 256)), ((70, 160, 768), (64, 128, 128)),
          ((1, 128, 768), (32, 128, 512))]  # fmt: skip


def _codes(random: Any, rows: int, k: int, name: str) -> tuple[Any, Any]:
    """Return random codes, one per byte, and their values; none is NaN."""
    kind, bits = KINDS[name]
    codes = random.integers(0, 2**bits, (rows, k)).astype(np.uint8)
    if name == "fp8":
        codes[(codes & 0x7F) == 0x7F] = 0x38
    return codes, codes.view(kind).astype(np.float64)


def _packed(codes: Any, name: str) -> Any:
    return {"fp4": pack_fp4, "fp6": pack_fp6}.get(name, lambda x: x)(codes)


def _exponents(random: Any, rows: int, k: int) -> tuple[Any, Any]:
    """Return E8M0 scales of blocks, and what each element is multiplied by."""
    scales = random.integers(118, 134, (rows, k // 32)).astype(np.uint8)
    return scales, np.repeat(2.0 ** (scales.astype(np.float64) - 127), 32, axis=1)


def _check(types: tuple[str, str], shape: tuple[int, int, int], tile: tuple[int, int, int]) -> None:
    m, n, k = shape
    random = np.random.default_rng([m, n, k, *map(ord, types[0] + types[1])])
    (a, wide_a), (b, wide_b) = _codes(random, m, k, types[0]), _codes(random, n, k, types[1])
    scale_a, times_a = _exponents(random, -(-m // 32) * 32, k)
    scale_b, times_b = _exponents(random, n, k)
    layout, dtype = {"fp4": ("fp4_16lane", "float4_e2m1fn"), "fp8": ("16x16", "float8_e4m3fn")}[
        types[1]
    ]
    weights = preshuffle_b(_packed(b, types[1]), layout=layout, dtype=dtype, scales=scale_b)
    c = np.full((m + 2, n), np.nan, np.float32)
    with scope(FLYDSL_TARGET=ARCH, FLYDSL_SANITIZE="wait,race,oob,barrier"):
        launch_gemm(
            c[:m], _packed(a, types[0]), weights.data.view(np.uint8), preshuffle_scales(scale_a),
            weights.scales, m, n, K=k, tile_m=tile[0], tile_n=tile[1], tile_k=tile[2],
            a_dtype=types[0], b_dtype=types[1], out_dtype="f32",
        )  # fmt: skip
    wide_a, wide_b = wide_a * times_a[:m], wide_b * times_b
    error = np.abs(c[:m] - wide_a @ wide_b.T)
    assert np.all(error <= (k + 8) * 2.0**-24 * (np.abs(wide_a) @ np.abs(wide_b).T))
    assert np.isnan(c[m:]).all()


@pytest.mark.parametrize("types", TYPES, ids="x".join)
@pytest.mark.parametrize(("shape", "tile"), SHAPES, ids=str)
def test_products(
    types: tuple[str, str], shape: tuple[int, int, int], tile: tuple[int, int, int]
) -> None:
    _check(types, shape, tile)


def test_the_tile_of_the_benchmark_has_no_bank_conflicts() -> None:
    with flydsl_emu.collect() as reports:
        _check(("fp4", "fp4"), (112, 256, 1024), (64, 256, 256))
    assert all(t.conflict_ratio == 1.0 for t in reports[0].traffic if t.space == "lds")


@pytest.mark.parametrize(
    "wrong",
    [
        {"K": 384}, {"N": 144}, {"tile": (16, 128, 256)}, {"tile": (64, 64, 256)},
        {"tile": (64, 128, 64)}, {"a_dtype": "fp4", "b_dtype": "fp8"}, {"a_dtype": "bf16"},
    ],
    ids=str,
)  # fmt: skip
def test_what_has_no_whole_scale_words_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_mx_gemm(**{"N": 256, "K": 512, **wrong})
    assert caught.value.code == "FLY-C930"


def test_architectures_without_scaled_instructions_are_refused() -> None:
    c = np.zeros((32, 128), np.float32)
    codes, scales = np.zeros((128, 128), np.uint8), np.zeros((128, 8), np.uint8)
    with scope(FLYDSL_TARGET="gfx942"), pytest.raises(TargetError) as caught:
        launch_gemm(c, codes[:32], codes, scales[:32], scales, 32, 128, K=256, tile_m=32,
                    tile_n=128, tile_k=256, out_dtype="f32")  # fmt: skip
    assert caught.value.code == "FLY-T634"
