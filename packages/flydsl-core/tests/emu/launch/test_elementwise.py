"""Element-wise kernels in both styles: scalar indexing and tiled copies."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.driver import cache_of

GUARD = 99


@flyc.kernel
def scalar_add(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32, block: fx.Constexpr[int]):
    i = fx.block_idx.x * block + fx.thread_idx.x
    if i < n:
        c[i] = a[i] + b[i]


@flyc.jit
def add(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    n: fx.Int32,
    block: fx.Constexpr[int] = 256,
    stream: fx.Stream = fx.Stream(None),  # noqa: B008 - as users write it
):
    scalar_add(a, b, c, n, block).launch(
        grid=((n + block - 1) // block,), block=(block, 1, 1), stream=stream
    )


@flyc.kernel
def tiled_add(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, block: fx.Constexpr[int]):
    bid, tid = fx.block_idx.x, fx.thread_idx.x
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)

    def mine(tensor):
        tile = fx.slice(fx.logical_divide(tensor, fx.make_layout(block, 1)), (None, bid))
        return fx.slice(fx.logical_divide(tile, fx.make_layout(1, 1)), (None, tid))

    ra = fx.make_rmem_tensor(1, fx.Float32)
    rb = fx.make_rmem_tensor(1, fx.Float32)
    rc = fx.make_rmem_tensor(1, fx.Float32)
    fx.copy_atom_call(atom, mine(a), ra)
    fx.copy_atom_call(atom, mine(b), rb)
    fx.memref_store_vec(fx.memref_load_vec(ra) + fx.memref_load_vec(rb), rc)
    fx.copy_atom_call(atom, rc, mine(c))


@flyc.jit
def add_tiles(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32, block: fx.Constexpr[int]):
    tiled_add(a, b, c, block).launch(grid=(n // block,), block=(block, 1, 1))


def guarded(n, dtype=np.float32):
    """Return an output of n elements with guard elements around it, and the whole array."""
    whole = np.full(n + 32, GUARD).astype(dtype)
    return whole[16 : 16 + n], whole


def untouched(whole, n):
    return bool((whole[:16] == whole[0]).all() and (whole[16 + n :] == whole[0]).all())


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000])
def test_scalar_style_with_a_tail(target, n):
    random = np.random.default_rng(n)
    a, b = (random.standard_normal(n, dtype=np.float32) for _ in range(2))
    c, whole = guarded(n)
    add(a, b, c, n)
    np.testing.assert_array_equal(c, a + b)
    assert untouched(whole, n)


def test_one_compilation_serves_every_size(target):
    cache_of(add).clear()
    before = cache_of(add).misses
    kinds = set()
    for n in (5, 300, 17, 300):
        a, b = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
        c = np.zeros(n, np.float32)
        add(a, b, c, n)
        np.testing.assert_array_equal(c, a + 1)
        # The alignment of an array is not ours to choose, and part of its kind.
        kinds.add(tuple(min(16, x.ctypes.data & -x.ctypes.data) for x in (a, b, c)))
    assert cache_of(add).misses - before == len(kinds)


def test_tiled_style(target):
    a, b = np.arange(512, dtype=np.float32), np.linspace(0, 1, 512, dtype=np.float32)
    c, whole = guarded(512)
    add_tiles(a, b, c, 512, 128)
    np.testing.assert_array_equal(c, a + b)
    assert untouched(whole, 512)


@pytest.mark.parametrize(
    "dtype",
    [
        np.float64,
        np.float16,
        ml_dtypes.bfloat16,
        np.int8,
        np.uint8,
        np.int16,
        np.uint16,
        np.int32,
        np.uint32,
        np.int64,
        np.uint64,
    ],
)
def test_element_types(target, dtype):
    n = 100
    a = (np.arange(n) % 50).astype(dtype)
    b = (np.arange(n) % 7 + 60).astype(dtype)
    c, whole = guarded(n, dtype)
    add(a, b, c, n, 64)
    # Through a wider type: NumPy's own bfloat16 addition rounds once too.
    expected = (a.astype(np.float64) + b.astype(np.float64)).astype(dtype)
    np.testing.assert_array_equal(c, expected)
    assert untouched(whole, n)


def test_misaligned_storage_offsets(target):
    base = np.arange(200, dtype=np.float32)
    for offset in range(5):
        a = base[offset : offset + 70]
        c, whole = guarded(70)
        add(a, a, c, 70)
        np.testing.assert_array_equal(c, 2 * a)
        assert untouched(whole, 70)


@pytest.mark.parametrize("step", [2, -1, 3])
def test_strided_and_reversed_vectors(target, step):
    a = np.arange(120, dtype=np.float32)[::step]
    n = len(a)
    c, whole = guarded(n)
    add(a, a, c, n)
    np.testing.assert_array_equal(c, 2 * a)
    assert untouched(whole, n)


def test_a_broadcast_vector(target):
    a = np.broadcast_to(np.float32(3), 40)
    c, whole = guarded(40)
    add(a, np.arange(40, dtype=np.float32), c, 40)
    np.testing.assert_array_equal(c, 3 + np.arange(40))
    assert untouched(whole, 40)


@flyc.kernel
def scale_rows(x: fx.Tensor, y: fx.Tensor, columns: fx.Int32, by: fx.Float32):
    row, column = fx.block_idx.x, fx.thread_idx.x
    if column < columns:
        y[row, column] = x[row, column] * by


@flyc.jit
def scale(x: fx.Tensor, y: fx.Tensor, rows: fx.Int32, columns: fx.Int32, by: fx.Float32):
    scale_rows(x, y, columns, by).launch(grid=(rows, 1, 1), block=(64, 1, 1))


@pytest.mark.parametrize("order", ["rows", "columns"])
def test_padded_matrices(target, order):
    store = np.full((20, 50), GUARD, np.float32)
    view = store[2:9, 3:40]
    if order == "columns":
        view = view.T[:37, :]
    x = np.random.default_rng(0).standard_normal(view.shape).astype(np.float32)
    rows, columns = view.shape
    scale(x, view, rows, columns, 0.5)
    np.testing.assert_array_equal(view, x * np.float32(0.5))
    assert (store == GUARD).sum() == store.size - view.size


def test_empty_inputs_launch_nothing(target):
    empty = np.zeros(0, np.float32)
    add(empty, empty, empty, 0)
    c, whole = guarded(3)
    add(empty, empty, c, 0)
    assert (whole == GUARD).all()
