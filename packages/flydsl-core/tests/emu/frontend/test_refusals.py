"""Mistakes that would be silent, endless or obscure are refused at the user's line."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import UserError


def refused(launcher, *arguments, line):
    """Return the message of the error that a call raises, which must show `line`."""
    with pytest.raises(UserError) as caught:
        launcher(*arguments)
    text = str(caught.value)
    assert line in text, text
    return text


@flyc.kernel
def ones(X: fx.Tensor):
    X[fx.thread_idx.x] = 1.0


def test_a_kernel_that_is_called_but_not_launched():
    @flyc.jit
    def launch(X: fx.Tensor):
        ones(X).launch(grid=1, block=64)
        ones(X)

    text = refused(launch, np.zeros(64, np.float32), line="|         ones(X)\n")
    assert "not launched" in text


def test_a_launcher_kept_for_later_is_no_mistake():
    @flyc.jit
    def launch(X: fx.Tensor, n: fx.Int32):
        bound = ones(X)
        for _ in range(2):
            bound.launch(grid=n, block=64)

    x = np.zeros(64, np.float32)
    launch(x, 1)
    assert (x == 1).all()


def test_a_while_loop_that_never_ends_while_tracing():
    @flyc.kernel
    def endless(X: fx.Tensor):
        n = 0
        while n < 5:
            X[n] = 2.0

    @flyc.jit
    def launch(X: fx.Tensor):
        endless(X).launch(grid=1, block=64)

    # Every iteration emits operations, so fewer of them show the same.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flydsl.frontend.runtime._MAX_ITERATIONS", 100)
        text = refused(launch, np.zeros(64, np.float32), line="while n < 5")
    assert "still holds" in text


def test_a_while_loop_on_compile_time_values_ends():
    @flyc.kernel
    def counted(X: fx.Tensor):
        n = 0
        while n < 5:
            X[n] = 2.0
            n += 1

    @flyc.jit
    def launch(X: fx.Tensor):
        counted(X).launch(grid=1, block=64)

    x = np.zeros(64, np.float32)
    launch(x)
    assert x.tolist() == [2.0] * 5 + [0.0] * 59


def test_storing_a_variable_that_only_one_arm_assigns():
    @flyc.kernel
    def kernel(X: fx.Tensor):
        t = fx.thread_idx.x
        if t < 3:
            v = 1.0
        X[t] = v

    @flyc.jit
    def launch(X: fx.Tensor):
        kernel(X).launch(grid=1, block=64)

    text = refused(launch, np.zeros(64, np.float32), line="X[t] = v")
    assert "'v' has no value here" in text


def test_values_kept_over_the_end_of_a_trace():
    kept = {}

    def twice():
        if "value" not in kept:
            kept["value"] = fx.thread_idx.x * 2
        return kept["value"]

    @flyc.kernel
    def kernel(X: fx.Tensor):
        X[twice()] = 1.0

    @flyc.jit
    def launch(X: fx.Tensor):
        kernel(X).launch(grid=1, block=4)

    x = np.zeros(8, np.float32)
    launch(x)
    assert x.tolist() == [1, 0] * 4
    # Traced again, for another kind of argument: the kept value refers to what is gone.
    text = refused(launch, np.zeros(8, np.float64), line="X[twice()] = 1.0")
    assert "another trace or another kernel" in text


def test_values_of_one_kernel_used_in_another():
    kept = []

    @flyc.kernel
    def first(X: fx.Tensor):
        kept.append((fx.thread_idx.x + 1, X[0], fx.Vector([X[0], X[1]]), X))
        X[0] = 1.0

    @flyc.kernel
    def second(X: fx.Tensor, which: fx.Constexpr[int]):
        value = kept[0][which]
        if which == 0:
            X[value] = 2.0
        elif which == 1:
            X[0] = value + 1.0
        elif which == 2:
            X[0] = (value + value)[0]
        else:
            X[0] = value[0]

    @flyc.jit
    def launch(X: fx.Tensor, which: fx.Constexpr[int]):
        first(X).launch(grid=1, block=1)
        second(X, which).launch(grid=1, block=1)

    for which in range(4):
        kept.clear()
        with pytest.raises(UserError, match="another trace or another kernel"):
            launch(np.zeros(8, np.float32), which)
