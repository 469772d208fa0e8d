"""Tiled operations and their slices through run-time control flow."""

from __future__ import annotations

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def carried_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    thread = fx.thread_idx.x
    copy = fx.make_tiled_copy_tv(
        fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32),
        fx.make_layout((8, 8), (8, 1)),
        fx.make_layout((1, 1), (1, 1)),
    )
    share = copy.get_slice(thread)
    tiles = fx.zipped_divide(X, (8, 8))
    total = fx.make_rmem_tensor(1, fx.Float32)
    total.fill(0.0)
    for k in range(n):
        if k % 2 == 0:
            share = copy.get_slice(thread)
        else:
            share = copy.get_slice(63 - thread)
        part = share.partition_S(tiles[None, (0, k)])
        fragment = fx.make_fragment_like(part)
        fx.copy(copy, part, fragment)
        total.store(total.load() + fx.make_view(fragment.iter, fx.make_layout(1, 1)).load())
    Y[thread] = total[0]


@flyc.jit
def carried(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    carried_kernel(X, Y, n).launch(grid=1, block=64)


def test_a_slice_is_carried_by_its_thread_number(each_target):
    x = np.random.default_rng(1).standard_normal((8, 40)).astype(np.float32)
    y = np.zeros(64, np.float32)
    carried(x, y, 5)
    expected = np.zeros(64, np.float32)
    for k in range(5):
        tile = x[:, 8 * k : 8 * k + 8].reshape(-1)
        expected += tile if k % 2 == 0 else tile[::-1]
    np.testing.assert_array_equal(y, expected)


@flyc.kernel
def chosen_kernel(X: fx.Tensor, Y: fx.Tensor, flip: fx.Int32):
    """The fragment of one arm or the other, multiplied in registers."""
    thread = fx.thread_idx.x
    mma = fx.make_tiled_mma(fx.UniversalFMA(fx.Float32), fx.make_layout((8, 8, 1), (8, 1, 0)))
    view = fx.make_view(X.iter, fx.make_layout((8, 8), (8, 1)))
    a, b = mma.make_fragment_A(view), mma.make_fragment_B(view)
    c = mma.make_fragment_C(view)
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    share = mma.get_slice(thread)
    fx.copy(atom, share.partition_A(view), a)
    fx.copy(atom, share.partition_B(view), b)
    c.fill(0.0)
    if flip > 0:
        fx.gemm(mma, c, a, b, c)
    else:
        c.fill(1.0)
    while flip > 1:
        fx.gemm(mma, c, a, b, c)
        flip = flip - 1
    fx.copy(atom, c, share.partition_C(fx.make_view(Y.iter, fx.make_layout((8, 8), (8, 1)))))


@flyc.jit
def chosen(X: fx.Tensor, Y: fx.Tensor, flip: fx.Int32):
    chosen_kernel(X, Y, flip).launch(grid=1, block=64)


def test_fragments_cross_branches_and_loops(each_target):
    x = np.random.default_rng(2).integers(-3, 4, (8, 8)).astype(np.float32)
    for flip in (0, 1, 3):
        y = np.zeros_like(x)
        chosen(x, y, flip)
        np.testing.assert_array_equal(y, flip * (x @ x.T) if flip else np.ones_like(x))
