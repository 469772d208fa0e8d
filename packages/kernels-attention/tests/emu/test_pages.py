"""What is in device memory, where nobody checks it, makes no kernel leave its arrays.

Checks of what is in host memory are turned off here; the sanitizer reports every access outside of
an array.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import flydsl_emu
from flydsl.errors import UserValueError
from flydsl_kernels.attention import (
    flash_attention,
    fused_rope_kv_cache,
    mla_decode,
    paged_attention_decode,
)
from flydsl_kernels.attention.arrays import check_some_page
from flydsl_kernels.attention.ops import decode, forward, latent

BF16 = ml_dtypes.bfloat16
WRONG = np.array([[7, -1, 2**31 - 1, -(2**31)], [5, 6, 1 << 20, -70]], np.int32)
"""Pages of two sequences, where a cache has five."""
GOOD = np.array([[3, 0, 4, 1]], np.int32)


@pytest.fixture
def unchecked(monkeypatch):
    """Look at nothing on the host, as for arrays on a device."""
    monkeypatch.setattr(forward, "_check_lengths", lambda *_: None)
    monkeypatch.setattr(forward, "check_starts", lambda *_: None)
    for module in (decode, latent):
        monkeypatch.setattr(module, "check_pages", lambda *_: None)


def _numbers(*shape):
    return np.random.default_rng().standard_normal(shape).astype(BF16)


def _batch(lengths):
    """Return tables and lengths of two wrong sequences, and of a right one between them."""
    table = np.concatenate((WRONG[:1], GOOD, WRONG[1:]))
    return table, np.array([lengths[0], 50, lengths[1]], np.int32)


LENGTHS = [(64, 33), (-5, -(2**31)), (65, 2**31 - 1)]


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("layout", ["linear", "vectorised"])
@pytest.mark.parametrize("page", [16, 64])
def test_flash_attention(page, layout, lengths, unchecked, gfx942):
    q = _numbers(3, 5, 2, 64)
    shapes = ((5, page, 1, 64), (5, page, 1, 64))
    if layout == "vectorised":
        shapes = (5, 1, 8, page, 8), (5, 1, page // 8, 64, 8)
    keys, values = (_numbers(*shape) for shape in shapes)
    table, seqlens = _batch(lengths)
    with flydsl_emu.sanitize():
        found = flash_attention(q, keys, values, block_table=table, seqlens_k=seqlens,
                                kv_layout=layout, causal=True)  # fmt: skip
    right = flash_attention(q[1:2], keys, values, block_table=GOOD, seqlens_k=seqlens[1:2],
                            kv_layout=layout, causal=True)  # fmt: skip
    assert np.array_equal(found[1:2], right)


@pytest.mark.parametrize("starts", [
    ([0, 9, 3, 20], [0, 40, 10, 90]), ([-7, 5, 11, 2**31 - 1], [-(2**31), 30, 60, 1 << 30]),
])  # fmt: skip
def test_packed_sequences(starts, unchecked, gfx942):
    q, k, v = _numbers(11, 2, 64), _numbers(60, 1, 64), _numbers(60, 1, 64)
    given = [np.array(s, np.int32) for s in starts]
    with flydsl_emu.sanitize():
        flash_attention(
            q, k, v, causal=True, cu_seqlens_q=given[0], cu_seqlens_k=given[1], max_seqlen_q=9
        )


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("page", [16, 48, 128])
def test_paged_decoding(page, lengths, unchecked, gfx942):
    q, keys, values = _numbers(3, 4, 64), _numbers(5, page, 2, 64), _numbers(5, page, 2, 64)
    table, seqlens = _batch(lengths)
    with flydsl_emu.sanitize():
        found = paged_attention_decode(q, keys, values, table, seqlens, partitions=4)
    right = paged_attention_decode(q[1:2], keys, values, GOOD, seqlens[1:2])
    assert np.array_equal(found[1:2], right)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("page", [16, 64])
def test_latent_decoding(page, lengths, unchecked, gfx942):
    q, cache = _numbers(3, 16, 576), _numbers(5, page, 576)
    table, seqlens = _batch(lengths)
    with flydsl_emu.sanitize():
        found = mla_decode(q, cache, table, seqlens, partitions=4)
    right = mla_decode(q[1:2], cache, GOOD, seqlens[1:2])
    assert np.array_equal(found[1:2], right)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_slots(kind, gfx942):
    slots = np.array([-1, 3, 20, np.iinfo(kind).max, np.iinfo(kind).min], kind)
    q = _numbers(5, 2, 32)
    cache = np.full((2, 5, 4, 2, 32), 7, BF16)
    angles = np.ones((5, 16), np.float32)
    with flydsl_emu.sanitize():
        fused_rope_kv_cache(
            q, q, q, angles, angles, None, slots=slots, key_cache=cache[0], value_cache=cache[1]
        )
    flat = cache.reshape(2, 20, 2, 32)
    assert np.array_equal(flat[1, 3], q[1])
    assert (np.delete(flat, 3, axis=1) == 7).all()


def test_no_pages_at_all(gfx942):
    q, lengths = _numbers(1, 4, 64), np.zeros(1, np.int32)
    for pages, columns in ((0, 4), (5, 0)):
        table = np.zeros((1, columns), np.int32)
        with pytest.raises(UserValueError, match="no pages") as caught:
            check_some_page(table, pages)
        assert caught.value.code == "FLY-U949"
    cache = _numbers(5, 16, 2, 64)
    assert (paged_attention_decode(q, cache, cache, table, lengths) == 0).all()
