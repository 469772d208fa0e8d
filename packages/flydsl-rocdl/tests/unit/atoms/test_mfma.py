"""MFMA fragment layouts against the hardware's register layout, written independently."""

from __future__ import annotations

import pytest

from flydsl.dialects.atoms import parse_mma
from flydsl.errors import UserValueError
from flydsl_rocdl.atoms import ATOMS, MFMA
from flydsl_rocdl.target import RocdlTarget, parse_target

SHAPES = [(16, 4), (16, 16), (16, 32), (32, 2), (32, 8), (32, 16)]


def _operand_place(m: int, k: int, row: int, column: int) -> tuple[int, int]:
    """Return (lane, register element) of A[row, column]: lanes of a group hold consecutive k."""
    groups = 64 // m
    per_lane = k // groups
    return column // per_lane * m + row, column % per_lane


def _result_place(m: int, row: int, column: int) -> tuple[int, int]:
    """Return (lane, register) of D[row, column]: four rows a lane, then the next lane group."""
    groups = 64 // m
    lane = row // 4 % groups * m + column
    return lane, row // (4 * groups) * 4 + row % 4


@pytest.mark.parametrize(("m", "k"), SHAPES)
def test_operands(m: int, k: int) -> None:
    atom = MFMA(m, m, k, "f16", "f16", "f32")
    for layout in (atom.layout_a_tv(), atom.layout_b_tv()):
        for row in range(m):
            for column in range(k):
                assert layout(_operand_place(m, k, row, column)) == row + m * column


@pytest.mark.parametrize("m", [16, 32])
def test_results(m: int) -> None:
    layout = MFMA(m, m, 16, "bf16", "bf16", "f32").layout_c_tv()
    for row in range(m):
        for column in range(m):
            assert layout(_result_place(m, row, column)) == row + m * column


def test_text_is_read_back() -> None:
    atom = MFMA(32, 32, 8, "bf16", "bf16", "f32")
    assert str(atom) == "mfma<32,32,8,bf16,bf16,f32>"
    assert parse_mma(str(atom)) == atom
    assert atom.shape_mnk == (32, 32, 8)
    assert atom.elements == ("bf16", "bf16", "f32", "f32")


@pytest.mark.parametrize("shape", [(16, 32, 8), (8, 8, 4), (16, 16, 3), (32, 32, 1), (16, 16, 0)])
def test_other_extents_are_refused(shape: tuple[int, int, int]) -> None:
    with pytest.raises(UserValueError) as caught:
        MFMA(*shape, "f16", "f16", "f32")
    assert caught.value.code == "FLY-U630"


def test_the_target_lists_its_atoms() -> None:
    spec = parse_target("gfx950")
    assert spec is not None
    assert RocdlTarget.from_spec(spec).atoms() == ATOMS
