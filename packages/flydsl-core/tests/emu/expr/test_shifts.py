"""Shifts by any count: the same static and at run time, and what Python's give in the width."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

COUNTS = [0, 1, 7, 8, 15, 16, 31, 32, 33, 40, 63, 64, 65, 100, 127]


def wrapped(value, dtype):
    return np.array([value & ((1 << 8 * dtype.itemsize) - 1)], np.uint64).astype(dtype)[0]


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_shifts_by_the_width_or_more(kind):
    dtype = np.dtype(kind)
    rng = np.random.default_rng()
    x = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 64, dtype, endpoint=True)
    x[:3] = np.iinfo(dtype).min, np.iinfo(dtype).max, 1

    @flyc.kernel
    def shift(X: fx.Tensor, S: fx.Tensor, Y: fx.Tensor):
        i = fx.thread_idx.x
        for c in fx.range_constexpr(len(COUNTS)):
            Y[i, c, 0] = X[i] << S[c]
            Y[i, c, 1] = X[i] >> S[c]
            Y[i, c, 2] = X[i] << type(X[i])(COUNTS[c])
            Y[i, c, 3] = X[i] >> type(X[i])(COUNTS[c])

    @flyc.jit
    def launch(X: fx.Tensor, S: fx.Tensor, Y: fx.Tensor):
        shift(X, S, Y).launch(grid=1, block=64)

    y = np.zeros((64, len(COUNTS), 4), dtype)
    launch(x, np.array(COUNTS, dtype), y)
    left = [[wrapped(int(v) << c, dtype) for c in COUNTS] for v in x]
    right = [[wrapped(int(v) >> c, dtype) for c in COUNTS] for v in x]
    for found, expected in zip(np.moveaxis(y, 2, 0), [left, right, left, right], strict=True):
        np.testing.assert_array_equal(found, np.array(expected, dtype))


def test_a_negative_run_time_count_shifts_everything_out():
    @flyc.kernel
    def shift(X: fx.Tensor, n: fx.Int32):
        X[1] = X[0] << n
        X[2] = X[0] >> n

    @flyc.jit
    def launch(X: fx.Tensor, n: fx.Int32):
        shift(X, n).launch(grid=1, block=1)

    x = np.array([-5, 9, 9], np.int32)
    launch(x, -1)
    assert x.tolist() == [-5, 0, -1]
