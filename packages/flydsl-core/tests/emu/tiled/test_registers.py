"""Register tensors that are stored from their own values, through loops that they start."""

from __future__ import annotations

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def rounds_kernel(X: fx.Tensor, Out: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    fragment = fx.make_rmem_tensor(4, fx.Int32)
    fragment.fill(X[i])
    fragment.store(fragment.load())
    total = fragment[0]  # a register value starts what the loop carries
    for k in range(fragment[1], n):
        fragment.store(fragment.load() + k)
        total = total + fragment[1]
        while total > 1000:
            fragment[2] = fragment[2] + 1
            total = total - 500
    Out[i] = total + fragment[2] * 1000


@flyc.jit
def rounds(X: fx.Tensor, Out: fx.Tensor, n: fx.Int32):
    rounds_kernel(X, Out, n).launch(grid=1, block=64)


def reference(x: int, n: int) -> int:
    fragment = [x] * 4
    total = x
    for k in range(x, n):
        fragment = [v + k for v in fragment]
        total += fragment[1]
        while total > 1000:
            fragment[2] += 1
            total -= 500
    return total + fragment[2] * 1000


def test_registers_feed_loops_and_themselves(each_target):
    x, out = np.arange(64, dtype=np.int32) % 13, np.zeros(64, np.int32)
    rounds(x, out, 20)
    np.testing.assert_array_equal(out, [reference(int(v), 20) for v in x])
