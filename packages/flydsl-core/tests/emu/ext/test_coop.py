"""Reductions, scans and broadcasts of warps and blocks against NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.errors import UserError
from flydsl.ext import coop

flydsl_emu = pytest.importorskip("flydsl_emu")

LANES = {"gfx942": 64, "gfx1201": 32}
BLOCKS = [1, 37, 64, 100, 256, (8, 4, 6), (5, 3, 9), (32, 32)]
RNG = np.random.default_rng(20261130)


@pytest.fixture(params=sorted(LANES))
def lanes(request):
    """Compile for an architecture; the lanes of its warps."""
    with config.scope(FLYDSL_TARGET=request.param), flydsl_emu.sanitize("race,init,barrier"):
        yield LANES[request.param]


def size_of(block):
    return int(np.prod(block))


def groups(x, width):
    return [x[i : i + width] for i in range(0, len(x), width)]


def spread(x, width, function):
    """Every element of a group of `width` gets what `function` makes of the group."""
    return np.concatenate([np.broadcast_to(function(g), g.shape) for g in groups(x, width)])


def number():
    block = fx.known_block_size()
    return fx.thread_idx.x + block[0] * (fx.thread_idx.y + block[1] * fx.thread_idx.z)


@flyc.kernel
def many_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, some: fx.Int32):
    t = number()
    v = X[t]
    Y[0, t] = coop.block_sum(v)
    Y[1, t] = coop.block_inclusive_sum(v)
    Y[2, t] = coop.block_exclusive_sum(v)
    Y[3, t] = coop.block_max(v, valid_items=n)
    Y[4, t] = coop.block_min(v)
    Y[5, t] = coop.block_broadcast(v, n - 1)
    Y[6, t] = coop.warp_sum(v)
    Y[7, t] = coop.warp_inclusive_sum(v, width=8)
    Y[8, t] = coop.warp_exclusive_sum(v)
    Y[9, t] = coop.warp_max(v, width=4)
    inclusive, exclusive, total = coop.warp_scan_with_aggregate(v, "max", init=-3)
    Y[10, t] = inclusive
    Y[11, t] = exclusive
    Y[12, t] = total
    Y[13, t] = coop.warp_reduce(v, "xor", width=16, valid_items=some)
    scanned, total = coop.block_exclusive_scan(v, "sum", init=1000, with_aggregate=True)
    Y[14, t] = scanned
    Y[15, t] = total


@flyc.jit
def many(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, some: fx.Int32, block: fx.Constexpr):
    many_kernel(X, Y, n, some).launch(grid=1, block=block)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_form_on_integers(lanes, block):
    size = size_of(block)
    x = RNG.integers(-(2**31), 2**31, size, dtype=np.int64).astype(np.int32)
    y = np.zeros((16, size), np.int32)
    n, some = max(1, size - 3), 3
    many(x, y, n, some, block)
    with np.errstate(over="ignore"):
        up = np.cumsum(x, dtype=np.int32)
        inside = np.concatenate([np.cumsum(g, dtype=np.int32) for g in groups(x, lanes)])
        eight = np.concatenate([np.cumsum(g, dtype=np.int32) for g in groups(x, 8)])
        total = np.sum(x, dtype=np.int32)
        after = np.concatenate([np.maximum.accumulate(np.maximum(g, -3)) for g in groups(x, lanes)])
        before = np.concatenate([np.r_[-3, a[:-1]] for a in groups(after, lanes)])
        expected = [
            np.full(size, total),
            up,
            up - x,
            np.full(size, x[:n].max()),
            np.full(size, x.min()),
            np.full(size, x[n - 1]),
            spread(x, lanes, lambda g: np.sum(g, dtype=np.int32)),
            eight,
            inside - x,
            spread(x, 4, np.max),
            after,
            before,
            spread(after, lanes, lambda g: g[-1]),
            spread(x, 16, lambda g: np.bitwise_xor.reduce(g[:some])),
            up - x + np.int32(1000),
            np.full(size, total + np.int32(1000)),
        ]
    for row, (got, want) in enumerate(zip(y, expected, strict=True)):
        np.testing.assert_array_equal(got, want, err_msg=f"row {row}")


DTYPES = [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, np.float64]


@flyc.kernel
def typed_kernel(X: fx.Tensor, Y: fx.Tensor):
    t = number()
    v = X[t]
    Y[0, t] = coop.block_sum(v)
    Y[1, t] = coop.block_exclusive_sum(v)
    Y[2, t] = coop.block_reduce(v, "max")
    Y[3, t] = coop.block_inclusive_scan(v, "min")
    Y[4, t] = coop.block_exclusive_scan(v, "max")


@flyc.jit
def typed(X: fx.Tensor, Y: fx.Tensor, block: fx.Constexpr):
    typed_kernel(X, Y).launch(grid=1, block=block)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
def test_every_width(lanes, dtype):
    size = 150
    whole = np.issubdtype(dtype, np.integer)
    low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if whole else (-(2**52), 2**52)
    x = RNG.integers(low, high, size, dtype=dtype if whole else np.int64, endpoint=True)
    x = x.astype(dtype)
    if not whole:
        x = np.trunc(x / 1024)  # sums are exact
    y = np.zeros((5, size), dtype)
    typed(x, y, size)
    up = np.cumsum(x, dtype=dtype)
    most = np.maximum.accumulate(x)
    first = low if whole else -np.inf
    np.testing.assert_array_equal(y[0], np.full(size, up[-1]))
    np.testing.assert_array_equal(y[1], np.r_[dtype(0), up[:-1]])
    np.testing.assert_array_equal(y[2], np.full(size, x.max()))
    np.testing.assert_array_equal(y[3], np.minimum.accumulate(x))
    np.testing.assert_array_equal(y[4], np.r_[dtype(first), most[:-1]])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
def test_floats_of_16_bits(lanes, dtype):
    size = 150
    x = RNG.integers(-1, 2, size).astype(dtype)  # every partial sum is exact
    y = np.zeros((5, size), dtype)
    typed(x, y, size)
    wide = x.astype(np.float64)
    up = np.cumsum(wide)
    expected = [
        np.full(size, up[-1]),
        up - wide,
        np.full(size, wide.max()),
        np.minimum.accumulate(wide),
        np.r_[-np.inf, np.maximum.accumulate(wide)[:-1]],
    ]
    np.testing.assert_array_equal(y.astype(np.float64), expected)


def test_floats_of_8_bits_are_broadcast(lanes):
    @flyc.kernel
    def kernel(X: fx.Tensor, Y: fx.Tensor):
        t = fx.thread_idx.x
        Y[0, t] = coop.block_broadcast(X[t], 69)
        Y[1, t] = coop.warp_broadcast(X[t], 3, width=4)

    @flyc.jit
    def launch(X: fx.Tensor, Y: fx.Tensor):
        kernel(X, Y).launch(grid=1, block=80)

    x = RNG.standard_normal(80).astype(ml_dtypes.float8_e4m3fn)
    y = np.zeros((2, 80), x.dtype)
    launch(x, y)
    np.testing.assert_array_equal(y.view(np.uint8)[0], x.view(np.uint8)[69])
    np.testing.assert_array_equal(y[1].view(np.uint8), np.repeat(x.view(np.uint8)[3::4], 4))


@pytest.mark.parametrize("block", [96, 256])
def test_float_sums_have_the_error_of_a_tree(lanes, block):
    x = (RNG.standard_normal(block) * 10.0 ** RNG.integers(-8, 8, block)).astype(np.float32)
    y = np.zeros((5, block), np.float32)
    typed(x, y, block)
    exact = np.sum(x, dtype=np.float64)
    bound = np.sum(np.abs(x), dtype=np.float64) * 2.0**-24 * 14
    assert np.unique(y[0]).size == 1
    assert abs(y[0][0] - exact) <= bound
    assert np.all(np.abs(y[1] - (np.cumsum(x, dtype=np.float64) - x)) <= 2 * bound)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 77, 129])
def test_special_floats_reach_exactly_who_sees_them(lanes, special, place):
    size = 130
    x = RNG.standard_normal(size).astype(np.float32)
    x[place] = special
    y = np.zeros((5, size), np.float32)
    typed(x, y, size)
    with np.errstate(invalid="ignore"):
        assert np.array_equal(y[2], np.full(size, np.max(x)), equal_nan=True)
        np.testing.assert_array_equal(y[3], np.minimum.accumulate(x))
        np.testing.assert_array_equal(
            y[4], np.r_[np.float32(-np.inf), np.maximum.accumulate(x)[:-1]]
        )
    assert np.isfinite(y[1][: place + 1]).all()
    assert not np.isfinite(y[1][place + 1 :]).any()
    assert not np.isfinite(y[0]).any()


class Affine(NamedTuple):
    """The function x -> a * x + b modulo 2**32: composition is associative, not commutative."""

    a: Any
    b: Any


def compose(f, g):
    """Apply `f`, then `g`."""
    return Affine(g.a * f.a, g.a * f.b + g.b)


@flyc.kernel
def ordered_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    t = number()
    f = Affine(X[0, t], X[1, t])
    one = Affine(fx.Uint32(1), fx.Uint32(0))
    results = [
        coop.block_reduce(f, compose),
        coop.block_inclusive_scan(f, compose),
        coop.block_exclusive_scan(f, compose, init=one),
        coop.block_reduce(f, compose, valid_items=n),
        coop.warp_reduce(f, compose),
        coop.warp_reduce(f, lambda f, g: Affine(g.a * f.a, g.a * f.b + g.b), width=8),
        coop.warp_inclusive_scan(f, compose),
    ]
    for i, found in enumerate(results):
        Y[2 * i, t] = found.a
        Y[2 * i + 1, t] = found.b


@flyc.jit
def ordered(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, block: fx.Constexpr):
    ordered_kernel(X, Y, n).launch(grid=1, block=block)


def chain(pairs, start=(1, 0)):
    """All prefixes of a composition, the empty one first."""
    out = [start]
    for a, b in pairs:
        fa, fb = out[-1]
        out.append((a * fa % 2**32, (a * fb + b) % 2**32))
    return out


@pytest.mark.parametrize("block", [64, 100, 320])
def test_the_order_of_threads_is_kept(lanes, block):
    x = RNG.integers(0, 2**32, (2, block), dtype=np.uint32)
    y = np.zeros((14, block), np.uint32)
    n = block - 29
    ordered(x, y, n, block)
    pairs = [(int(a), int(b)) for a, b in x.T]
    every = chain(pairs)
    in_warps = [chain(g) for g in groups(pairs, lanes)]
    in_eights = [chain(g) for g in groups(pairs, 8)]
    expected = [
        [every[-1]] * block,
        every[1:],
        every[:-1],
        [every[n]] * block,
        [c[-1] for c in in_warps for _ in c[1:]],
        [c[-1] for c in in_eights for _ in c[1:]],
        [p for c in in_warps for p in c[1:]],
    ]
    for row, want in enumerate(expected):
        np.testing.assert_array_equal(y[2 * row : 2 * row + 2].T, want, err_msg=f"row {row}")


@flyc.kernel
def welford_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    t = fx.thread_idx.x
    mine = coop.Welford.of(fx.Float32(0.0), False)
    for i in range(t, n, 192):
        mine = coop.merge_welford(mine, coop.Welford.of(X[i]))
    found = coop.block_reduce(mine, coop.merge_welford)
    Y[0, t] = found.count
    Y[1, t] = found.mean
    Y[2, t] = found.variance()


@flyc.jit
def welford(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    welford_kernel(X, Y, n).launch(grid=1, block=192)


@pytest.mark.parametrize("n", [1, 100, 1000])
def test_mean_and_variance_without_cancellation(lanes, n):
    x = (1.0e4 + RNG.standard_normal(n)).astype(np.float32)
    y = np.zeros((3, 192), np.float32)
    welford(x, y, n)
    exact = x.astype(np.float64)
    assert (y[0] == n).all()
    np.testing.assert_allclose(y[1], exact.mean(), rtol=1e-6)
    np.testing.assert_allclose(y[2], exact.var(), rtol=2e-3, atol=1e-12)


@flyc.kernel
def loop_kernel(X: fx.Tensor, Y: fx.Tensor, rounds: fx.Int32):
    """Calls in a loop and in a branch share their memory."""
    t = fx.thread_idx.x
    v = X[t]
    for _ in range(rounds):
        v = v + coop.block_sum(v) + coop.block_exclusive_sum(v)
    if rounds > 2:
        v = v ^ coop.block_broadcast(v, 70)
    for _ in fx.range_constexpr(3):
        v = v + coop.block_reduce(v, "max")
    Y[t] = v


@flyc.jit
def looped(X: fx.Tensor, Y: fx.Tensor, rounds: fx.Int32):
    loop_kernel(X, Y, rounds).launch(grid=1, block=140)


@pytest.mark.parametrize("rounds", [0, 2, 5])
def test_calls_that_share_memory(lanes, rounds):
    x = RNG.integers(0, 2**32, 140, dtype=np.uint32)
    y = np.zeros_like(x)
    looped(x, y, rounds)
    v = x.copy()
    for _ in range(rounds):
        up = np.cumsum(v, dtype=np.uint32)
        v = v + up[-1] + up - v
    if rounds > 2:
        v = v ^ v[70]
    for _ in range(3):
        v = v + v.max()
    np.testing.assert_array_equal(y, v)


@flyc.kernel
def items_kernel(X: fx.Tensor, Y: fx.Tensor, Z: fx.Tensor):
    t = fx.thread_idx.x
    items = [X[t * 3 + i] for i in range(3)]
    up = coop.block_inclusive_scan(items, "sum")
    below = coop.block_exclusive_scan(items, "sum", init=5)
    beside = coop.warp_inclusive_scan(items, "sum")
    for i in fx.range_constexpr(3):
        Y[0, t * 3 + i] = up[i]
        Y[1, t * 3 + i] = below[i]
        Y[2, t * 3 + i] = beside[i]
    Z[0, t] = coop.block_sum(items)
    vector = coop.block_sum(fx.Vector(items[:2]))
    Z[1, t] = vector[0]
    Z[2, t] = vector[1]
    Z[3, t] = coop.block_reduce(X[t] > 0, "or").to(fx.Int32)
    Z[4, t] = coop.block_reduce(X[t] > 0, "and").to(fx.Int32)
    pair = coop.block_reduce(
        {"low": X[t], "high": X[t]},
        lambda a, b: {"low": fx.min(a["low"], b["low"]), "high": fx.max(a["high"], b["high"])},
    )
    Z[5, t] = pair["high"] - pair["low"]


@flyc.jit
def with_items(X: fx.Tensor, Y: fx.Tensor, Z: fx.Tensor):
    items_kernel(X, Y, Z).launch(grid=1, block=90)


def test_items_vectors_booleans_and_dicts(lanes):
    x = RNG.integers(-1000, 1000, 270).astype(np.int32)
    y, z = np.zeros((3, 270), np.int32), np.zeros((6, 90), np.int32)
    with_items(x, y, z)
    np.testing.assert_array_equal(y[0], np.cumsum(x))
    np.testing.assert_array_equal(y[1], np.cumsum(x) - x + 5)
    np.testing.assert_array_equal(
        y[2], np.concatenate([np.cumsum(g) for g in groups(x, 3 * lanes)])
    )
    first = x[:90]
    rows = [
        x.sum(),
        x[::3].sum(),
        x[1::3].sum(),
        (first > 0).any(),
        (first > 0).all(),
        np.ptp(first),
    ]
    np.testing.assert_array_equal(z, np.repeat(rows, 90).reshape(6, 90))


@flyc.kernel
def own_storage_kernel(X: fx.Tensor, Y: fx.Tensor):
    t = fx.thread_idx.x
    reduce = fx.coop.BlockReduce[fx.Float32, 256]
    scan = fx.coop.BlockScan[fx.Float32, (256, 1, 1)]
    memory = fx.SharedAllocator()
    first = memory.allocate(reduce.SharedStorage)
    second = memory.allocate(scan.SharedStorage)
    Y[0, t] = reduce.sum(X[t], storage=first)
    Y[1, t] = reduce.max(X[t], storage=first)
    Y[2, t] = scan.exclusive_sum(X[t], storage=second)


@flyc.jit
def own_storage(X: fx.Tensor, Y: fx.Tensor):
    own_storage_kernel(X, Y).launch(grid=1, block=256)


def test_storage_of_ones_own(lanes):
    x = RNG.integers(-100, 100, 256).astype(np.float32)
    y = np.zeros((3, 256), np.float32)
    own_storage(x, y)
    np.testing.assert_array_equal(y[0], x.sum())
    np.testing.assert_array_equal(y[1], x.max())
    np.testing.assert_array_equal(y[2], np.cumsum(x) - x)


def test_a_block_size_that_only_the_launch_knows(lanes):
    @flyc.kernel
    def kernel(X: fx.Tensor, Y: fx.Tensor):
        t = fx.thread_idx.x
        Y[t] = coop.warp_sum(X[t])

    @flyc.jit
    def launch(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
        kernel(X, Y).launch(grid=1, block=n)

    x = RNG.integers(-9, 9, 75).astype(np.int32)
    y = np.zeros_like(x)
    launch(x, y, 75)
    np.testing.assert_array_equal(y, spread(x, lanes, np.sum))


REFUSED = {
    "no such operation": lambda v: coop.warp_reduce(v, "mean"),
    "power of two of at most the warp": lambda v: coop.warp_sum(v, width=24),
    "counts lanes": lambda v: coop.warp_sum(v, valid_items=0),
    "counts threads of the block": lambda v: coop.block_sum(v, valid_items=65),
    "another type": lambda v: coop.warp_reduce(v, lambda a, b: (a + b).to(fx.Float64)),
    "value of the first": lambda v: coop.block_exclusive_scan(v, lambda a, b: a + b),
    "no such thread": lambda v: coop.block_broadcast(v, 64),
    "no such lane": lambda v: coop.warp_broadcast(v, -1),
    "combine numbers and vectors": lambda v: coop.warp_sum([v, "text"]),
    "no items": lambda v: coop.block_sum([v, []]),
    "another block size": coop.BlockReduce[fx.Float32, 128].sum,
    "does not fit the values": lambda v: coop.block_broadcast(v, 0, storage=3),
}


@pytest.mark.parametrize("words", REFUSED)
def test_mistakes_are_refused_at_the_users_line(words):
    use = REFUSED[words]

    @flyc.kernel
    def kernel(X: fx.Tensor):
        X[fx.thread_idx.x] = use(X[fx.thread_idx.x])

    @flyc.jit
    def launch(X: fx.Tensor):
        kernel(X).launch(grid=1, block=64)

    # A warp of 32 lanes, so that two of them exchange through shared memory.
    with config.scope(FLYDSL_TARGET="gfx1201"), pytest.raises(UserError) as caught:
        launch(np.zeros(64, np.float32))
    assert words in str(caught.value)
    assert "test_coop.py" in str(caught.value)


def test_block_operations_need_a_known_block_size():
    @flyc.kernel
    def kernel(X: fx.Tensor):
        X[fx.thread_idx.x] = coop.block_sum(X[fx.thread_idx.x])

    @flyc.jit
    def launch(X: fx.Tensor, n: fx.Int32):
        kernel(X).launch(grid=1, block=n)

    with config.scope(FLYDSL_TARGET="gfx942"), pytest.raises(UserError, match="FLY-U254") as caught:
        launch(np.zeros(64, np.float32), 64)
    assert "known_block_size" in str(caught.value)
