"""`unroll=` and `unroll_full=` of a run-time ``range`` reach the code generator."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config


@flyc.kernel
def kernel(X: fx.Tensor, n: fx.Int32, wish: fx.Constexpr[str]):
    """A chain of loads that the back end would unroll or not as it likes."""
    value = X[fx.thread_idx.x]
    if wish == "off":
        for _ in range(8, unroll=1):
            value = value * 3 + X[value & 63]
    elif wish == "four":
        for _ in range(n, unroll=4):
            value = value * 3 + X[value & 63]
    elif wish == "full":
        for _ in range(200, unroll_full=True):
            value = value * 3 + X[value & 63]
    else:
        for _ in range(200):
            value = value * 3 + X[value & 63]
    X[fx.thread_idx.x] = value


@flyc.jit
def launch(X: fx.Tensor, n: fx.Int32, wish: fx.Constexpr[str]):
    kernel(X, n, wish).launch(grid=1, block=64)


@pytest.mark.parametrize(
    ("wish", "rounds", "loads"),
    [("off", 8, range(2, 3)), ("four", 11, range(6, 7)), ("full", 200, range(201, 202)),
     ("none", 200, range(2, 200))],
)  # fmt: skip
def test_loads_in_the_code(wish, rounds, loads):
    x = np.arange(64, dtype=np.int32)
    want = x.copy()
    for _ in range(rounds):
        want = want * 3 + x[want & 63]
    compiled = flyc.compile(launch, x.copy(), rounds, wish)
    assert compiled.isa.count("global_load") in loads
    with config.scope(FLYDSL_TARGET="gfx942"):
        launch(x, rounds, wish)
    np.testing.assert_array_equal(x, want)
