"""Pictures of tiled copies and tiled MMAs against the layouts that partitioning uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from flydsl import layout as fl
from flydsl.dialects import atoms, tiled
from flydsl.dialects import fly_types as ft
from flydsl.dialects.pictures import draw_tiled, tiled_picture
from flydsl.errors import UserError

L = fl.Layout
COPY = ft.CopyAtomType(atoms.UniversalCopy(64), 16)


@dataclass(frozen=True, slots=True)
class Mma8(atoms.MmaOp):
    """An 8 x 8 x 4 instruction of 32 threads with one value of A and B, two of C."""

    prefix: ClassVar[str] = "mma8"

    @property
    def shape_mnk(self) -> tuple[int, int, int]:
        return (8, 8, 4)

    @property
    def elements(self) -> tuple[str, str, str, str]:
        return ("f16", "f16", "f32", "f32")

    def thr_layout(self) -> fl.Layout:
        return L(32, 1)

    def layout_a_tv(self) -> fl.Layout:
        return L((32, 1), (1, 0))

    layout_b_tv = layout_a_tv

    def layout_c_tv(self) -> fl.Layout:
        return L((32, 2), (1, 32))


def copy() -> ft.TiledCopyType:
    tile, tv = fl.make_layout_tv(L((4, 2), (2, 1)), L((1, 4), (1, 1)))
    return tiled.make_tiled_copy(COPY, tv, tile)


def mma() -> ft.TiledMmaType:
    return tiled.make_tiled_mma(ft.MmaAtomType(Mma8()), L((2, 1, 1), (1, 2, 2)))


@pytest.mark.parametrize("side", ["source", "destination", "tile"])
def test_a_copy_shows_the_threads_that_its_partition_gives(side: str) -> None:
    kind = copy()
    memory = fl.make_layout((4, 8), (8, 1))
    part = tiled.partition_dst if side == "destination" else tiled.partition_src
    holder = {}
    for thread in range(8):
        mine = part(kind, memory, thread)
        base = {fl.crd2idx(c, memory): c for c in _coordinates(4, 8)}
        tensor = part(kind, fl.CoordTensor((0, 0), fl.make_identity_layout((4, 8))), thread)
        for value in range(fl.size(mine)):
            coordinate = fl.crd2idx(value, tensor)
            assert coordinate in base.values()
            holder[coordinate] = thread
    cells = tiled_picture(kind, side).panels[0].cells
    assert {(c.row, c.column): int(c.lines[0][1:]) for c in cells} == holder


def _coordinates(rows: int, columns: int) -> list[tuple[int, int]]:
    return [(r, c) for r in range(rows) for c in range(columns)]


@pytest.mark.parametrize(("operand", "shape"), [("A", (16, 4)), ("B", (8, 4)), ("C", (16, 8))])
def test_an_mma_shows_the_threads_that_its_partition_gives(
    operand: str, shape: tuple[int, int]
) -> None:
    kind = mma()
    holders: dict[Any, set[int]] = {}
    coords = fl.CoordTensor((0, 0), fl.make_identity_layout(shape))
    for thread in range(64):
        mine = tiled.mma_partition(kind, coords, thread, operand_id=operand)
        for value in range(fl.size(mine.layout)):
            holders.setdefault(fl.crd2idx(value, mine), set()).add(thread)
    cells = tiled_picture(kind, operand).panels[0].cells
    assert {(c.row, c.column) for c in cells} == set(holders)
    for cell in cells:
        facts = dict(cell.facts)
        stated = facts["thread"] if "thread" in facts else facts["threads"]
        threads = {int(word.partition(" ")[0]) for word in stated.split(", ")}
        assert threads == holders[cell.row, cell.column]


def test_text_and_mistakes() -> None:
    assert draw_tiled(copy()).splitlines()[-1] == "8 threads, 4 values each"
    with pytest.raises(UserError, match="no such part"):
        draw_tiled(copy(), "C")
    with pytest.raises(UserError, match="no such part"):
        draw_tiled(mma(), "source")
    with pytest.raises(UserError, match="no tiled operation"):
        draw_tiled(COPY)  # type: ignore[arg-type]
