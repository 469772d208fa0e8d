"""Shuffles, traced from Python and run: every mode against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope

MASKS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17, 31, 32, 48, 63)
CASES = tuple(
    [("xor", mask, width) for width in (64, 32, 16) for mask in MASKS if mask < width]
    + [
        ("up", 3, 64),
        ("up", 1, 64),
        ("up", 1, 32),
        ("down", 5, 32),
        ("down", 1, 64),
        ("down", 1, 32),
    ]
    + [
        (mode, by, width)
        for mode in ("up", "down")
        for width in (16, 8, 4, 2)
        for by in range(width)
    ]
    + [("idx", 7, 16), ("idx", 40, 64), ("idx", 0, 32), ("idx", 31, 32), ("idx", 5, 8)]
    + [("idx", lane, width) for width in (4, 2) for lane in range(width)]
)


@flyc.kernel
def _shuffles(out: fx.Tensor, wave: fx.Constexpr[int]) -> None:
    lane = fx.thread_idx.x
    cases = [case for case in CASES if case[2] <= wave]
    for number in fx.range_constexpr(len(cases)):
        mode, distance, width = cases[number]
        out[number * 64 + lane] = fx.gpu.shuffle(lane, distance, width, mode)


@flyc.jit
def _launch_shuffles(out: fx.Tensor, wave: fx.Constexpr[int]) -> None:
    _shuffles(out, wave).launch(grid=(1,), block=(64, 1, 1))


@flyc.kernel
def _run_time_shuffle(distances: fx.Tensor, out: fx.Tensor) -> None:
    lane = fx.thread_idx.x
    out[lane] = fx.gpu.shuffle(fx.Float64(lane) * 1.5, distances[0], 64, "xor")


@flyc.jit
def _launch_run_time(distances: fx.Tensor, out: fx.Tensor) -> None:
    _run_time_shuffle(distances, out).launch(grid=(1,), block=(64, 1, 1))


def _source(mode: str, distance: int, width: int) -> Any:
    lane = np.arange(64)
    base = lane & -width
    if mode == "xor":
        return lane ^ distance
    if mode == "up":
        return np.where(lane - distance >= base, lane - distance, lane)
    if mode == "down":
        return np.where(lane + distance < base + width, lane + distance, lane)
    return base | (distance & (width - 1))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def test_constant_distances(arch: str) -> None:
    wave = 64 if arch.startswith("gfx9") else 32
    cases = [case for case in CASES if case[2] <= wave]
    out = np.full(len(cases) * 64, -1, np.int32)
    with scope(FLYDSL_TARGET=arch):
        _launch_shuffles(out, wave)
    for case, row in zip(cases, out.reshape(-1, 64), strict=True):
        assert np.array_equal(row, _source(*case)), case


def test_a_distance_known_at_run_time_and_a_wide_type() -> None:
    with scope(FLYDSL_TARGET="gfx942"):
        for distance in (0, 1, 21, 63):
            out = np.zeros(64)
            _launch_run_time(np.array([distance], np.int32), out)
            assert np.array_equal(out, (np.arange(64) ^ distance) * 1.5)
