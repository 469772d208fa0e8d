"""`moe_sort`, and the operations on rows in its order."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import routing_reference as reference

import flydsl_emu
from flydsl.errors import ConfigError, UserError
from flydsl_kernels.moe import moe_permute, moe_reduce, moe_sort, moe_unpermute
from flydsl_kernels.moe.ops import ordering

BF16 = np.dtype(ml_dtypes.bfloat16)


def check(ids, experts, unit, mask=None, tokens=None):
    """Sort and compare every element of every output."""
    weights = np.random.default_rng().standard_normal(ids.shape).astype(np.float32)
    given = None if tokens is None else np.array([tokens], np.int32)
    found = moe_sort(ids, weights, experts, unit=unit, expert_mask=mask, num_tokens=given)
    out, kept, blocks, places = reference.sorting(ids, weights, experts, unit, mask, tokens)
    count = len(ids) if tokens is None else tokens
    assert found.valid.tolist() == [len(out), count]
    none = (ids.shape[1] << 24) | len(ids)
    assert found.ids.tolist() == out + [none] * (len(found.ids) - len(out))
    assert np.array_equal(found.weights[: len(kept)], np.array(kept, np.float32))
    assert not found.weights[len(kept) :].any()
    assert found.experts.tolist() == blocks + [-1] * (len(found.experts) - len(blocks))
    assert np.array_equal(found.places, places)
    return found


def routing(tokens, experts, slots):
    """Random experts, the same one in several slots allowed."""
    return np.random.default_rng().integers(0, experts, (tokens, slots)).astype(np.int32)


@pytest.mark.parametrize(
    ("tokens", "experts", "slots", "unit"),
    [(1, 4, 1, 16), (3, 4, 6, 32), (17, 8, 2, 16), (64, 64, 8, 32), (129, 64, 6, 64),
     (40, 1000, 8, 8), (5, 1, 2, 1), (600, 32, 3, 128)],
)  # fmt: skip
def test_one_launch(tokens, experts, slots, unit, wide_and_narrow):
    check(routing(tokens, experts, slots), experts, unit)


@pytest.mark.parametrize("experts", [8, 700])
def test_several_launches(experts, wide_and_narrow):
    check(routing(1700 if experts < 100 else 1100, experts, 8), experts, 32)


def test_all_tokens_to_one_expert_and_none_to_the_others(gfx942):
    found = check(np.full((129, 2), 3, np.int32), 8, 64)
    assert set(found.experts.tolist()) == {3, -1}


def test_experts_elsewhere_and_numbers_that_are_none(gfx942):
    ids = routing(50, 16, 4)
    mask = np.random.default_rng().integers(0, 2, 16)
    assert check(ids, 16, 8, mask).local == mask.sum()
    check(ids, 16, 8, np.zeros(16, bool))
    ids[3] = -1
    ids[4] = [16, 1 << 30, -(1 << 31), 1]
    check(ids, 16, 8)


def test_the_number_of_tokens_in_memory(gfx942):
    check(routing(40, 8, 3), 8, 16, tokens=23)
    check(routing(40, 8, 3), 8, 16, tokens=0)
    check(routing(2000, 8, 6), 8, 16, np.arange(8) % 3, tokens=1777)


def test_no_tokens(gfx942):
    found = moe_sort(np.zeros((0, 2), np.int32), np.zeros((0, 2), np.float32), 8)
    assert found.ids.size == found.experts.size == 0
    assert found.valid.tolist() == [0, 0]


def test_what_lies_around_the_outputs_stays(gfx942, monkeypatch):
    """Outputs are cut from larger arrays of other numbers."""
    inner, kept = ordering.empty_outputs, []

    def guarded(problem, like):
        arrays = []
        for array in inner(problem, like):
            whole = np.full(array.size + 64, 77, array.dtype)
            kept.append(whole)
            arrays.append(whole[32:-32].reshape(array.shape))
        return tuple(arrays)

    monkeypatch.setattr(ordering, "empty_outputs", guarded)
    check(routing(33, 8, 3), 8, 16)
    check(routing(2100, 8, 5), 8, 16)
    assert len(kept) == 10
    for whole in kept:
        assert (whole[:32] == 77).all()
        assert (whole[-32:] == 77).all()


def test_the_sanitizer_finds_nothing(gfx942):
    with flydsl_emu.sanitize():
        check(routing(130, 8, 3), 8, 16, np.arange(8) % 3, tokens=120)
        check(routing(2100, 8, 5), 8, 16)


@pytest.mark.parametrize("columns", [1, 525])
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BF16, np.dtype(np.float16)], ids=str)
def test_rows_there_and_back(columns, dtype, gfx942):
    """Sums are in f32, k additions of products: k 2^-23 of the magnitudes, and one rounding."""
    random = np.random.default_rng()
    x = random.standard_normal((17, columns)).astype(dtype)
    ids, weights = routing(17, 8, 3), random.standard_normal((17, 3)).astype(np.float32)
    ids[2, 1] = -1
    order = moe_sort(ids, weights, 8, unit=4)
    rows = moe_permute(x, order)
    token = order.ids & 0xFFFFFF
    assert np.array_equal(rows[token < 17], x[token[token < 17]])
    assert not rows[token == 17].any()
    rows[token == 17] = np.nan  # padding must not be read
    back = moe_unpermute(rows, order, weights)
    factors = np.where(ids >= 0, weights, 0).astype(np.float64)
    wide = x.astype(np.float64)
    expected = factors.sum(1, keepdims=True) * wide
    magnitude = np.abs(factors).sum(1, keepdims=True) * np.abs(wide)
    eps = float(ml_dtypes.finfo(dtype).eps)
    # Below the least normal number, f16 rounds by half of 2^-24.
    bound = 3 * 2.0**-23 * magnitude + eps * np.abs(expected) + 2.0**-25
    assert np.all(np.abs(back.astype(np.float64) - expected) <= bound)


def test_reduce_leaves_out_what_is_not_there(gfx942):
    random = np.random.default_rng()
    rows = random.standard_normal((5, 4, 100)).astype(np.float32)
    places = random.integers(-1, 2, (5, 4)).astype(np.int32)
    expected = np.where((places >= 0)[..., None], rows.astype(np.float64), 0).sum(1)
    rows[places < 0] = np.nan
    assert np.abs(moe_reduce(rows, places) - expected).max() <= 4 * 2.0**-23 * 20
    rows = np.nan_to_num(rows)
    whole = moe_reduce(rows, out=np.empty((5, 100), BF16))
    assert np.abs(whole.astype(np.float64) - rows.astype(np.float64).sum(1)).max() < 20 * 2.0**-8


def test_refusals(gfx942):
    ids, weights = routing(4, 8, 2), np.zeros((4, 2), np.float32)
    for options in ({"experts": 0}, {"experts": 1025}, {"experts": 8, "unit": 0}):
        with pytest.raises(ConfigError):
            moe_sort(ids, weights, **options)
    for bad in ((ids[0], weights), (ids, weights[:3]), (ids.astype(np.int64), weights)):
        with pytest.raises(UserError):
            moe_sort(*bad, 8)
    with pytest.raises(UserError):
        moe_sort(ids, weights, 8, expert_mask=np.ones(7, np.int32))
    with pytest.raises(UserError):
        moe_permute(np.zeros((5, 3), np.float32), moe_sort(ids, weights, 8))
