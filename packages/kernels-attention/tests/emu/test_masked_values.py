"""Infinities and NaN in keys and values that some rows of a block see and others must not.

A row that sees none of them is exactly what it is without them. In one that does, an element whose
visible values are not all finite is what float64 gives for positive weights: their sum.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from attention_reference import BF16, FNUZ, FP8, mask
from decode_reference import F16, FN, Case
from flash_cases import normal

from flydsl import config
from flydsl_kernels.attention import flash_attention, mla_decode, paged_attention_decode

E5M2 = np.dtype(ml_dtypes.float8_e5m2)
ODD = (np.nan, np.inf, -np.inf)


def spoil(random, array, share=0.02):
    """Return a copy with some elements that are not finite, and one with zeros there."""
    out, without = array.copy(), array.copy()
    chosen = random.random(array.shape) < share
    kinds = ODD if array.dtype.itemsize > 1 else (np.nan,)
    out[chosen] = random.choice(kinds, chosen.sum()).astype(array.dtype)
    without[chosen] = 0
    return out, without


def odd_sums(values, seen):
    """Return the sum of what is not finite among the visible values [Sk, H, D]; zero if nothing.

    Args:
        values: Values of one sequence.
        seen: Which keys each row sees [Sq, Sk].
    """
    wide = values.astype(np.float64)
    odd = np.where(np.isfinite(wide), 0.0, wide)
    with np.errstate(invalid="ignore"):
        return np.array([odd[there].sum(0) for there in seen])


def compare(found, without, sums):
    """Check results [Sq, H, D] beside those with zeros and the sums of what was zero."""
    found, without = found.astype(np.float64), without.astype(np.float64)
    assert np.isfinite(without).all()
    wanted = np.where(sums == 0, without, sums)
    assert np.array_equal(found, wanted, equal_nan=True)
    assert (sums == 0).any()


def spoiled_values(shape, dtype=BF16, *, causal=False, window=(None, None), **options):
    """Run a dense problem (batch, Sq, Sk, heads, kv heads, d, d of v) with such values."""
    batch, rows, keys, heads, kv_heads, d, d_v = shape
    random = np.random.default_rng()
    q = normal(random, (batch, rows, heads, d), dtype)
    k = normal(random, (batch, keys, kv_heads, d), dtype)
    # So few that among many keys, too, some rows and channels see none.
    share = min(0.02, 1.5 / keys)
    v, zeros = spoil(random, normal(random, (batch, keys, kv_heads, d_v), dtype), share)
    options |= {"causal": causal, "window": window}
    found, without = (flash_attention(q, k, x, **options) for x in (v, zeros))
    seen = mask(rows, keys, window[0], 0 if causal else window[1])
    for b in range(batch):
        sums = odd_sums(np.repeat(v[b], heads // kv_heads, 1), seen)
        compare(found[b], without[b], sums)


@pytest.mark.parametrize("window", [(None, 0), (17, 0), (2, 9), (90, None)], ids=str)
def test_values_that_some_rows_see(window, cdna):
    spoiled_values((1, 140, 150, 2, 1, 64, 64), window=window)


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
def test_values_with_small_matrices(arch):
    with config.scope(FLYDSL_TARGET=arch):
        spoiled_values((1, 70, 80, 1, 1, 64, 32), F16, window=(20, 0))


def test_values_of_other_types(cdna):
    byte = FP8 if config.core.TARGET.get() == "gfx950" else FNUZ
    spoiled_values((1, 70, 130, 2, 1, 64, 96), byte, causal=True)
    spoiled_values((1, 70, 130, 1, 1, 64, 40), F16, causal=True, num_splits=2)


def test_keys_that_some_rows_see(cdna):
    random = np.random.default_rng()
    q, k, v = (normal(random, (1, n, 1, 64)) for n in (140, 150, 150))
    for odd in ODD:
        j = int(random.integers(20, 150))
        spoiled = k.copy()
        spoiled[0, j, 0, 3] = odd
        found, without = (flash_attention(q, x, v, window=(40, 0)) for x in (spoiled, k))
        sees = mask(140, 150, 40, 0)[:, j]
        assert np.array_equal(found[0, ~sees], without[0, ~sees])
        if np.isnan(odd):
            assert np.isnan(found[0, sees].astype(np.float32)).all()


def sequences(kind, layout, window):
    """Run sequences of several lengths, packed or in pages, with such values."""
    random = np.random.default_rng()
    lengths, rows, page = [100, 3, 77], 20, 16
    starts_q = np.array([0, 20, 40, 60], np.int32)
    q = normal(random, (60, 2, 64))
    k, (v, zeros) = normal(random, (180, 1, 64)), spoil(random, normal(random, (180, 1, 64)))
    starts_k = np.cumsum([0, *lengths]).astype(np.int32)
    options = {"causal": True, "window": window}
    if kind == "packed":
        options |= {"cu_seqlens_q": starts_q, "cu_seqlens_k": starts_k}
        found, without = (flash_attention(q, k, x, **options) for x in (v, zeros))
    else:
        table = random.permutation(24)[:21].reshape(3, 7).astype(np.int32)
        options |= {"block_table": table, "seqlens_k": np.array(lengths, np.int32)}
        pages = np.full((3, 24, page, 1, 64), np.nan, BF16)
        for n, (start, length) in enumerate(zip(starts_k, lengths, strict=False)):
            for j in range(length):
                for array, packed in zip(pages, (k, v, zeros), strict=True):
                    array[table[n, j // page], j % page] = packed[start + j]
        if layout == "vectorised":
            options["kv_layout"] = layout
            keys = pages[0].reshape(24, page, 1, 8, 8).transpose(0, 2, 3, 1, 4).copy()
            values = pages[1:].reshape(2, 24, page // 8, 8, 1, 64).transpose(0, 1, 4, 2, 5, 3)
            pages = [keys, *(x.copy() for x in values)]
        found, without = (
            flash_attention(q.reshape(3, rows, 2, 64), pages[0], x, **options).reshape(60, 2, 64)
            for x in pages[1:]
        )
    for n, length in enumerate(lengths):
        own = slice(starts_k[n], starts_k[n + 1])
        sums = odd_sums(np.repeat(v[own], 2, 1), mask(rows, length, window[0], 0))
        compare(found[starts_q[n] : starts_q[n + 1]], without[starts_q[n] : starts_q[n + 1]], sums)


def test_values_of_packed_sequences(cdna):
    sequences("packed", "", (None, None))


@pytest.mark.parametrize("layout", ["linear", "vectorised"])
def test_values_in_pages(layout, gfx942):
    sequences("paged", layout, (9, None))


def test_values_in_pages_on_gfx950():
    with config.scope(FLYDSL_TARGET="gfx950"):
        sequences("paged", "linear", (None, None))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("d", [(64, 64), (96, 160), (128, 128), (256, 256)], ids=str)
@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
def test_values_in_every_mode(dtype, d, target):
    for window in ((None, 0), (0, 0), (33, 5), (None, 40), (200, 0)):
        spoiled_values((2, 150, 130, 2, 1, *d), dtype, window=window)
        spoiled_values((1, 20, 300, 2, 1, *d), dtype, window=window, num_splits=3)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("kind", "layout"), [("packed", ""), ("paged", "linear"), ("paged", "vectorised")]
)
def test_values_of_sequences_in_every_mode(kind, layout, target):
    for window in ((None, None), (9, None), (60, None)):
        sequences(kind, layout, window)


def decoded(case):
    """Run a decoding case with such values near the end of its sequences, and with zeros there."""
    random = np.random.default_rng()
    given, lens = case.arrays, np.array(case.lens, np.int32)
    values, odd = given["values"], np.zeros(given["values"].shape)
    kinds = ODD if case.kind in (BF16, F16, E5M2) else (np.nan,)
    for row, length in enumerate(lens):
        for at in range(max(0, length - 6), length):
            place = given["table"][row, at // case.page], at % case.page
            chosen = random.random((case.kv, case.dv)) < 0.2
            odd[place][chosen] = random.choice(kinds, chosen.sum())
    results = []
    for kept in (odd, np.zeros_like(odd)):
        given["values"] = np.where(odd != 0, kept.astype(case.kind), values)
        results.append(
            paged_attention_decode(
                given["q"], *case.caches(), given["table"], lens, window=case.window,
                k_scale=given["units"][0], v_scale=given["units"][1], cache_layout=case.layout,
                return_lse=True,
            )
        )  # fmt: skip
    (found, logs), (without, other_logs) = results
    assert np.array_equal(logs, other_logs)
    for row, length in enumerate(lens):
        at = np.arange(length)
        own = odd[given["table"][row, at // case.page], at % case.page]
        places = length - case.queries + np.arange(case.queries)[:, None]
        seen = at <= places
        if case.window is not None:
            seen &= at >= places - case.window
        sums = odd_sums(np.repeat(own, case.heads // case.kv, 1), seen)
        compare(found[row], without[row], sums)


DECODED = {
    "linear": {"queries": 3, "lens": (0, 37, 2), "dv": 32},
    "vectorised": {
        "queries": 2, "lens": (33,), "dv": 64, "layout": "vectorised", "window": 2, "kind": FN,
        "scale": "number",
    },
    "transposed": {
        "queries": 4, "lens": (40,), "dv": 32, "layout": "transposed", "window": 9, "kind": FNUZ,
        "scale": "token", "page": 64,
    },
    "with infinities of 8 bits": {
        "queries": 2, "lens": (40,), "dv": 32, "kind": E5M2, "scale": "number",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", DECODED)
def test_values_that_some_queries_see_while_decoding(name, gfx942):
    decoded(Case(heads=4, d=64, **DECODED[name]))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", DECODED)
def test_values_while_decoding_everywhere(name, target):
    for width in (32, 96, 128, 256):
        for queries in (2, 3, 4):
            decoded(Case(heads=4, d=64, **DECODED[name] | {"dv": width, "queries": queries}))


def test_units_that_some_queries_see(gfx942):
    """A unit that is no number makes NaN of what sees its value, and of nothing else."""
    case = Case(heads=4, d=64, lens=(40,), dv=32, queries=3, kind=FN, scale="token", page=64)
    given, lens = case.arrays, np.array(case.lens, np.int32)
    results = []
    for unit in (1.0, np.nan):
        given["units"][1][given["table"][0, 0], :, 38] = unit
        results.append(
            paged_attention_decode(
                given["q"], *case.caches(), given["table"], lens, k_scale=given["units"][0],
                v_scale=given["units"][1],
            ).astype(np.float32)
        )  # fmt: skip
    assert np.array_equal(results[1][:, 0], results[0][:, 0])
    assert np.isnan(results[1][:, 1:]).all()


def latent(lens, heads, queries, page, kind=BF16):
    """Decode latent attention with a token that is not finite and that some queries see."""
    random = np.random.default_rng()
    count, most = len(lens), -(-max(lens) // page)
    cache = random.standard_normal((count * most, page, 576)).astype(kind)
    table = random.permutation(count * most).reshape(count, most).astype(np.int32)
    q = random.standard_normal((count, queries, heads, 576)).astype(BF16)
    without, logs = mla_decode(q, cache, table, np.array(lens, np.int32), return_lse=True)
    for odd in ODD if cache.itemsize > 1 else (np.nan,):
        spoiled, at = cache.copy(), [n - 1 - int(random.integers(0, queries)) for n in lens]
        for row, key in enumerate(at):
            spoiled[table[row, key // page], key % page, 7] = odd
        found, others = mla_decode(q, spoiled, table, np.array(lens, np.int32), return_lse=True)
        for row, query in np.ndindex(count, queries):
            if at[row] > lens[row] - queries + query:
                assert np.array_equal(found[row, query], without[row, query])
                assert np.array_equal(others[row, :, query], logs[row, :, query])
                continue
            # A score is infinite too: without it, or none, as is zero times its value.
            own = found[row, query].astype(np.float32)
            none = ~(q[row, query, :, 7].astype(np.float32) * odd < 0)
            assert np.isnan(own[none]).all()
            assert np.isnan(own[:, 7]).all()
            assert np.isfinite(np.delete(own[~none], 7, 1)).all()


def test_tokens_that_some_queries_see(gfx942):
    latent((37, 30), 16, 3, 16)
    latent((33,), 32, 2, 64, FN)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_tokens_everywhere(target):
    for heads in (8, 16, 40, 128):
        for queries in (2, 3, 4):
            latent((70, 30, 64), heads, queries, 16)
            latent((33,), heads, queries, 64, FN)
