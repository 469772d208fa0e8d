"""Layouts with run-time extents and strides against a plain evaluation of every coordinate."""

from __future__ import annotations

import random

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

THREADS = 128


class Form:
    """A nested shape and stride; leaves in `hidden` (by number) are passed at run time."""

    def __init__(self, seed):
        draw = random.Random(seed)
        profile = draw.choice([2, 3, (2, 1), (1, 2), (2, 2)])
        self.extents, self.strides = [], []

        def leaf():
            self.extents.append(draw.choice([1, 2, 3, 4, 5, 7, 8, 12, 16]))
            self.strides.append(draw.choice([0, 1, 2, 3, 5, 8, 64, 100]))
            return len(self.extents) - 1

        if isinstance(profile, int):
            self.nest = tuple(leaf() for _ in range(profile))
        else:
            self.nest = tuple(
                leaf() if count == 1 else tuple(leaf() for _ in range(count)) for count in profile
            )
        numbers = range(len(self.extents))
        self.hidden_extents = [n for n in numbers if draw.random() < 0.5]
        self.hidden_strides = [n for n in numbers if draw.random() < 0.5]

    def values(self):
        """Return what is passed at run time."""
        hidden = [self.extents[n] for n in self.hidden_extents]
        hidden += [self.strides[n] for n in self.hidden_strides]
        return np.array([*hidden, 0], np.int32)

    def layout(self, values):
        """Return the layout in the kernel, hidden leaves loaded from `values`."""
        extents, strides = list(self.extents), list(self.strides)
        for at, n in enumerate(self.hidden_extents):
            extents[n] = values[at]
        for at, n in enumerate(self.hidden_strides):
            strides[n] = values[len(self.hidden_extents) + at]
        return fx.make_layout(nested(self.nest, extents), nested(self.nest, strides))

    def index(self, linear):
        """Return the index of a linear coordinate: first mode fastest, the last takes the rest."""
        total = 0
        for n, (extent, stride) in enumerate(zip(self.extents, self.strides, strict=True)):
            last = n == len(self.extents) - 1
            total += (linear if last else linear % extent) * stride
            linear //= extent
        return total

    def coordinate(self, index):
        """Return per leaf (index / stride) % extent; 0 for an extent of 1 or a stride of 0."""
        pairs = zip(self.extents, self.strides, strict=True)
        return [index // d % s if s > 1 and d else 0 for s, d in pairs]


def nested(nest, leaves):
    """Return the nest with numbers replaced by leaves."""
    return tuple(nested(n, leaves) if isinstance(n, tuple) else leaves[n] for n in nest)


@flyc.kernel
def index_kernel(P: fx.Tensor, Out: fx.Tensor, form: fx.Constexpr[object]):
    i = fx.thread_idx.x
    Out[i] = fx.Int64(fx.crd2idx(i, form.layout(P)))
    Out[i + THREADS] = fx.Int64(fx.size(form.layout(P)))


@flyc.jit
def index(P: fx.Tensor, Out: fx.Tensor, form: fx.Constexpr[object]):
    index_kernel(P, Out, form).launch(grid=1, block=THREADS)


@pytest.mark.parametrize("seed", range(24))
def test_crd2idx(seed):
    form, out = Form(seed), np.zeros(2 * THREADS, np.int64)
    index(form.values(), out, form)
    expected = [form.index(i) for i in range(THREADS)]
    np.testing.assert_array_equal(out[:THREADS], expected)
    assert (out[THREADS:] == np.prod(form.extents)).all()


@flyc.kernel
def coordinate_kernel(P: fx.Tensor, Out: fx.Tensor, form: fx.Constexpr[object]):
    i = fx.thread_idx.x
    leaves = fx.get_leaves(fx.idx2crd(i, form.layout(P)))
    for n in fx.range_constexpr(len(leaves)):
        Out[i, n] = fx.Int64(leaves[n])


@flyc.jit
def coordinate(P: fx.Tensor, Out: fx.Tensor, form: fx.Constexpr[object]):
    coordinate_kernel(P, Out, form).launch(grid=1, block=THREADS)


@pytest.mark.parametrize("seed", range(100, 116))
def test_idx2crd(seed):
    form = Form(seed)
    hidden = [n for n in form.hidden_strides if form.strides[n] == 0]
    for n in hidden:  # dividing by a stride that is 0 at run time has no meaning
        form.strides[n] = 9
    out = np.zeros((THREADS, len(form.extents)), np.int64)
    coordinate(form.values(), out, form)
    np.testing.assert_array_equal(out, [form.coordinate(i) for i in range(THREADS)])


@flyc.kernel
def tile_kernel(X: fx.Tensor, Out: fx.Tensor, tile: fx.Constexpr[tuple]):
    i = fx.thread_idx.x
    rows, columns = tile
    part = fx.zipped_divide(X, tile)[None, fx.block_idx.x]
    flat = fx.idx2crd(i, fx.make_layout((rows, columns), (1, rows)))
    Out[fx.block_idx.x, i] = part[flat]


@flyc.jit
def tiles(X: fx.Tensor, Out: fx.Tensor, tile: fx.Constexpr[tuple], count: fx.Int32):
    tile_kernel(X, Out, tile).launch(grid=count, block=tile[0] * tile[1])


@pytest.mark.parametrize(
    ("tile", "shape"), [((4, 8), (16, 24)), ((3, 5), (12, 20)), ((1, 7), (5, 21))]
)
@pytest.mark.parametrize("transposed", [False, True])
def test_tiles_of_run_time_matrices(tile, shape, transposed):
    rows, columns = tile
    x = np.random.default_rng(1).standard_normal(shape if not transposed else shape[::-1])
    x = x.astype(np.float32).T if transposed else x.astype(np.float32)
    down, across = shape[0] // rows, shape[1] // columns
    out = np.zeros((down * across, rows * columns), np.float32)
    tiles(x, out, tile, down * across)
    for block in range(down * across):
        r, c = block % down * rows, block // down * columns
        np.testing.assert_array_equal(out[block], x[r : r + rows, c : c + columns].T.reshape(-1))


@flyc.kernel
def wide_kernel(Out: fx.Tensor, stride: fx.Int64, n: fx.Int32):
    i = fx.thread_idx.x
    layout = fx.make_layout((n, n), (stride, 1))
    Out[i] = fx.Int64(fx.crd2idx((i, i), layout))
    Out[i + 64] = fx.Int64(fx.crd2idx((i * 100000, 7), fx.make_layout((2**22, 8), (2**20, 1))))


@flyc.jit
def wide(Out: fx.Tensor, stride: fx.Int64, n: fx.Int32):
    wide_kernel(Out, stride, n).launch(grid=1, block=64)


def test_offsets_beyond_31_bits_are_exact():
    out = np.zeros(128, np.int64)
    wide(out, 2**35 + 3, 1 << 20)
    np.testing.assert_array_equal(out[:64], [i * (2**35 + 3) + i for i in range(64)])
    np.testing.assert_array_equal(out[64:], [i * 100000 * 2**20 + 7 for i in range(64)])


@flyc.kernel
def swizzle_kernel(X: fx.Tensor, Out: fx.Tensor):
    """Through a swizzled tile of shared memory, in rows and back in columns."""
    thread = fx.thread_idx.x
    storage = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 64 * 64], alignment=1024)
    layout = fx.make_composed_layout(fx.Swizzle(3, 3, 3), fx.make_layout((64, 64), (64, 1)))
    shared = fx.make_view(storage.ptr, layout)
    wide = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16)
    copy = fx.make_tiled_copy_tv(
        wide, fx.make_layout((32, 8), (8, 1)), fx.make_layout((1, 8), (1, 1))
    )
    share = copy.get_slice(thread)
    source = share.partition_S(fx.make_view(X.iter, fx.make_layout((64, 64), (64, 1))))
    fragment = fx.make_fragment_like(source)
    fx.copy(copy, source, fragment)
    fx.copy(copy, fragment, share.partition_D(shared))
    fx.barrier()
    for n in fx.range_constexpr(16):
        row, column = thread % 64, thread // 64 * 16 + n
        Out[column, row] = shared[row, column]


@flyc.jit
def swizzle(X: fx.Tensor, Out: fx.Tensor):
    swizzle_kernel(X, Out).launch(grid=1, block=256)


def test_a_swizzled_tile_transposes(each_target):
    x = np.random.default_rng(2).standard_normal((64, 64)).astype(np.float16)
    out = np.zeros_like(x)
    swizzle(x, out)
    np.testing.assert_array_equal(out, x.T)
