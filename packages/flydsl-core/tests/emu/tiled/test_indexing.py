"""Coordinates that do not fit a tensor are refused at the user's line; fitting ones reach it."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import UserIndexError


def view(tensor, shape):
    return fx.make_view(fx.get_iter(tensor), fx.make_ordered_layout(shape, (1, 0)))


REFUSED = {
    "lower rank": lambda t: t[fx.thread_idx.x],
    "lower rank constant": lambda t: t[3],
    "past": lambda t: t[4, 0],
    "past in a slice": lambda t: t[None, 8],
    "past in slice()": lambda t: fx.slice(t, (None, 8)),
    "past as a numeric": lambda t: t[fx.Int32(4), 0],
    "negative": lambda t: t[-1, 0],
    "python slice": lambda t: t[0:2, 0],
    "past in memref_load": lambda t: fx.memref_load(t, (0, 8)),
    "past in registers": lambda _: fx.make_rmem_tensor((4, 2), fx.Float32)[8],
    "past in a tile": lambda t: fx.zipped_divide(t, (2, 4))[None, 4],
}


@flyc.kernel
def index_kernel(X: fx.Tensor, reach: fx.Constexpr[object]):
    reach.use(view(X, (4, 8)))


@flyc.jit
def index(X: fx.Tensor, reach: fx.Constexpr[object]):
    index_kernel(X, reach).launch(grid=1, block=4)


class Reach:
    """Uses a tensor in one way."""

    def __init__(self, name):
        self.name = name

    def use(self, tensor):
        with pytest.raises(UserIndexError, match="FLY-U250"):
            REFUSED[self.name].__call__(tensor)


@pytest.mark.parametrize("name", REFUSED)
def test_coordinates_that_do_not_fit_are_refused(name):
    index(np.zeros((4, 8), np.float32), Reach(name))


@flyc.kernel
def store_kernel(X: fx.Tensor):
    i = fx.thread_idx.x
    t = view(X, (4, 8))
    t[i, 7] = t[i, 0] + 1.0
    tiles = fx.zipped_divide(t, (2, 4))
    tiles[(1, 2), 3] = 5.0  # tiles count down the rows first
    fragment = fx.make_rmem_tensor((2, 2), fx.Float32)
    fragment.fill(2.0)
    fragment[3] = 7.0
    t[i, 1] = fragment[1, 1]


@flyc.jit
def store(X: fx.Tensor):
    store_kernel(X).launch(grid=1, block=4)


def test_coordinates_reach_their_elements():
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    expected = x.copy()
    expected[:, 7] = expected[:, 0] + 1
    expected[:, 1] = 7
    expected[3, 6] = 5
    store(x)
    np.testing.assert_array_equal(x, expected)
