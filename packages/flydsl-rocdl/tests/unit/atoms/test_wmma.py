"""WMMA fragment layouts against the ISA guides' register layouts, written independently."""

from __future__ import annotations

import pytest

from flydsl.dialects.atoms import parse_mma
from flydsl.errors import UserValueError
from flydsl_rocdl.atoms import ATOMS, WMMA


@pytest.mark.parametrize(("copies", "k"), [(2, 16), (1, 16), (1, 32)])
def test_operands(copies: int, k: int) -> None:
    atom = WMMA(16, 16, k, "f16", "f16", "f32", copies)
    for layout in (atom.layout_a_tv(), atom.layout_b_tv()):
        for row in range(16):
            for column in range(k):
                if copies == 2:
                    places = [(row, column), (16 + row, column)]
                else:
                    places = [(16 * (column // (k // 2)) + row, column % (k // 2))]
                for place in places:
                    assert layout(place) == row + 16 * column


@pytest.mark.parametrize("copies", [1, 2])
def test_results(copies: int) -> None:
    layout = WMMA(16, 16, 16, "bf16", "bf16", "f32", copies).layout_c_tv()
    for row in range(16):
        for column in range(16):
            old = (16 * (row % 2) + column, row // 2)
            new = (16 * (row // 8) + column, row % 8)
            assert layout(old if copies == 2 else new) == row + 16 * column


def test_text_is_read_back() -> None:
    atom = WMMA(16, 16, 16, "i8", "i8", "i32", 2, False, True, True)
    assert str(atom) == "wmma<16,16,16,i8,i8,i32,2,False,True,True,False,0,False,False>"
    assert parse_mma(str(atom)) == atom
    assert atom.shape_mnk == (16, 16, 16)
    assert atom.elements == ("i8", "i8", "i32", "i32")
    assert ATOMS["wmma"] is WMMA


@pytest.mark.parametrize("shape", [(16, 32, 16), (32, 32, 16), (16, 16, 8), (16, 16, 16, 3)])
def test_other_extents_are_refused(shape: tuple[int, ...]) -> None:
    m, n, k, *copies = shape
    with pytest.raises(UserValueError) as caught:
        WMMA(m, n, k, "f16", "f16", "f32", *copies)
    assert caught.value.code == "FLY-U630"
