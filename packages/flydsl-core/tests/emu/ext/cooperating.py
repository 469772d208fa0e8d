"""Running functions of all threads of a block, for tests of `flydsl.ext.coop`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx


def number():
    """Return the thread's number in its block, x fastest."""
    block = fx.known_block_size()
    return fx.thread_idx.x + block[0] * (fx.thread_idx.y + block[1] * fx.thread_idx.z)


def run(body: Callable, block, x: np.ndarray, *shape, dtype=None) -> np.ndarray:
    """Run ``body(X, Y, thread)`` in one block; return what it left in Y.

    Args:
        body: The function.
        block: Block size.
        x: Contents of X.
        shape: Shape of Y.
        dtype: Element type of Y; default: that of X.
    """

    @flyc.kernel
    def kernel(X: fx.Tensor, Y: fx.Tensor):
        body(X, Y, number())

    @flyc.jit
    def launch(X: fx.Tensor, Y: fx.Tensor):
        kernel(X, Y).launch(grid=1, block=block)

    y = np.zeros(shape, dtype or x.dtype)
    launch(x, y)
    return y
