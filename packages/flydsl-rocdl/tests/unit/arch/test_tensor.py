"""Facts of tensor descriptors, and how tiles are shared and laid out: plain Python."""

from __future__ import annotations

import itertools

import pytest

from flydsl.errors import UserValueError
from flydsl_rocdl.arch import KNOWN
from flydsl_rocdl.arch.tensor import FIELDS, GROUPS, pad_codes
from flydsl_rocdl.expr.tensor_tiles import (
    LdsRuns,
    compute_padding_encoding,
    compute_warp_distribution,
    dense_strides,
    lds_runs,
    padded_strides,
)
from flydsl_rocdl.expr.tensor_words import descriptor


def test_fields_fill_their_groups_without_overlap() -> None:
    used: list[set[int]] = [set() for _ in GROUPS]
    for name, field in FIELDS.items():
        bits = set(range(field.bit, field.bit + field.width))
        assert max(bits) < 32 * GROUPS[field.group], name
        assert not bits & used[field.group], name
        used[field.group] |= bits
    assert used[1] == set(range(256))  # group 1 has no bit to spare


def test_descriptors_are_packed_as_published() -> None:
    """Words written down by hand from the public structures."""
    found = descriptor(
        {
            "valid": 1, "lds_address": 0x1234, "address": 0x1FF_89AB_CDEF, "workgroup_mask": 0x8001,
            "element": 1, "pad": 1, "pad_interval": 3, "pad_amount": 7, "extent0": 0x12345678,
            "extent1": 0x9ABCDEF0, "size0": 64, "size1": 256, "stride1": 0xABCD_1234_5678,
        }
    )  # fmt: skip
    assert found.short
    assert found.words[0] == (1, 0x1234, 0x89ABCDEF, 0x1FF | 2 << 30)
    assert found.words[1] == (
        0x8001 | 1 << 16 | 1 << 20 | 3 << 22 | 7 << 25,
        0x5678 << 16,
        0x1234 | 0xDEF0 << 16,
        0x9ABC | 64 << 16,
        256,
        0x12345678,
        0xABCD,
        0,
    )
    five = descriptor(
        {
            "valid": 1, "size2": 3, "stride2": 0xFEDC_BA98_7654, "extent2": 5, "extent3": 6,
            "stride3": 0x1_0000_0002, "size3": 7, "stride4": 0x3_0000_0004, "extent4": 0x50006,
            "size4": 9,
        }
    )  # fmt: skip
    assert not five.short
    assert five.words[1][4:] == (3 << 16, 0, 0x7654 << 16, 0xFEDCBA98)
    assert five.words[2] == (5, 6, 2, 1 | 7 << 16)
    assert five.words[3] == (4, 3 | 6 << 16, 5 | 9 << 16, 0)
    rows = descriptor({"valid": 1, "gather": 1, "wide_rows": 1}, (10, 11, 12, 13, 14))
    assert rows.words[0][0] == 1 | 3 << 30
    assert rows.words[2:] == ((10, 11, 12, 13), (14, 0, 0, 0))
    with pytest.raises(UserValueError, match="size0 of a tensor transfer"):
        descriptor({"size0": 1 << 16})


def test_pads() -> None:
    for interval, amount in itertools.product((2, 4, 8, 256), (1, 2, 128)):
        assert pad_codes(4 * interval, 4 * amount) == (interval.bit_length() - 2, amount - 1)
    for interval, amount in ((4, 4), (24, 4), (2048, 4), (64, 516), (64, 0), (64, 2), (6, 4)):
        assert pad_codes(interval, amount) is None
    assert compute_padding_encoding(32, 8, 2) == (3, 3)
    with pytest.raises(UserValueError):
        compute_padding_encoding(3, 8, 2)


def test_waves_fill_the_outer_modes_first() -> None:
    assert compute_warp_distribution((64, 128), 8) == ((8, 1), (8, 128))
    assert compute_warp_distribution((4, 128), 8) == ((4, 2), (1, 64))
    assert compute_warp_distribution((6, 2, 32), 16) == ((4, 2, 2), (2, 1, 16))
    assert compute_warp_distribution((1,), 4) == ((4,), (1,))
    with pytest.raises(UserValueError):
        compute_warp_distribution((4, 4), 3)


def test_runs_in_lds() -> None:
    assert dense_strides((4, 8, 16)) == (128, 16, 1)
    assert lds_runs((4, 8, 16), (128, 16, 1)) == LdsRuns()
    assert lds_runs((4, 8, 16), (160, 20, 1)) == LdsRuns(16, 4)
    assert lds_runs((4, 8, 16), (136, 16, 1)) == LdsRuns(128, 8)
    assert lds_runs((1, 8, 16), (7, 20, 1)) == LdsRuns(16, 4)
    for wrong in ((160, 16, 2), (128, 8, 1), (168, 20, 1), (16, 128, 1)):
        with pytest.raises(UserValueError):
            lds_runs((4, 8, 16), wrong)
    for shape, interval, amount in (((4, 8, 16), 16, 4), ((4, 8, 16), 32, 2), ((4, 64), 16, 1)):
        padded = padded_strides(shape, interval, amount)
        if padded is None:
            assert shape[-1] > interval or interval % shape[-1] == 0
            continue
        dense = dense_strides(shape)
        for place in itertools.product(*(range(x) for x in shape)):
            number = sum(p * d for p, d in zip(place, dense, strict=True))
            at = sum(p * d for p, d in zip(place, padded, strict=True))
            assert at == number + number // interval * amount


def test_who_has_clusters_and_the_mover() -> None:
    having = {name for name, facts in KNOWN.items() if {"cluster", "tdm"} & facts.has}
    assert having == {"gfx1250"}
    assert {"cluster", "tdm", "wave-id"} <= KNOWN["gfx1250"].has
