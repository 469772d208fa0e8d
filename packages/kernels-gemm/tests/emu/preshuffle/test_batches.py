"""Batches and distances of products with E8M0 scales against float64; gaps stay as they were."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flydsl.config import scope
from flydsl.errors import ConfigError, UserValueError
from flydsl_kernels.gemm.device.preshuffle.launch import launch_gemm
from flydsl_rocdl.kernels.preshuffle import pack_fp4, preshuffle_b, preshuffle_scales

N, K = 160, 512
OUT = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}
TILE: dict[str, Any] = {"N": N, "K": K, "tile_m": 32, "tile_n": 128, "tile_k": 256}
CHECKS = "wait,race,oob,barrier"


def _values(random: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return fp4 codes (…, K) and E8M0 scales, and the numbers that they are together."""
    codes = random.integers(0, 16, shape).astype(np.uint8)
    scales = random.integers(120, 132, (*shape[:-1], K // 32)).astype(np.uint8)
    wide = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    return (codes, scales), wide * np.repeat(2.0 ** (scales.astype(np.float64) - 127), 32, axis=-1)


def _weights(random: Any, batch: int) -> tuple[Any, Any, Any]:
    (codes, scales), wide = _values(random, (batch, N, K))
    found = preshuffle_b(pack_fp4(codes), layout="fp4_16lane", dtype="float4_e2m1fn", scales=scales)
    return found.data, found.scales, wide


def _scattered(
    matrices: list[Any], row: int, batch: int, fill: int, offset: int = 0
) -> tuple[Any, Any]:
    """Return memory with rows of bytes at their distances, and where there are any."""
    rows, width = matrices[0].shape
    size = offset + (len(matrices) - 1) * batch + (rows - 1) * row + width
    memory, used = np.full(size, fill, np.uint8), np.zeros(size, bool)
    for number, matrix in enumerate(matrices):
        for index, values in enumerate(matrix):
            at = offset + number * batch + index * row
            assert not used[at : at + width].any()
            memory[at : at + width], used[at : at + width] = values, True
    return memory, used


@pytest.mark.parametrize("between", [False, True], ids=["after", "between"])
@pytest.mark.parametrize(
    ("m", "batch", "out"), [(33, 3, "f32"), (1, 2, "bf16"), (64, 1, "bf16")], ids=str
)
def test_gaps(m: int, batch: int, out: str, between: bool) -> None:
    """Matrices lie one after the other or row by row in turn, with gaps in all of them.

    The gaps of A hold codes of the largest number and those of its scales NaN, so nothing of them
    may be multiplied.
    """
    random = np.random.default_rng([m, batch, between])
    (codes, scales), wide_a = _values(random, (batch, m, K))
    weights, scale_b, wide_b = _weights(random, batch)
    half, size, rows = K // 2, np.dtype(OUT[out]).itemsize, -(-m // 32) * 32
    a_row, c_row = half + 20, N + 6
    a_batch, c_batch = m * a_row + 12, m * c_row + 10
    if between:
        a_row, a_batch, c_row, c_batch = batch * a_row, a_row, batch * c_row, c_row
    packed = pack_fp4(codes)
    a, _ = _scattered(list(packed), a_row, a_batch, 0x77)
    padded = np.full((batch, rows, K // 32), 127, np.uint8)
    padded[:, :m] = scales
    blocks = [preshuffle_scales(part).reshape(-1, K) for part in padded]
    sca_row = K // 32 + 3
    sca_batch = rows * sca_row + 8
    sca, _ = _scattered(blocks, 32 * sca_row, sca_batch, 255)
    sca = np.concatenate([sca, np.full(96, 255, np.uint8)])
    c = np.full((batch - 1) * c_batch + (m - 1) * c_row + N, np.nan, OUT[out])
    with scope(FLYDSL_TARGET="gfx950", FLYDSL_SANITIZE=CHECKS):
        launch_gemm(
            c, a, weights, sca, scale_b, m, batch=batch, a_row_stride=a_row,
            a_batch_stride=a_batch, sca_row_stride=sca_row, sca_batch_stride=sca_batch,
            c_row_stride=c_row, c_batch_stride=c_batch, out_dtype=out, **TILE,
        )  # fmt: skip
    exact = wide_a @ wide_b.transpose(0, 2, 1)
    tolerance = (K + 8) * 2.0**-24 * (np.abs(wide_a) @ np.abs(wide_b).transpose(0, 2, 1))
    tolerance += (2.0**-8 if out == "bf16" else 2.0**-23) * np.abs(exact)
    written = np.zeros(c.shape, bool)
    for layer in range(batch):
        for row in range(m):
            at = slice(layer * c_batch + row * c_row, layer * c_batch + row * c_row + N)
            found = c[at].astype(np.float64)
            assert np.all(np.abs(found - exact[layer, row]) <= tolerance[layer, row])
            written[at] = True
    assert size == c.itemsize
    assert np.isnan(c[~written].astype(np.float64)).all()


def test_a_batch_without_gaps_may_share_one_a() -> None:
    random = np.random.default_rng(7)
    m, batch = 34, 2
    (codes, scales), wide_a = _values(random, (m, K))
    weights, scale_b, wide_b = _weights(random, batch)
    whole = np.full((64, K // 32), 127, np.uint8)
    whole[:m] = scales
    c = np.full((batch, m, N), np.nan, np.float32)
    with scope(FLYDSL_TARGET="gfx950", FLYDSL_SANITIZE=CHECKS):
        launch_gemm(c, pack_fp4(codes), weights, preshuffle_scales(whole), scale_b, m, batch=batch,
                    a_batch_stride=0, sca_batch_stride=0, out_dtype="f32", **TILE)  # fmt: skip
    exact = wide_a @ wide_b.transpose(0, 2, 1)
    size = np.abs(wide_a) @ np.abs(wide_b).transpose(0, 2, 1)
    assert np.all(np.abs(c - exact) <= (K + 8) * 2.0**-24 * size)


WRONG = [
    {"a_row_stride": K // 2 - 4}, {"a_row_stride": K // 2 + 2}, {"c_row_stride": N - 2},
    {"c_batch_stride": N}, {"sca_row_stride": 1}, {"sca_batch_stride": 6}, {"batch": -1},
    {"c_row_stride": N + 1}, {"c_row_stride": 2**30},
]  # fmt: skip


def _launch(**options: Any) -> None:
    codes, scales = np.zeros((2, N, K // 2), np.uint8), np.zeros((2, N, K // 32), np.uint8)
    c = np.zeros((2, 33, N), ml_dtypes.bfloat16)
    with scope(FLYDSL_TARGET="gfx950"):
        launch_gemm(c, codes[:, :33].copy(), codes, scales[:, :64].copy(), scales, 33,
                    **{**TILE, "batch": 2, **options})  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_distances_that_do_not_go_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError) as caught:
        _launch(**wrong)
    assert caught.value.code == "FLY-C930"


@pytest.mark.parametrize(
    "wrong", [{"batch": 3}, {"a_row_stride": 512}, {"out_dtype": "f32"}, {"c_row_stride": 512}],
    ids=str,
)  # fmt: skip
def test_arrays_that_end_before_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserValueError) as caught:
        _launch(**wrong)
    assert caught.value.code == "FLY-U911"
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
