"""Sorts, exchanges, segments, histograms and shifts of warps and blocks against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from cooperating import run

import flydsl.expr as fx
from flydsl import config
from flydsl.errors import UserError
from flydsl.ext import coop

flydsl_emu = pytest.importorskip("flydsl_emu")

LANES = {"gfx942": 64, "gfx1100": 32}
BLOCKS = [37, 128, (8, 4, 3)]
N = 3
RNG = np.random.default_rng(20261201)


@pytest.fixture(params=sorted(LANES))
def lanes(request):
    """Compile for an architecture; the lanes of its warps."""
    with config.scope(FLYDSL_TARGET=request.param), flydsl_emu.sanitize("race,init,barrier"):
        yield LANES[request.param]


def blocked(X, t):
    return [X[t * N + i] for i in range(N)]


def put(row, t, items):
    for i, item in enumerate(items):
        row[t * len(items) + i] = item


def row_of(Y, index):
    return Y[index, None]


def striped_of(sequence, threads):
    """The blocked listing of what threads hold that have the sequence striped."""
    return sequence.reshape(-1, threads).T.ravel()


def warp_striped_of(sequence, threads, lanes):
    out = []
    for start in range(0, threads, lanes):
        width = min(lanes, threads - start)
        out.append(striped_of(sequence[start * N : (start + width) * N], width))
    return np.concatenate(out)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_block_sorts(lanes, block):
    size = int(np.prod(block))
    x = RNG.integers(-40, 40, size * N).astype(np.int32)
    valid = size * N - 17

    def body(X, Y, t):
        keys, own = blocked(X, t), [t * N + i for i in range(N)]
        found, origins = coop.block_merge_sort(keys, own)
        put(row_of(Y, 0), t, found)
        put(row_of(Y, 1), t, origins)
        by_two, _ = coop.block_radix_sort(keys, own, descending=True, begin_bit=2, end_bit=5)
        put(row_of(Y, 2), t, by_two)
        put(row_of(Y, 3), t, coop.block_radix_sort(keys, target="striped"))
        some = coop.block_merge_sort(keys, valid_items=X[0] * 0 + valid, descending=True)
        put(row_of(Y, 4), t, some)
        best, values, flags = coop.block_top_k(keys, 5, own)
        put(row_of(Y, 5), t, [f.select(k, 99) for k, f in zip(best, flags, strict=True)])
        put(row_of(Y, 6), t, [f.select(v, -1) for v, f in zip(values, flags, strict=True)])
        put(row_of(Y, 7), t, coop.block_radix_rank(keys, begin_bit=1, end_bit=4))

    y = run(body, block, x, 8, size * N)
    order = np.argsort(x, kind="stable")
    np.testing.assert_array_equal(y[0], x[order])
    np.testing.assert_array_equal(y[1], order)
    bits = (x.view(np.uint32) ^ 2**31) >> 2 & 7
    np.testing.assert_array_equal(y[2], x[np.argsort(-bits.astype(int), kind="stable")])
    np.testing.assert_array_equal(y[3], striped_of(np.sort(x), size))
    np.testing.assert_array_equal(y[4], np.r_[-np.sort(-x[:valid]), x[valid:]])
    top = np.argsort(-x, kind="stable")[:5]
    np.testing.assert_array_equal(y[5], np.r_[x[top], np.full(size * N - 5, 99)])
    np.testing.assert_array_equal(y[6], np.r_[top, np.full(size * N - 5, -1)])
    digits = x.view(np.uint32) >> 1 & 7
    np.testing.assert_array_equal(y[7][np.argsort(digits, kind="stable")], np.arange(size * N))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int64, np.float64])
def test_keys_of_every_class(lanes, dtype):
    size = 70
    if np.issubdtype(dtype, np.floating):
        x = RNG.standard_normal(size * N).astype(dtype)
        x[:8] = [np.nan, np.inf, -np.inf, 0.0, -0.0, -np.nan, np.nan, 1e-7]
    else:
        info = np.iinfo(dtype)
        x = RNG.integers(info.min, info.max, size * N, dtype=dtype, endpoint=True)

    def body(X, Y, t):
        put(row_of(Y, 0), t, coop.block_merge_sort(blocked(X, t)))
        put(row_of(Y, 1), t, coop.block_radix_sort(blocked(X, t), descending=True))

    y = run(body, size, x, 2, size * N)
    np.testing.assert_array_equal(y[0], np.sort(x))  # NaN last, in both
    unsigned = np.dtype(f"u{x.itemsize}")
    bits = x.view(unsigned)
    top = unsigned.type(1 << (8 * x.itemsize - 1))
    if np.issubdtype(dtype, np.floating):
        bits = np.where(bits & top, ~bits, bits | top)
    elif np.issubdtype(dtype, np.signedinteger):
        bits = bits ^ top
    order = np.argsort(bits.max() - bits, kind="stable")
    np.testing.assert_array_equal(y[1].view(unsigned), x.view(unsigned)[order])


def further(a, b):
    return abs(a[0]) > abs(b[0])


def test_an_order_of_ones_own(lanes):
    size = 50
    x = RNG.integers(-99, 99, size).astype(np.int32)

    def body(X, Y, t):
        pair = coop.block_merge_sort((fx.Vector([X[t], t]),), compare_op=further)[0]
        Y[0, t] = pair[0]
        Y[1, t] = pair[1]

    y = run(body, size, x, 2, size)
    order = np.argsort(-np.abs(x), kind="stable")
    np.testing.assert_array_equal(y, [x[order], order])


@pytest.mark.parametrize(("width", "count"), [(8, 1), (None, 2), (4, 3)])
def test_warp_sorts_and_exchanges(lanes, width, count):
    size, group = 128, (lanes if width is None else width)
    x = RNG.integers(0, 40, size * count).astype(np.int32)
    valid = group * count // 2

    def body(X, Y, t):
        keys = [X[t * count + i] for i in range(count)]
        own = [t * count + i for i in range(count)]
        found, origins = coop.warp_merge_sort(keys, own, width=width)
        put(row_of(Y, 0), t, found)
        put(row_of(Y, 1), t, origins)
        put(row_of(Y, 2), t, coop.warp_bitonic_sort(keys, width=width, descending=True))
        some = coop.warp_merge_sort(keys, width=width, valid_items=X[0] * 0 + valid)
        put(row_of(Y, 3), t, some)
        put(row_of(Y, 4), t, coop.warp_exchange(keys, "blocked", "striped", width=width))
        put(row_of(Y, 5), t, coop.warp_exchange(keys, "striped", "blocked", width=width))
        ranks = [group * count - 1 - (t % group * count + i) for i in range(count)]
        put(row_of(Y, 6), t, coop.warp_scatter_to_striped(keys, ranks, width=width))

    y = run(body, size, x, 7, size * count)
    rows = x.reshape(-1, group * count)
    order = np.argsort(rows, axis=1, kind="stable")
    np.testing.assert_array_equal(y[0], np.sort(rows, axis=1).ravel())
    np.testing.assert_array_equal(y[1].reshape(rows.shape) % (group * count), order)

    def spread(sequences):
        return np.concatenate([striped_of(row, group) for row in sequences])

    np.testing.assert_array_equal(y[2], spread(-np.sort(-rows, axis=1)))
    some = np.concatenate([np.sort(rows[:, :valid], axis=1), rows[:, valid:]], axis=1)
    np.testing.assert_array_equal(y[3], some.ravel())
    np.testing.assert_array_equal(y[4], spread(rows))
    back = rows.reshape(-1, group, count).transpose(0, 2, 1)
    np.testing.assert_array_equal(y[5], back.ravel())
    np.testing.assert_array_equal(y[6], spread(rows[:, ::-1]))


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_block_exchanges(lanes, block):
    size = int(np.prod(block))
    x = RNG.permutation(size * N).astype(np.int32)

    def body(X, Y, t):
        keys = blocked(X, t)
        put(row_of(Y, 0), t, coop.block_exchange(keys, "blocked", "striped"))
        put(row_of(Y, 1), t, coop.block_exchange(keys, "blocked", "warp_striped"))
        there = coop.block_exchange(keys, "striped", "blocked")
        put(row_of(Y, 2), t, coop.block_exchange(there, "blocked", "striped"))
        there = coop.block_exchange(keys, "warp_striped", "blocked")
        put(row_of(Y, 3), t, coop.block_exchange(there, "blocked", "warp_striped"))
        put(row_of(Y, 4), t, coop.block_scatter(keys, keys))
        put(row_of(Y, 5), t, coop.block_scatter(keys, keys, "striped"))
        ranks = [(k % 3 == 0).select(-1, k) for k in keys]
        put(row_of(Y, 6), t, coop.block_scatter(keys, ranks, "striped", guarded=True))
        flags = [k % 2 == 0 for k in keys]
        put(row_of(Y, 7), t, coop.block_scatter(keys, keys, valid_flags=flags))
        put(row_of(Y, 8), t, [coop.block_shuffle(keys[0], -2), coop.block_rotate(keys[0], 5), 0])

    y = run(body, block, x, 9, size * N)
    every = np.arange(size * N)
    first = x[::N]
    there = np.r_[first[:2], first[:-2]]
    expected = [
        striped_of(x, size),
        warp_striped_of(x, size, lanes),
        x,
        x,
        every,
        striped_of(every, size),
        striped_of(np.where(every % 3, every, 0), size),
        np.where(every % 2, 0, every),
        np.stack([there, np.roll(first, -5), 0 * first], axis=1).ravel(),
    ]
    for row, (got, want) in enumerate(zip(y, expected, strict=True)):
        np.testing.assert_array_equal(got, want, err_msg=f"row {row}")


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_neighbours_and_counts(lanes, block):
    size = int(np.prod(block))
    x = np.sort(RNG.integers(0, 25, size * N)).astype(np.int32)

    def body(X, Y, t):
        keys = blocked(X, t)
        put(row_of(Y, 0), t, coop.block_shuffle_up(keys, first=-5))
        put(row_of(Y, 1), t, coop.block_shuffle_down(keys))
        put(row_of(Y, 2), t, coop.block_adjacent_difference_left(keys))
        put(row_of(Y, 3), t, coop.block_adjacent_difference_right(keys, successor=0))
        heads, tails = coop.block_flag_heads_and_tails(keys)
        put(row_of(Y, 4), t, [h.to(fx.Int32) for h in heads])
        put(row_of(Y, 5), t, [h.to(fx.Int32) for h in tails])
        for turn in fx.range_constexpr(2):  # the second one counts from zero again
            counts = coop.block_histogram([k - turn for k in keys], 20)
            put(row_of(Y, 6 + turn), t, [counts[(t * N + i) % 20].to(fx.Int32) for i in range(N)])
        lengths = [k % 3 for k in keys]
        decoded, offsets, total = coop.block_run_length_decode(keys, lengths, N, start=4)
        inside = [4 + t * N + i < total for i in range(N)]
        put(row_of(Y, 8), t, [f.select(d, -1) for d, f in zip(decoded, inside, strict=True)])
        put(row_of(Y, 9), t, [f.select(d, -1) for d, f in zip(offsets, inside, strict=True)])

    y = run(body, block, x, 10, size * N)
    heads = np.r_[1, x[1:] != x[:-1]]
    places = np.arange(size * N) % 20
    lengths = x % 3
    decoded = np.repeat(x, lengths)[4 : 4 + size * N]
    offsets = np.concatenate([np.arange(n) for n in lengths])[4 : 4 + size * N]
    rest = np.full(size * N - len(decoded), -1)
    expected = [
        np.r_[-5, x[:-1]],
        np.r_[x[1:], x[-1]],
        np.r_[x[0], np.diff(x)],
        x - np.r_[x[1:], 0],
        heads,
        np.r_[heads[1:], 1],
        np.bincount(x, minlength=26)[places],
        np.bincount(x[x > 0] - 1, minlength=26)[places],
        np.r_[decoded, rest],
        np.r_[offsets, rest],
    ]
    for row, (got, want) in enumerate(zip(y, expected, strict=True)):
        np.testing.assert_array_equal(got, want, err_msg=f"row {row}")


def segments(values, heads):
    """Every element gets the running sum and the sum of its segment."""
    parts = np.split(values, np.flatnonzero(heads)[1:] if heads[0] else np.flatnonzero(heads))
    return (
        np.concatenate([np.cumsum(part) for part in parts]),
        np.concatenate([np.full(part.shape, part.sum()) for part in parts]),
    )


def larger(a, b):
    return fx.max(a, b)


@pytest.mark.parametrize("block", [37, 128], ids=str)
@pytest.mark.parametrize("width", [None, 8])
def test_segments(lanes, block, width):
    x = RNG.integers(1, 100, 2 * block).astype(np.int32)
    x[block:] = RNG.random(block) < 0.2

    def body(X, Y, t):
        v, flag = X[t], X[block + t] != 0
        Y[0, t] = coop.warp_segmented_inclusive_scan(v, flag, "sum", width=width)
        Y[1, t] = coop.warp_head_segmented_sum(v, flag, width=width)
        Y[2, t] = coop.warp_tail_segmented_sum(v, flag, width=width)
        Y[3, t] = coop.warp_head_segmented_reduce(v, flag, larger, width=width)
        Y[4, t] = coop.block_segmented_inclusive_scan(v, flag, "sum")
        Y[5, t] = coop.block_segmented_reduce(v, flag, "sum")
        pair = coop.block_segmented_reduce([v, v + 1], [flag, False], "sum")
        Y[6, t] = pair[0]
        Y[7, t] = coop.warp_head_segmented_sum(v, flag, width=8, valid_items=5)

    y = run(body, block, x, 8, block)
    v, heads = x[:block], x[block:] != 0
    group = width or lanes
    starts = heads | (np.arange(block) % group == 0)
    after_tails = np.r_[True, heads[:-1]] | (np.arange(block) % group == 0)
    running, total = segments(v, starts)
    np.testing.assert_array_equal(y[0], running)
    np.testing.assert_array_equal(y[1], total)
    np.testing.assert_array_equal(y[2], segments(v, after_tails)[1])
    cuts = np.flatnonzero(starts)[1:]
    largest = [np.full(part.shape, part.max()) for part in np.split(v, cuts)]
    np.testing.assert_array_equal(y[3], np.concatenate(largest))
    np.testing.assert_array_equal(y[4], segments(v, heads)[0])
    np.testing.assert_array_equal(y[5], segments(v, heads)[1])
    np.testing.assert_array_equal(y[6], segments(2 * v + 1, heads)[1])
    leading = np.arange(block) % 8 < 5
    eights = heads | (np.arange(block) % 8 == 0)
    np.testing.assert_array_equal(y[7][leading], segments(v[leading], eights[leading])[1])


@pytest.mark.parametrize("batches", [1, 5, 16, 40])
@pytest.mark.parametrize("block", [37, 128])
def test_batched_reductions(lanes, batches, block):
    width = 16
    x = RNG.integers(0, 2**32, block * batches, dtype=np.uint32)
    each = -(-batches // width)

    def body(X, Y, t):
        values = [X[t * batches + i] for i in range(batches)]
        if batches <= width:
            Y[0, t] = coop.warp_reduce_batched(values, "sum", width=width)
        for i, found in enumerate(coop.warp_sum_batched_to_striped(values, width=width)):
            Y[1 + i, t] = found
        for i, found in enumerate(coop.warp_sum_batched_to_blocked(values, width=width)):
            Y[1 + each + i, t] = found
        # The later lane's value: associative, and wrong in any other order.
        Y[1 + 2 * each, t] = coop.warp_reduce_batched(values[:3], lambda _, b: b, width=width)

    y = run(body, block, x, 2 + 2 * each, block)
    for start in range(0, block, width):
        lanes_ = np.arange(start, min(start + width, block))
        sums = x.reshape(block, batches)[lanes_].sum(axis=0, dtype=np.uint32)
        last = x.reshape(block, batches)[lanes_[-1], :3]
        for lane, thread in enumerate(lanes_):
            for i in range(each):
                if i * width + lane < batches:
                    assert y[1 + i, thread] == sums[i * width + lane]
                if lane * each + i < batches:
                    assert y[1 + each + i, thread] == sums[lane * each + i]
            if lane < batches <= width:
                assert y[0, thread] == sums[lane]
            if lane < min(3, batches):
                assert y[1 + 2 * each, thread] == last[lane]


@pytest.mark.parametrize("block", [37, 128])
@pytest.mark.parametrize("algorithm", ["direct", "striped", "transpose"])
def test_loads_and_stores(lanes, block, algorithm):
    x = RNG.integers(0, 1000, block * N + 2).astype(np.int32)
    some = block * N - 20

    def body(X, Y, t):
        items = coop.block_load(X, N, algorithm=algorithm, start=2)
        coop.block_store(row_of(Y, 0), items, algorithm=algorithm)
        items = coop.block_load(X, N, algorithm=algorithm, valid_items=some, default=-7)
        coop.block_store(row_of(Y, 1), items, algorithm=algorithm)
        coop.block_store(row_of(Y, 2), items, algorithm=algorithm, valid_items=some - 1)
        if block % 16 == 0:
            items = coop.warp_load(X, N, algorithm=algorithm, start=2, width=16)
            coop.warp_store(row_of(Y, 3), items, algorithm=algorithm, width=16)
            items = coop.warp_load(X, N, algorithm=algorithm, width=16, valid_items=5, default=-1)
            coop.warp_store(row_of(Y, 4), items, algorithm=algorithm, width=16)

    y = run(body, block, x, 5, block * N)
    np.testing.assert_array_equal(y[0], x[2:])
    np.testing.assert_array_equal(y[1], np.r_[x[:some], np.full(20, -7)])
    np.testing.assert_array_equal(y[2], np.r_[x[: some - 1], np.zeros(21)])
    if block % 16 == 0:
        np.testing.assert_array_equal(y[3], x[2:])
        inside = np.arange(block * N) % (16 * N) < 5
        np.testing.assert_array_equal(y[4], np.where(inside, x[: block * N], -1))


def test_values_that_share_a_part_share_no_memory(lanes):
    """A sum of numbers, then one of pairs of them: the second must not write what is still read."""

    def body(X, Y, t):
        total = coop.block_sum(X[t])
        for turn in fx.range_constexpr(2):
            pair = coop.block_reduce({"a": X[t], "b": X[t] + turn}, "sum")
            total = total + pair["a"] + pair["b"]
        Y[t] = total + coop.block_max(X[t])

    x = RNG.integers(0, 1000, 256).astype(np.int32)
    y = run(body, 256, x, 256)
    np.testing.assert_array_equal(y, 5 * x.sum() + 256 + x.max())


def test_forms(lanes):
    size = 96
    x = RNG.integers(0, 60, size * N).astype(np.uint32)

    def body(X, Y, t):
        memory = fx.SharedAllocator()
        sort = coop.BlockRadixSort[fx.Uint32, size, N]
        swap = coop.BlockExchange[fx.Uint32, (size, 1, 1), N, "WARP_TIME_SLICING"]
        shift = coop.BlockShuffle[fx.Uint32, size]
        count = coop.BlockHistogram[fx.Uint32, size, N, 64, "ATOMIC"]
        keys = coop.BlockLoad[fx.Uint32, size, N, "TRANSPOSE"](X)
        found = sort.sort_descending(keys, storage=memory.allocate(sort.SharedStorage))
        striped = swap.blocked_to_striped(found, storage=memory.allocate(swap.SharedStorage))
        coop.BlockStore[fx.Uint32, size, N, "STRIPED"](row_of(Y, 0), striped)
        Y[1, t] = shift.up(keys[0], first=3, storage=memory.allocate(shift.SharedStorage))
        counts = count(keys, storage=memory.allocate(count.SharedStorage))
        Y[1, size + t] = counts[t % 64]
        merge = coop.WarpMergeSort[fx.Uint32, 8, N]
        put(row_of(Y, 2), t, merge(keys))
        Y[3, t] = coop.WarpReduce[fx.Uint32, 8].max(keys[0])
        Y[3, size + t] = coop.BlockTopK[fx.Uint32, size, N].max_keys(keys, 3)[0][0]
        flags = [key % 2 == 0 for key in keys]
        dense = swap.scatter_to_striped_flagged(keys, [t * N + i for i in range(N)], flags)
        coop.BlockStore[fx.Uint32, size, N, "STRIPED"](row_of(Y, 4), dense)

    y = run(body, size, x, 5, size * N)
    ordered = np.sort(x)[::-1]
    np.testing.assert_array_equal(y[0], ordered)
    np.testing.assert_array_equal(y[1][:size], np.r_[3, x[::N][:-1]])
    np.testing.assert_array_equal(
        y[1][size : 2 * size], np.bincount(x, minlength=64)[np.arange(size) % 64]
    )
    np.testing.assert_array_equal(y[2], np.sort(x.reshape(-1, 8 * N), axis=1).ravel())
    np.testing.assert_array_equal(y[3][:size], np.repeat(x[::N].reshape(-1, 8).max(axis=1), 8))
    np.testing.assert_array_equal(y[3][size : 2 * size], ordered[::N])
    np.testing.assert_array_equal(y[4], np.where(x % 2, 0, x))


def unknown_operation(v):
    return coop.BlockMergeSort[fx.Int32, 96].sorted(v)


def too_few_items(v):
    return coop.BlockExchange[fx.Int32, 96, 2].blocked_to_striped(v)


def no_threads(v):
    return coop.BlockExchange[fx.Int32, 0].blocked_to_striped(v)


REFUSED = {
    "needs all lanes": lambda v: coop.warp_bitonic_sort(v, width=64),
    "no such arrangement": lambda v: coop.block_exchange([v], "blocked", "diagonal"),
    "another number of items": lambda v: coop.block_merge_sort([v, v], [v])[0],
    "integers": lambda v: coop.block_scatter(v, v.to(fx.Float32)),
    "need an order": lambda v: coop.block_merge_sort({"a": v}),
    "no such bits": lambda v: coop.block_radix_sort(v, begin_bit=9, end_bit=9),
    "compile-time int": lambda v: coop.block_histogram(v, 0)[0],
    "no such algorithm": lambda v: coop.block_load(v, 1, algorithm="vector"),
    "counts items": lambda v: coop.block_merge_sort(v, valid_items=97),
    "more batches": lambda v: coop.warp_reduce_batched([v] * 9, "sum", width=8),
    "is made for another block": coop.BlockShuffle[fx.Int32, 64].up,
    "no operation 'sorted'": unknown_operation,
    "made for another number": too_few_items,
    "class, a size": no_threads,
    "does not fit the values": lambda v: coop.block_rotate(v, storage=[v]),
}


@pytest.mark.parametrize("words", REFUSED)
def test_mistakes_are_refused_at_the_users_line(words):
    use = REFUSED[words]

    def body(X, Y, t):
        Y[t] = use(X[t])

    with config.scope(FLYDSL_TARGET="gfx942"), pytest.raises(UserError, match=words) as caught:
        run(body, 96, np.zeros(96, np.int32), 96)
    assert "test_coop_items.py" in str(caught.value)
