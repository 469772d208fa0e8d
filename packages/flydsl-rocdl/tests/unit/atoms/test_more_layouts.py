"""Layouts of scaled, sparse and many-block operations, written independently, and their text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flydsl.dialects import tiled
from flydsl.dialects.atoms import MmaOp, parse_mma
from flydsl.dialects.fly_types import MmaAtomType
from flydsl.errors import UserValueError
from flydsl.layout import Layout
from flydsl_rocdl.atoms import MFMA, SMFMAC, SWMMAC, WMMA, MFMA_Scale, WMMAScale

SOME: list[MmaOp] = [
    MFMA(4, 64, 4, "f16", "f16", "f32"),
    MFMA(16, 16, 8, "xf32", "xf32", "f32"),
    MFMA_Scale(32, 32, 64, "f6E2M3FN", "f4E2M1FN", "f32", 3, 1),
    SMFMAC(16, 16, 64, "i8", "i8", "i32", 1),
    WMMA(16, 16, 64, "f8E5M2", "f8E4M3FN", "f16", interleaved=True, mod_c=3, reuse_b=True),
    WMMAScale(32, 16, 128, "f4E2M1FN", "f4E2M1FN", "f32", 1, 0, 16, 2, True, False),
    SWMMAC(16, 16, 64, "i4", "i4", "i32", False, True, True),
]


@pytest.mark.parametrize("atom", SOME, ids=str)
def test_text_is_read_back(atom: MmaOp) -> None:
    assert parse_mma(str(atom)) == atom


@pytest.mark.parametrize("m", [16, 32])
def test_scaled_operands(m: int) -> None:
    k = 2048 // m
    atom = MFMA_Scale(m, m, k, "f8E4M3FN", "f4E2M1FN", "f32")
    groups = 64 // m
    for row in range(m):
        for column in range(k):
            half, within = divmod(column, k // 2)
            eight = (within // 16 * m + row, half * 16 + within % 16)
            four = (column // 32 * m + row, column % 32)
            assert atom.layout_a_tv()(eight) == atom.layout_b_tv()(four) == row + m * column
        for block in range(groups):
            assert atom.layout_scale_tv()((block * m + row, 0)) == row + m * block


@pytest.mark.parametrize(
    ("m", "k", "element"), [(16, 32, "f16"), (32, 32, "bf16"), (16, 64, "i8"), (16, 128, "i8")]
)
def test_sparse_operands(m: int, k: int, element: str) -> None:
    atom = SMFMAC(m, m, k, element, element, "i32" if element == "i8" else "f32")
    assert (atom.columns_per_place("A"), atom.columns_per_place("B")) == (2, 1)
    groups = 64 // m
    kept = k // 2 // groups
    size = 1 if element == "i8" else 2
    runs = max(1, k // groups * size // 16)
    run = k // groups // runs
    for row in range(m):
        for column in range(k // 2):
            place = (column // kept * m + row, column % kept)
            assert atom.layout_a_tv()(place) == row + m * column
        for column in range(k):
            high, low = divmod(column, groups * run)
            place = (low // run * m + row, high * run + low % run)
            assert atom.layout_b_tv()(place) == row + m * column


@pytest.mark.parametrize(("shape", "side"), [((8, 32, 4), 4), ((64, 16, 4), 16), ((32, 64, 4), 32)])
def test_blocks_lie_next_to_each_other(shape: tuple[int, int, int], side: int) -> None:
    m, n, k = shape
    atom = MFMA(m, n, k, "f16", "f16", "f32")
    down, blocks = m // side, m * n // side**2
    sets = 64 // side
    for b in range(blocks):
        first_row, first_column = b % down * side, b // down * side
        for i in range(side):
            for e in range(k):
                lane = b * side + i
                if lane < 64:
                    assert atom.layout_a_tv()((lane, e)) == first_row + i + m * e
                    assert atom.layout_b_tv()((lane, e)) == first_column + i + n * e
            for j in range(side):
                stacked = b * side + i
                lane = stacked // 4 % sets * side + j
                value = stacked // (4 * sets) * 4 + stacked % 4
                expected = first_row + i + m * (first_column + j)
                assert atom.layout_c_tv()((lane, value)) == expected


@pytest.mark.parametrize(
    ("atom", "change"),
    [
        (SOME[0], {"m": 8}),
        (SOME[0], {"acc": "f16"}),
        (SOME[0], {"b": "bf16"}),
        (SOME[2], {"opsel_a": 4}),
        (SOME[2], {"a": "f8E4M3FNUZ"}),
        (SOME[3], {"index_set": 2}),
        (SOME[4], {"mod_c": 4}),
        (SOME[4], {"k": 48}),
        (SOME[5], {"b": "f6E2M3FN"}),
        (SOME[5], {"block_size": 64}),
        (SOME[6], {"index_set": 1}),
        (SOME[6], {"a": "i8"}),
    ],
)
def test_what_no_instruction_has_is_refused(atom: Any, change: dict[str, Any]) -> None:
    with pytest.raises(UserValueError) as caught:
        replace(atom, **change)
    assert caught.value.code == "FLY-U630"


def test_tiles_of_a_sparse_operand_have_half_the_columns() -> None:
    atom = MmaAtomType(SMFMAC(16, 16, 32, "f16", "f16", "f32"))
    one = Layout((1, 1, 1), (0, 0, 0))
    kind = tiled.make_tiled_mma(atom, one, (None, None, 64))
    assert tiled.operand_extents(kind, "A") == (16, 32)
    assert tiled.operand_extents(kind, "B") == (16, 64)
    assert tiled.tile_size_mnk(kind) == (16, 16, 64)
    permuted = tiled.make_tiled_mma(atom, one, (None, None, Layout((8, 8), (8, 1))))
    with pytest.raises(UserValueError, match="cannot be permuted") as caught:
        tiled.mma_layout_tv(permuted, "A")
    assert caught.value.code == "FLY-U331"
