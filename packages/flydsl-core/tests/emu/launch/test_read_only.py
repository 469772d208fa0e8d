"""Arrays that must not change: kernels may read them, and are refused when they write."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import UserError, UserValueError


def frozen(array):
    array.setflags(write=False)
    return array


@flyc.kernel
def plus_one_kernel(X: fx.Tensor, Y: fx.Tensor):
    i = fx.thread_idx.x
    Y[i] = X[i] + 1


@flyc.jit
def plus_one(X: fx.Tensor, Y: fx.Tensor):
    plus_one_kernel(X, Y).launch(grid=1, block=64)


def test_a_read_only_array_can_be_read(target):
    x, y = frozen(np.arange(64, dtype=np.int32)), np.zeros(64, np.int32)
    plus_one(x, y)
    np.testing.assert_array_equal(y, x + 1)


def test_a_write_names_the_argument_and_the_line(target):
    x, y = np.arange(64, dtype=np.int32), frozen(np.zeros(64, np.int32))
    with pytest.raises(UserValueError, match="FLY-U341") as caught:
        plus_one(x, y)
    assert "'Y'" in str(caught.value)
    assert caught.value.location.line == plus_one_kernel.location.line + 3
    assert not y.any()


def test_writable_and_read_only_arrays_alternate(target):
    """A compiled writable call does not serve a read-only array, nor the other way round."""
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    for _ in range(2):
        plus_one(x, y)
        with pytest.raises(UserValueError):
            plus_one(x, frozen(np.zeros(64, np.int32)))
        plus_one(frozen(x.copy()), y)
    np.testing.assert_array_equal(y, x + 1)


def test_a_wrapped_array_keeps_the_mark(target):
    x, y = np.arange(64, dtype=np.int32), frozen(np.zeros(64, np.int32))
    with pytest.raises(UserValueError, match="'Y'"):
        plus_one(x, flyc.from_dlpack(y))


def test_one_array_may_be_read_and_written(target):
    x = np.arange(64, dtype=np.int32)
    plus_one(x, x)
    np.testing.assert_array_equal(x, np.arange(64) + 1)


@flyc.kernel
def carried_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    pointer = X.iter + i
    total = fx.Int32(0)
    for _ in range(n):
        total = total + pointer.load()
        pointer = pointer + 64
    Y[i] = total


@flyc.jit
def carried(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    carried_kernel(X, Y, n).launch(grid=1, block=64)


def test_a_pointer_carried_through_a_loop_is_followed(target):
    x, y = frozen(np.arange(256, dtype=np.int32)), np.zeros(64, np.int32)
    carried(x, y, 4)
    np.testing.assert_array_equal(y, x.reshape(4, 64).sum(0))


@flyc.kernel
def carried_store_kernel(X: fx.Tensor, n: fx.Int32):
    pointer = X.iter + fx.thread_idx.x
    while n > 0:
        pointer.store(n)
        pointer = pointer + 64
        n = n - 1


@flyc.jit
def carried_store(X: fx.Tensor, n: fx.Int32):
    carried_store_kernel(X, n).launch(grid=1, block=64)


def test_a_store_through_a_carried_pointer_is_found(target):
    with pytest.raises(UserValueError, match="'X'"):
        carried_store(frozen(np.zeros(256, np.int32)), 4)


@flyc.kernel
def atomic_kernel(X: fx.Tensor):
    fx.atomic_add(X.iter, 1)


@flyc.jit
def atomic(X: fx.Tensor):
    atomic_kernel(X).launch(grid=1, block=64)


def test_an_atomic_is_a_write(target):
    with pytest.raises(UserValueError, match="'X'"):
        atomic(frozen(np.zeros(1, np.int32)))


@flyc.kernel
def escaped_kernel(X: fx.Tensor):
    kind = fx.PointerType.get(fx.Int32, fx.AddressSpace.Global, 4)
    fx.inttoptr(kind, fx.ptrtoint(X.iter)).store(7)


@flyc.jit
def escaped(X: fx.Tensor):
    escaped_kernel(X).launch(grid=1, block=64)


def test_an_address_taken_as_an_integer_may_be_written(target):
    x = np.zeros(1, np.int32)
    escaped(x)
    assert x[0] == 7
    with pytest.raises(UserError):  # nothing is known while compiling: the emulator refuses
        escaped(frozen(np.zeros(1, np.int32)))
