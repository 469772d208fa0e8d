"""Flash attention against float64: modes, sizes, head dimensions, types and architectures."""

from __future__ import annotations

import numpy as np
import pytest
from attention_reference import BF16, FNUZ, FP8
from flash_cases import dense, normal, packed, paged

from flydsl import config
from flydsl_kernels.attention import flash_attention
from flydsl_kernels.attention.ops import forward

# (batch, Sq, Sk, heads, kv heads, d, d of v): every tail of rows and keys, one key, one row.
SIZES = [
    (1, 1, 1, 1, 1, 64, 64), (2, 1, 65, 4, 1, 64, 64), (1, 33, 64, 2, 2, 64, 64),
    (1, 129, 127, 2, 1, 64, 64), (1, 128, 200, 1, 1, 64, 64), (1, 300, 300, 1, 1, 64, 64),
]  # fmt: skip
HEADS = [(96, 96), (128, 128), (192, 128), (40, 72)]
MORE_HEADS = [*HEADS, (64, 64), (256, 64), (32, 160), (256, 256)]


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_sizes(shape, causal, gfx942):
    dense(shape, causal=causal)


@pytest.mark.parametrize("logarithms", [False, True], ids=["plain", "logarithms"])
@pytest.mark.parametrize("groups", [1, 256], ids=["four waves", "two waves"])
def test_many_tiles(groups, logarithms, monkeypatch):
    """Two tiles make an iteration: whole ones, an odd one left, and part of one.

    The number of workgroups decides how many waves each has, and whether the logarithms are wanted
    which weights are summed.
    """
    monkeypatch.setattr(forward, "_GROUPS", groups)
    with config.scope(FLYDSL_TARGET="gfx950"):
        for keys, causal in [(64, True), (192, False), (300, True)]:
            dense((1, 130, keys, 2, 1, 64, 64), causal=causal, logarithms=logarithms)


@pytest.mark.parametrize("d", HEADS, ids=str)
def test_head_dimensions(d, cdna):
    dense((1, 40, 130, 2, 1, *d), causal=True)


@pytest.mark.parametrize("d", [(8, 8), (72, 72), (40, 136)], ids=str)
def test_heads_that_are_padded_where_lanes_have_copies(d):
    with config.scope(FLYDSL_TARGET="gfx1100"):
        dense((1, 20, 40, 2, 1, *d), np.dtype(np.float16), causal=True)


def test_architectures(target):
    dense((1, 40, 70, 2, 1, 64, 96), causal=True)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_half_precision(arch):
    with config.scope(FLYDSL_TARGET=arch):
        dense((2, 70, 130, 4, 2, 64, 96), np.dtype(np.float16), causal=True)


@pytest.mark.parametrize("window", [(0, 0), (17, None), (None, 9), (5, 40), (200, 0)], ids=str)
def test_windows(window, gfx942):
    dense((1, 150, 170, 2, 1, 64, 64), window=window)
    dense((1, 20, 300, 1, 1, 64, 64), window=window)


def test_rows_that_see_nothing_give_zero(cdna):
    out, lse = dense((1, 140, 30, 2, 1, 64, 64), causal=True)
    assert (out[0, :110] == 0).all()
    assert np.isneginf(lse[0, :, :110]).all()


def test_bias_slopes_and_sinks(cdna):
    random = np.random.default_rng()
    sink = 2 * normal(random, 4, np.float32)
    slopes = random.uniform(0, 1, 4).astype(np.float32)
    shape = (2, 40, 100, 4, 2, 64, 64)
    dense(shape, bias=normal(random, (1, 4, 40, 100)), sink=sink)
    dense(shape, alibi_slopes=slopes, causal=True, softmax_scale=0.3)
    dense((1, 100, 40, 4, 2, 64, 64), sink=sink, causal=True)


def test_splits(cdna):
    random = np.random.default_rng()
    sink = normal(random, 2, np.float32)
    dense((1, 40, 300, 2, 1, 64, 64), causal=True, num_splits=3, sink=sink)
    dense((1, 140, 30, 2, 1, 64, 64), causal=True, num_splits=3, sink=sink)


def test_packed_sequences(cdna):
    packed([5, 0, 65, 30, 0], [30, 10, 0, 70, 0])


@pytest.mark.parametrize("layout", ["linear", "vectorised"])
@pytest.mark.parametrize("page", [16, 48, 256])
def test_pages_with_nan_around_them(page, layout, gfx942):
    paged([100, 0, 77], 20, page, layout, window=(9 if page == 16 else None, 0))


