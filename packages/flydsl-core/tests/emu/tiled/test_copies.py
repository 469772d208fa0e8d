"""Tiled copies with predicates, gather and scatter, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import UserError

THREADS = 64


@flyc.kernel
def padded_kernel(X: fx.Tensor, Y: fx.Tensor, rows: fx.Int32, columns: fx.Int32,
                  rank: fx.Constexpr[int]):  # fmt: skip
    """Copy a tile of 16 x 32 of a larger matrix where the coordinate is inside it, else keep -1."""
    thread = fx.thread_idx.x
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    copy = fx.make_tiled_copy_tv(
        atom, fx.make_layout((8, 8), (8, 1)), fx.make_layout((1, 4), (1, 1))
    )
    share = copy.get_slice(thread)
    tile = (None, (fx.block_idx.x, fx.block_idx.y))
    source = share.partition_S(fx.zipped_divide(X, (16, 32))[tile])
    target = share.partition_D(fx.zipped_divide(Y, (16, 32))[tile])
    coordinates = fx.make_view((0, 0), fx.make_identity_layout((16, 32)))
    places = share.partition_S(coordinates)
    fragment = fx.make_fragment_like(source)
    fragment.fill(-1.0)
    inside = fx.make_rmem_tensor(places.shape if rank == 3 else places.shape[1:], fx.Boolean)
    first = (fx.block_idx.x * 16, fx.block_idx.y * 32)
    for v in fx.range_constexpr(4 if rank == 3 else 1):
        for r in fx.range_constexpr(fx.size(places.shape[1])):
            for c in fx.range_constexpr(fx.size(places.shape[2])):
                at = places[(0, v), r, c]
                ok = fx.elem_less(fx.int_tuple_add(first, at), (rows, columns))
                if fx.const_expr(rank == 3):
                    inside[(0, v), r, c] = ok
                else:
                    inside[r, c] = ok
    fx.copy(copy, source, fragment, pred=inside)
    fx.copy(copy, fragment, target, pred=None if rank == 3 else inside)


@flyc.jit
def padded(X: fx.Tensor, Y: fx.Tensor, rows: fx.Int32, columns: fx.Int32, rank: fx.Constexpr[int]):
    padded_kernel(X, Y, rows, columns, rank).launch(grid=(2, 2), block=THREADS)


@pytest.mark.parametrize(("rows", "columns"), [(32, 64), (21, 44), (17, 33), (3, 64)])
def test_predicates_per_value(each_target, rows, columns):
    x = np.random.default_rng(1).standard_normal((32, 64)).astype(np.float32)
    y = np.zeros_like(x)
    padded(x, y, rows, columns, 3)
    expected = np.full_like(x, -1)
    expected[:rows, :columns] = x[:rows, :columns]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(("rows", "columns"), [(32, 64), (21, 44), (4, 60)])
def test_predicates_without_mode_0_hold_for_all_of_it(rows, columns):
    x = np.random.default_rng(1).standard_normal((32, 64)).astype(np.float32)
    y = np.full_like(x, 7)
    padded(x, y, rows, columns, 2)
    expected = np.full_like(x, 7)
    expected[:rows, :columns] = x[:rows, :columns]
    np.testing.assert_array_equal(y, expected)


@flyc.kernel
def scalar_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    atom = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32)
    value = fx.make_rmem_tensor(2, fx.Float32)
    value.fill(9.0)
    pick = (None, i)
    fx.copy_atom_call(atom, fx.logical_divide(X, fx.make_layout(2, 1))[pick], value, pred=i < n)
    fx.copy_atom_call(
        atom, value, fx.logical_divide(Y, fx.make_layout(2, 1))[pick], pred=i % 2 == 0
    )


@flyc.jit
def scalar(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    scalar_kernel(X, Y, n).launch(grid=1, block=THREADS)


def test_truth_values_guard_single_instructions(each_target):
    x = np.arange(2 * THREADS, dtype=np.float32)
    y = np.zeros_like(x)
    scalar(x, y, 40)
    expected = np.where(np.arange(2 * THREADS) < 80, x, 9).reshape(-1, 2)
    expected[1::2] = 0
    np.testing.assert_array_equal(y.reshape(-1, 2), expected)


@flyc.kernel
def moved_kernel(X: fx.Tensor, Rows: fx.Tensor, Y: fx.Tensor, back: fx.Constexpr[bool]):
    """Each thread moves four pairs: row numbers come from memory, a negative one is skipped."""
    thread = fx.thread_idx.x
    atom = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32)
    values = fx.make_rmem_tensor(((2, 2), 2), fx.Float32)
    offsets = fx.make_rmem_tensor((2, 2), fx.Int32)
    valid = fx.make_rmem_tensor((2, 2), fx.Boolean)
    for n in fx.range_constexpr(4):
        row = Rows[thread * 4 + n]
        valid[n] = row >= 0
        offsets[n] = row * 128 + 2 * thread
    mine = fx.make_view(Y.iter + thread * 8, fx.make_layout(((2, 2), 2), ((1, 2), 4)))
    if fx.const_expr(back):
        fx.copy(atom, mine, values)
        fx.scatter(atom, values, X.iter, offsets, valid)
    else:
        values.fill(0.0)
        fx.gather(atom, X.iter, offsets, values, valid)
        fx.copy(atom, values, mine)


@flyc.jit
def moved(X: fx.Tensor, Rows: fx.Tensor, Y: fx.Tensor, back: fx.Constexpr[bool]):
    moved_kernel(X, Rows, Y, back).launch(grid=1, block=THREADS)


@pytest.mark.parametrize("back", [False, True], ids=["gather", "scatter"])
def test_rows_are_gathered_and_scattered(each_target, back):
    random = np.random.default_rng(3)
    x = random.standard_normal((16, 128)).astype(np.float32)
    rows = random.integers(-3, 16, (THREADS, 4)).astype(np.int32)
    for thread in range(THREADS):  # no place is written twice
        rows[thread] = random.permutation(16)[:4] - 3
    y = random.standard_normal((THREADS, 4, 2)).astype(np.float32)
    expected_x, expected_y = x.copy(), y.copy()
    for thread in range(THREADS):
        for n, row in enumerate(rows[thread]):
            place = slice(2 * thread, 2 * thread + 2)
            if back and row >= 0:
                expected_x[row, place] = y[thread, n]
            elif not back:
                expected_y[thread, n] = x[row, place] if row >= 0 else 0
    moved(x, rows.reshape(-1), y.reshape(-1), back)
    np.testing.assert_array_equal(x, expected_x)
    np.testing.assert_array_equal(y, expected_y)


@flyc.kernel
def refused_kernel(X: fx.Tensor):
    atom = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32)
    values = fx.make_rmem_tensor(((2, 2), 2), fx.Float32)
    flat = fx.make_rmem_tensor(3, fx.Float32)
    four = fx.make_rmem_tensor((2, 2), fx.Int32)
    three = fx.make_rmem_tensor(3, fx.Int32)
    refusals(X, atom, values, flat, four, three)


def refusals(X, atom, values, flat, four, three):
    def refused(code):
        return pytest.raises(UserError, match=code)

    with refused("FLY-U328"):
        fx.gather(atom, X.iter, three, values)
    with refused("FLY-U328"):
        fx.gather(atom, X.iter, four, values, three)
    with refused("FLY-U252"):
        fx.gather(atom, X, four, values)
    with refused("FLY-U252"):
        fx.scatter(atom, X, X.iter, four)
    with refused("FLY-U252"):
        fx.gather(atom, X.iter, 3, values)
    with refused("FLY-U327"):
        fx.scatter(atom, flat, X.iter, three)
    with refused("FLY-U328"):
        fx.copy(atom, values, fx.make_rmem_tensor(((2, 2), 3), fx.Float32))
    with refused("FLY-U328"):
        fx.copy(atom, values, values, pred=fx.make_rmem_tensor(3, fx.Boolean))
    with refused("FLY-U327"):
        fx.copy(atom, flat, flat)


@flyc.jit
def refused_launch(X: fx.Tensor):
    refused_kernel(X).launch(grid=1, block=THREADS)


def test_shapes_that_do_not_fit_are_refused():
    refused_launch(np.zeros(64, np.float32))
