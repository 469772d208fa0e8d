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