def test_pages_on_other_architectures():
    for arch, layout in [("gfx950", "linear"), ("gfx950", "vectorised"), ("gfx1201", "linear")]:
        with config.scope(FLYDSL_TARGET=arch):
            paged([70, 0, 17], 20, 16, layout, window=(40, 0))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201"])
def test_bytes(arch):
    dtype = FNUZ if arch == "gfx942" else FP8
    units = (0.5, 0.25, 2.0)
    with config.scope(FLYDSL_TARGET=arch):
        dense((1, 70, 130, 4, 2, 64, 96), dtype, causal=True, units=units,
              q_descale=units[0], k_descale=units[1], v_descale=units[2])  # fmt: skip
        q = np.full((1, 3, 1, 128), 0.5, dtype)
        k = normal(np.random.default_rng(), (1, 3000, 1, 128), dtype)
        out = flash_attention(q, k, np.ones((1, 3000, 1, 128), dtype))
        assert (out == 1).all(), "V = 1 gives 1"


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
def test_large_keys_stay_finite(dtype, gfx942):
    """Scores in the thousands: one key takes nearly all, and each row has its own maximum."""
    random = np.random.default_rng()
    q, k, v = (normal(random, (1, 200, 2, 64), dtype) for _ in range(3))
    out = flash_attention(q, (k * 64).astype(dtype), v, causal=True)
    assert np.isfinite(out.astype(np.float32)).all()
    from attention_reference import Case, attention, check

    wide = (k[0] * 64).astype(dtype)
    expected, bound, *_ = attention(Case(q[0], wide, v[0], right=0), dtype)
    check(out[0], expected, bound)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
def test_values_of_one_give_one(dtype, cdna):
    random = np.random.default_rng()
    q, k = (normal(random, (1, 100, 1, 64), dtype) for _ in range(2))
    out = flash_attention(q, k, np.ones((1, 100, 1, 64), dtype)).astype(np.float64)
    # Weights and the sum's own rounding: one unit of the type each way, then the result's.
    assert np.abs(out - 1).max() <= 2 * (2.0**-8 if dtype == BF16 else 2.0**-11)


def test_nan_outside_what_is_seen_does_not_spread(cdna):
    """Keys before a window and past the last visible one are never read."""
    random = np.random.default_rng()
    q, k, v = (normal(random, (1, n, 1, 64)) for n in (10, 300, 300))
    expected = flash_attention(q, k, v, window=(5, 0))
    k[:, :285] = np.nan
    v[:, :285] = np.nan
    assert np.array_equal(flash_attention(q, k, v, window=(5, 0)), expected)
    lengths = np.array([40], np.int32)
    q, k, v = (normal(random, (1, n, 1, 64)) for n in (10, 100, 100))
    expected = flash_attention(q, k[:, :40], v[:, :40])
    k[:, 40:] = np.nan
    v[:, 40:] = np.nan
    assert np.array_equal(flash_attention(q, k, v, seqlens_k=lengths), expected)


def test_arrays_of_more_than_four_gibibytes(gfx942):
    """Batches lie 2³¹ elements apart; only what is used of the memory between exists."""
    random = np.random.default_rng()
    apart = 1 << 31
    arrays = []
    for rows in (40, 70, 70):
        own = normal(random, (2, rows, 1, 64))
        wide = np.zeros(apart + rows * 64, BF16)
        view = np.lib.stride_tricks.as_strided(
            wide, (2, rows, 1, 64), (2 * apart, 128, 128, 2), writeable=True
        )
        view[...] = own
        arrays.append(view)
    q, k, v = arrays
    out = flash_attention(q, k, v)
    expected = flash_attention(*(np.ascontiguousarray(x) for x in arrays))
    assert np.array_equal(out, expected)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_many_sizes(target):
    random = np.random.default_rng()
    for rows in [1, 2, 31, 32, 63, 65, 96, 127, 130, 255, 257, 300]:
        keys = int(random.integers(1, 300))
        for d, d_v in MORE_HEADS:
            dense((1, rows, keys, 3, 1, d, d_v), causal=bool(rows % 2))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_modes_on_every_architecture(target):
    random = np.random.default_rng()
    slopes = random.uniform(0, 1, 4).astype(np.float32)
    dense((2, 40, 100, 4, 2, 64, 64), bias=normal(random, (1, 4, 40, 100)), alibi_slopes=slopes)
    dense((1, 130, 70, 2, 1, 64, 64), np.dtype(np.float16), window=(20, 3), num_splits=2)
    packed([1, 130], [129, 131], causal=False)
    for layout in ("linear", "vectorised"):
        for page in (16, 80, 1024):
            paged([100, 0, 77], 20, page, layout)
            paged([100, 33], 3, page, layout, window=(9, 0))
