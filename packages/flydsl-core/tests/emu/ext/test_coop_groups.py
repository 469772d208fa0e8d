"""Reductions of groups of a block, and of values of several structures after each other."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.errors import UserError
from flydsl.ext import coop

flydsl_emu = pytest.importorskip("flydsl_emu")


@pytest.fixture(params=["gfx942", "gfx1201"])
def target(request):
    """Compile for waves of 64 and of 32 lanes, with the sanitizer."""
    with config.scope(FLYDSL_TARGET=request.param), flydsl_emu.sanitize("race,init,barrier"):
        yield request.param


def later(a, b):
    """Return the second value: associative, and the order matters."""
    del a
    return b


LARGER = coop.Operation("larger", fx.maxnumf, True)


@flyc.kernel
def groups_kernel(X: fx.Tensor, Y: fx.Tensor, width: fx.Constexpr[int]):
    t = fx.thread_idx.x
    Y[0, t] = coop.block_reduce(X[t], "sum", width=width)
    Y[1, t] = coop.block_reduce(X[t], later, width=width)
    Y[2, t] = coop.block_reduce(X[t], LARGER, width=width)


@flyc.jit
def of_groups(X: fx.Tensor, Y: fx.Tensor, width: fx.Constexpr[int], threads: fx.Constexpr[int]):
    groups_kernel(X, Y, width).launch(grid=1, block=threads)


@pytest.mark.parametrize(
    ("threads", "width"), [(256, w) for w in (1, 8, 32, 64, 128, 256)] + [(192, 64), (384, 192)]
)
def test_groups(target, threads, width):
    x = np.random.default_rng().integers(-1000, 1000, threads).astype(np.float32)
    x[threads // 2] = np.nan
    y = np.zeros((3, threads), np.float32)
    of_groups(x, y, width, threads)
    parts = x.reshape(-1, width)
    with np.errstate(invalid="ignore"):
        expected = [parts.sum(-1), parts[:, -1], np.fmax.reduce(parts, axis=-1)]
    for got, want in zip(y, expected, strict=True):
        np.testing.assert_array_equal(got, np.repeat(want, width))


@pytest.mark.parametrize(("threads", "width"), [(256, 48), (256, 512), (256, 0), (96, 64)])
def test_groups_that_do_not_divide_the_block_are_refused(target, threads, width):
    x = np.zeros(threads, np.float32)
    with pytest.raises(UserError, match="FLY-U283"):
        of_groups(x, np.zeros((3, threads), np.float32), width, threads)


@flyc.kernel
def limited_kernel(X: fx.Tensor):
    t = fx.thread_idx.x
    X[t] = coop.block_reduce(X[t], "sum", width=64, valid_items=3)


@flyc.jit
def limited(X: fx.Tensor):
    limited_kernel(X).launch(grid=1, block=128)


def test_groups_have_no_valid_items(target):
    with pytest.raises(UserError, match="FLY-U283"):
        limited(np.zeros(128, np.float32))


@flyc.kernel
def structures_kernel(X: fx.Tensor, Y: fx.Tensor):
    t = fx.thread_idx.x
    first = coop.block_sum(X[t])
    both = coop.block_reduce({"a": X[t] + first, "b": X[t]}, "sum")
    Y[t] = both["a"] - both["b"]


@flyc.jit
def structures(X: fx.Tensor, Y: fx.Tensor):
    structures_kernel(X, Y).launch(grid=1, block=256)


def test_values_of_different_structure_do_not_share_memory(target):
    """They take turns apart, so no barrier would be between the uses of what they shared."""
    x, y = np.ones(256, np.float32), np.zeros(256, np.float32)
    structures(x, y)
    assert (y == 256 * 256).all()
