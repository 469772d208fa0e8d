"""Known faults of arguments, caches and launches, each by a small program with the right outcome.

The names hold the row of the project's list of known faults (A7, A29, B1, B2, B3, B19, B21, B22,
B23, B32, B33). Those that need a GPU's runtime (B33, B34, B35) are tested with a stand-in for HIP,
in `flydsl_rocdl`.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.errors import TargetError, UserError, UserIndexError


def zeros(dtype=np.int32, count=64):
    return np.zeros(count, dtype)


def seven() -> int:
    return 7


def raising() -> int:
    raise RuntimeError("replaced")


def column():
    """A launcher that adds one to a column, as a new process would make it."""

    @flyc.kernel
    def kernel(a: fx.Tensor, out: fx.Tensor, n: fx.Int32):
        i = fx.block_idx.x * 64 + fx.thread_idx.x
        if i < n:
            out[i, 0] = a[i, 0] + 1.0

    @flyc.jit
    def launch(a: fx.Tensor, out: fx.Tensor, n: fx.Int32):
        kernel(a, out, n).launch(grid=(n + 63) // 64, block=64)

    return launch


def array_of(library, data):
    if library == "numpy":
        return data
    return pytest.importorskip("torch").from_numpy(data)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("cache", ["1", "0"])
def test_B1_one_kernel_serves_sizes_of_a_column(library, cache, tmp_path):
    with config.scope(FLYDSL_RUNTIME_ENABLE_CACHE=cache, FLYDSL_RUNTIME_CACHE_DIR=tmp_path):
        # The second launcher finds on disk what the first was compiled to with another size.
        for launch in (column(), column()):
            for n in (512, 4096, 1, 70):
                a = np.random.default_rng().random((n, 1), np.float32)
                out = np.zeros((n, 1), np.float32)
                launch(array_of(library, a), array_of(library, out), n)
                np.testing.assert_array_equal(out, a + 1)
    assert bool(list(tmp_path.rglob("*.entry"))) == (cache == "1")


@pytest.mark.parametrize("cache", ["1", "0"])
def test_B2_B3_a_replaced_helper_is_traced_again(cache, tmp_path, monkeypatch):
    @flyc.kernel
    def kernel(out: fx.Tensor):
        out[fx.thread_idx.x] = seven()

    @flyc.jit
    def launch(out: fx.Tensor):
        kernel(out).launch(grid=1, block=64)

    with config.scope(FLYDSL_RUNTIME_ENABLE_CACHE=cache, FLYDSL_RUNTIME_CACHE_DIR=tmp_path):
        for _ in range(3):
            out = zeros()
            launch(out)
            assert (out == 7).all()
            # What the first call loaded has to be kept by what the next one uses.
            gc.collect()
        monkeypatch.setitem(globals(), "seven", raising)
        with pytest.raises(RuntimeError, match="replaced"):
            launch(out)


def test_B19_wrong_ranks_are_refused(device):
    def body(i, x, out):
        line = fx.make_view(x.iter, fx.make_layout(64, 1))
        out[i] = line[i, 0]

    def wrong_slice(i, x, out):
        out[i] = x[None, 0][i]

    for wrong in (body, wrong_slice):
        with pytest.raises((UserIndexError, UserError)) as caught:
            device(wrong, [zeros(), zeros()])
        assert caught.value.location.file == __file__


def add_one(array, shape):
    """Add one to every element of a view of up to three dimensions through its own strides."""
    count = int(np.prod(shape))
    # Without elements the loop does not run, but what is in it is traced.
    rows, columns = (max(extent, 1) for extent in (1, 1, *shape)[-2:])

    @flyc.kernel
    def kernel(x: fx.Tensor):
        i = fx.thread_idx.x
        while i < count:
            at = (i // (rows * columns), i // columns % rows, i % columns)[3 - len(shape) :]
            x[at] = x[at] + 1.0
            i = i + 64

    @flyc.jit
    def launch(x: fx.Tensor):
        kernel(x).launch(grid=1, block=64)

    launch(array)
    return launch


SHAPES = [(32, 1), (1, 32), (1, 1), (4, 8), (1, 1024), (1, 1, 1), (0, 8), (8, 0), (2, 1, 5)]


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_B21_axes_of_one_or_no_element(shape, library):
    array = np.random.default_rng().random(shape, np.float32)
    want = array + 1
    add_one(array_of(library, array), shape)
    np.testing.assert_array_equal(array, want)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_B21_ties_choose_the_inner_axis(shape, library):
    """The last axis has the unit stride, whatever a library says about axes of one element."""

    @flyc.jit
    def launch(x: fx.Tensor):
        pass

    array = array_of(library, np.zeros(shape, np.float32))
    with config.scope(COMPILE_ONLY=True):
        described = flyc.compile(launch, array).description.parameters[0].ir_type
    strides = described.partition('"')[2].partition(":")[2].partition('"')[0].strip("()").split(",")
    # NumPy's empty arrays have strides of zero.
    inner = "?{i64}" if 0 in shape else "1"
    assert strides == ["?{i64}"] * (len(shape) - 1) + [inner]


def test_B21_a_column_slice_with_stride_two():
    store = np.random.default_rng().random((4, 16), np.float32)
    want = store.copy()
    want[:, ::2] += 1
    add_one(store[:, ::2], (4, 8))
    np.testing.assert_array_equal(store, want)


def copy_rows(source, rows, columns):
    """Return what a kernel reads through a view of any strides."""

    @flyc.kernel
    def kernel(x: fx.Tensor, out: fx.Tensor):
        i = fx.thread_idx.x
        if i < rows * columns:
            out[i] = x[i // columns, i % columns]

    @flyc.jit
    def launch(x: fx.Tensor, out: fx.Tensor):
        kernel(x, out).launch(grid=1, block=64)

    out = zeros(source.dtype)
    launch(source, out)
    return out[: rows * columns].reshape(rows, columns)


def test_B21_an_expanded_array():
    row = np.random.default_rng().random((1, 8)).astype(np.float32)
    expanded = np.broadcast_to(row, (4, 8))
    np.testing.assert_array_equal(copy_rows(expanded, 4, 8), expanded)


def test_B21_empty_and_scalar_arrays():
    @flyc.kernel
    def kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
        if fx.thread_idx.x < n:
            out[fx.thread_idx.x] = 1

    @flyc.jit
    def launch(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
        kernel(x, out, n).launch(grid=1, block=64)

    for shape in ((0, 8), (8, 0), (0,), (1, 1, 1)):
        out = zeros()
        launch(np.zeros(shape, np.float32), out, int(np.prod(shape)))
        assert out.sum() == np.prod(shape)
    with pytest.raises(UserError, match="tensor without axes"):
        launch(np.zeros(()), zeros(), 0)
    with pytest.raises(UserError, match="'x'"):
        launch(None, zeros(), 0)


def test_B21_a_tensor_that_requires_grad():
    torch = pytest.importorskip("torch")
    source = torch.rand(4, 8, requires_grad=True)
    out = torch.zeros(64)

    @flyc.kernel
    def kernel(x: fx.Tensor, out: fx.Tensor):
        i = fx.thread_idx.x
        if i < 32:
            out[i] = x[i // 8, i % 8]

    @flyc.jit
    def launch(x: fx.Tensor, out: fx.Tensor):
        kernel(x, out).launch(grid=1, block=64)

    launch(source, out)
    assert torch.equal(out[:32].reshape(4, 8), source.detach())


@pytest.mark.parametrize("stride", [2**30 - 32, 2**31 + 160, 2**32 + 8], ids=hex)
def test_B22_B23_outer_strides_beyond_32_bits(stride):
    """Elements around and beyond 2 and 4 GiB; only the pages that are touched exist."""
    base = np.zeros(stride + 64, np.uint16)
    x = np.lib.stride_tricks.as_strided(base, (2, 64), (2 * stride, 2))
    x[:] = np.arange(128, dtype=np.uint16).reshape(2, 64) + 5

    @flyc.kernel
    def kernel(x: fx.Tensor, out: fx.Tensor, rows: fx.Int32):
        i = fx.thread_idx.x
        for row in range(rows):
            out[row, i] = x[row, i] * fx.Uint16(2)
            x[row, i] = x[row, i] + fx.Uint16(1)

    @flyc.jit
    def launch(x: fx.Tensor, out: fx.Tensor, rows: fx.Int32):
        kernel(x, out, rows).launch(grid=1, block=64)

    out = np.zeros((2, 64), np.uint16)
    launch(x, out, 2)
    expected = np.arange(128).reshape(2, 64) + 5
    np.testing.assert_array_equal(out, 2 * expected)
    np.testing.assert_array_equal(base[:64], expected[0] + 1)
    np.testing.assert_array_equal(base[stride:], expected[1] + 1)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**40, 5.5, "3"])
def test_integers_that_do_not_fit_are_refused_at_the_launch(value):
    @flyc.kernel
    def kernel(out: fx.Tensor, n: fx.Int32):
        out[fx.thread_idx.x] = n

    @flyc.jit
    def launch(out: fx.Tensor, n: fx.Int32):
        kernel(out, n).launch(grid=1, block=64)

    launch(zeros(), 3)
    with pytest.raises((UserError, OverflowError), match="n"):
        launch(zeros(), value)


@pytest.mark.parametrize("threads", [512, 1024])
def test_B32_large_blocks_need_no_annotation(threads):
    @flyc.kernel
    def kernel(out: fx.Tensor):
        out[fx.thread_idx.x] = fx.thread_idx.x

    @flyc.jit
    def launch(out: fx.Tensor):
        kernel(out).launch(grid=1, block=threads)

    out = zeros(count=threads)
    launch(out)
    np.testing.assert_array_equal(out, np.arange(threads))


def test_B33_no_architecture_is_guessed():
    @flyc.kernel
    def kernel(out: fx.Tensor):
        out[fx.thread_idx.x] = 1

    @flyc.jit
    def launch(out: fx.Tensor):
        kernel(out).launch(grid=1, block=64)

    with (
        config.scope(FLYDSL_TARGET=None, COMPILE_ONLY=True),
        pytest.raises(TargetError, match=r"FLYDSL_TARGET|ARCH"),
    ):
        flyc.compile(launch, zeros())


@pytest.mark.parametrize("flag", [True, False])
def test_A7_kernels_in_functions_keep_what_they_capture(flag):
    """Also where rewriting leaves out code, and with it names that the function captures."""

    def factory(flag, first, second, step):
        def helper(value):
            return value * step

        @flyc.kernel
        def kernel(out: fx.Tensor):
            i = fx.thread_idx.x
            if fx.const_expr(flag):
                out[i] = helper(i) + first
            else:
                out[i] = i - second

        @flyc.jit
        def launch(out: fx.Tensor):
            kernel(out).launch(grid=1, block=64)

        return launch

    for first, second, step in ((1, 2, 3), (4, 5, 6)):
        out = zeros()
        factory(flag, first, second, step)(out)
        lanes = np.arange(64)
        np.testing.assert_array_equal(out, lanes * step + first if flag else lanes - second)


MARKS = {
    "nothing": lambda x: x,
    "layout": lambda x: x.mark_layout_dynamic(leading_dim=2),
    "batch": lambda x: x.mark_shape_dynamic(0),
    "shape": lambda x: x.mark_shape_dynamic([0, 1, 2]),
    "strides": lambda x: x.mark_shape_dynamic([0, 1]).mark_stride_dynamic([0, 1]),
}


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("mark", MARKS)
def test_A29_marked_axes_have_their_extents_and_strides(mark, library):
    @flyc.kernel
    def kernel(x: fx.Tensor, out: fx.Tensor):
        shape, stride = fx.get_shape(x), fx.get_stride(x)
        if fx.thread_idx.x == 0:
            for axis in fx.range_constexpr(3):
                out[axis], out[3 + axis] = fx.Int64(shape[axis]), fx.Int64(stride[axis])
            total = fx.Int64(0)
            for i in range(shape[0]):
                for j in range(shape[1]):
                    for k in range(shape[2]):
                        total = total + fx.Int64(x[i, j, k]) * fx.Int64(i * 100 + j * 10 + k)
            out[6] = total

    @flyc.jit
    def launch(x: fx.Tensor, out: fx.Tensor):
        kernel(x, out).launch(grid=1, block=64)

    store = np.random.default_rng().integers(-9, 9, (3, 6, 8)).astype(np.int32)
    for x in (store, store[:, :5, :7], store[::2], store[:, 1:3], store[2:3], store[:, :, :1]):
        out = np.zeros(7, np.int64)
        launch(MARKS[mark](flyc.from_dlpack(array_of(library, x))), out)
        i, j, k = np.indices(x.shape)
        want = [*x.shape, *(stride // 4 for stride in x.strides)]
        assert out.tolist() == [*want, (x * (i * 100 + j * 10 + k)).sum()]
