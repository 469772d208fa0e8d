"""Tiled copies and MMAs against worked examples of the public API."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from flydsl import layout as fl
from flydsl.dialects import atoms, tiled
from flydsl.dialects import fly_types as ft
from flydsl.dialects.views import InferredPointer, View, view_type
from flydsl.errors import UserError

L = fl.Layout


@dataclass(frozen=True, slots=True)
class Mma16(atoms.MmaOp):
    """A 16 x 16 x 16 instruction of 64 threads with four values each."""

    prefix: ClassVar[str] = "mma16"

    @property
    def shape_mnk(self) -> tuple[int, int, int]:
        return (16, 16, 16)

    @property
    def elements(self) -> tuple[str, str, str, str]:
        return ("f16", "f16", "f32", "f32")

    def thr_layout(self) -> fl.Layout:
        return L(64, 1)

    def layout_a_tv(self) -> fl.Layout:
        return L(((16, 4), 4), ((1, 64), 16))

    layout_b_tv = layout_a_tv

    def layout_c_tv(self) -> fl.Layout:
        return L(((16, 4), (4, 1)), ((16, 4), (1, 0)))


ATOM = ft.MmaAtomType(Mma16())
COPY = ft.CopyAtomType(atoms.UniversalCopy(128), 16)


def tensor(layout: fl.Layout, element: str = "f16", space: str = "global") -> View:
    return View(InferredPointer(ft.PtrType(element, space, 16)), layout)


def mma(atom_layout: fl.Layout, permutation: Any = None) -> ft.TiledMmaType:
    return tiled.make_tiled_mma(ATOM, atom_layout, permutation)


def copy() -> ft.TiledCopyType:
    tile, tv = fl.make_layout_tv(L((32, 8), (8, 1)), L((1, 8), (1, 1)))
    return tiled.make_tiled_copy(COPY, tv, tile)


def test_a_tiled_copy_partitions_memory() -> None:
    part = tiled.partition_src(copy(), tensor(L((128, 64), (64, 1))), fl.Dyn())
    assert str(part.layout) == "((8,1),4,1):((1,0),2048,0)"
    assert view_type(part).alignment == 16
    assert str(fl.make_fragment_layout_like(part.layout)) == "((8,1),4,1):((1,0),8,0)"


def test_a_tiled_copy_partitions_coordinates() -> None:
    identity = fl.CoordTensor((0, 0), fl.make_identity_layout((128, 64)))
    part = tiled.partition_src(copy(), identity, fl.Dyn())
    assert str(part) == "(?,?{div=8}), ((8,1),4,1):((1E1,0),32E0,0)"


def test_every_thread_copies_its_own_elements() -> None:
    layout = L((64, 128), (1, 64))
    seen = []
    for thread in range(256):
        part = tiled.partition_dst(copy(), fl.CoordTensor(0, layout), thread)
        seen += [part(i) for i in range(fl.size(part.layout))]
    assert sorted(seen) == list(range(64 * 128))


@pytest.mark.parametrize(
    ("atom_layout", "permutation", "size"),
    [
        (L((2, 2, 1), (1, 2, 0)), None, (32, 32, 16)),
        (L((1, 4, 1), (0, 1, 0)), None, (16, 64, 16)),
        (L((2, 2, 1), (1, 2, 0)), (None, None, 32), (32, 32, 32)),
        (L(4, 1), None, (64, 16, 16)),
    ],
)
def test_the_tile_of_a_tiled_mma(atom_layout: Any, permutation: Any, size: Any) -> None:
    assert tiled.tile_size_mnk(mma(atom_layout, permutation)) == size


def test_thread_layouts_of_a_tiled_mma() -> None:
    kind = mma(L((2, 2, 1), (1, 2, 0)))
    assert str(tiled.thr_layout_vmnk(kind)) == "(64,2,2,1):(1,64,128,0)"
    a = tiled.mma_layout_tv(kind, "A")
    assert str(a) == "((16,4,2,2),(4,(1,1))):((1,128,16,0),(32,(0,0)))"
    c = tiled.mma_layout_tv(kind, "C")
    assert str(c) == "((16,8,2),((4,1),(1,1))):((32,4,512),((1,0),(0,0)))"
    wide = tiled.mma_layout_tv(mma(L((2, 2, 1), (1, 2, 0)), (None, None, 32)), "A")
    assert str(wide[1].shape) == "(4, (1, 2))"


def test_a_tiled_mma_partitions_and_makes_fragments() -> None:
    kind = mma(L((2, 2, 1), (1, 2, 0)))
    a = tiled.mma_partition(kind, tensor(L((128, 64), (64, 1))), 0, operand_id="A")
    assert str(a.layout) == "(4,4,4):(1,2048,16)"
    assert str(fl.make_fragment_layout_like(a.layout)) == "(4,4,4):(1,16,4)"
    c = tiled.mma_partition(kind, tensor(L((128, 128), (128, 1)), "f32"), 0, operand_id="C")
    assert str(c.layout) == "((4,1),4,4):((128,0),4096,32)"
    assert str(fl.make_fragment_layout_like(c.layout)) == "((4,1),4,4):((1,0),16,4)"
    assert tiled.mma_partition_shape(kind, (128, 64), operand_id="A") == (4, 4, 4)


def test_partitioning_leaves_further_modes_alone() -> None:
    kind = mma(L((2, 2, 1), (1, 2, 0)))
    staged = tensor(L((128, 64, 3), (64, 1, 8192)))
    assert tiled.mma_partition(kind, staged, 0, operand_id="A").shape == (4, 4, 4, 3)


def test_the_threads_of_a_tiled_mma_cover_c_once() -> None:
    kind = mma(L((2, 2, 1), (1, 2, 0)))
    seen = []
    for thread in range(256):
        view = fl.CoordTensor(0, L((64, 64), (1, 64)))
        part = tiled.mma_partition(kind, view, thread, operand_id="C")
        seen += [part(i) for i in range(fl.size(part.layout))]
    assert sorted(seen) == list(range(64 * 64))


def test_retile_rearranges_a_fragment_for_a_copy() -> None:
    kind = mma(L((2, 2, 1), (1, 2, 0)))
    narrow = tiled.tiled_copy_for_mma(ft.CopyAtomType(atoms.UniversalCopy(64), 16), kind, "A")
    fragment = tensor(L((4, 4, 4), (1, 16, 4)), space="register")
    assert str(tiled.retile(narrow, fragment).layout) == "((4,1),4,4):((1,0),16,4)"


@pytest.mark.parametrize(
    ("tv", "tile"),
    [(L((32, 8), (8, 1)), (32, 16)), (L(256, 1), (32, 8)), (L((64, 4), (4, 1)), (32, 8))],
)
def test_a_tiled_copy_that_does_not_fit_is_refused(tv: Any, tile: Any) -> None:
    with pytest.raises(UserError) as caught:
        tiled.make_tiled_copy(COPY, tv, tile)
    assert caught.value.code == "FLY-U330"


@pytest.mark.parametrize(
    ("order", "first", "last"),
    [
        ("", [(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 0, 0)], (1, 2, 1)),
        ("MNK", [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)], (1, 2, 1)),
        ("KMN", [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)], (1, 2, 1)),
        ("NMK_Serpentine", [(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 2, 0)], (0, 0, 1)),
    ],
)
def test_traversal_orders(order: str, first: Any, last: Any) -> None:
    steps = tiled.traversal(order, None, (2, 3, 2))
    assert steps[: len(first)] == first
    assert steps[-1] == last
    assert sorted(steps) == [(m, n, k) for m in range(2) for n in range(3) for k in range(2)]


@pytest.mark.parametrize("order", tiled.TRAVERSAL_ORDERS)
def test_a_serpentine_changes_one_index_at_a_time(order: str) -> None:
    steps = tiled.traversal(order, None, (2, 3, 2))
    assert len(set(steps)) == 12
    if "Serpentine" in order:
        for a, b in pairwise(steps):
            assert sum(abs(x - y) for x, y in zip(a, b, strict=True)) == 1


def test_a_traversal_layout_must_visit_every_tile() -> None:
    assert tiled.traversal("", L((3, 2), (2, 1)), (2, 3, 1))[1] == (0, 1, 0)
    with pytest.raises(UserError, match="every tile exactly once"):
        tiled.traversal("", L((3, 2), (2, 2)), (2, 3, 1))


@pytest.mark.parametrize(
    ("layout_tv", "tile"),
    [
        (L((32, 8), (1, 1)), (16, 16)),  # threads and values overlap
        (L((32, 8), (8, 2)), (16, 16)),  # a hole after every element
        (L((32, 8), (16, 1)), (16, 16)),  # a gap between the threads
        (L((64, 8), (8, 1)), (16, 16)),  # more than the tile
    ],
)
def test_a_tiled_copy_covers_its_tile(layout_tv: fl.Layout, tile: tuple[int, int]) -> None:
    with pytest.raises(UserError, match="FLY-U330"):
        tiled.make_tiled_copy(COPY, layout_tv, tile)


def test_threads_may_copy_the_same_elements() -> None:
    made = tiled.make_tiled_copy(COPY, L(((4, 32), 8), ((0, 8), 1)), (16, 16))
    assert fl.size(made.layout_tv) == 4 * 16 * 16


@pytest.mark.parametrize(
    ("atom_layout", "permutation"),
    [
        (L((2, 2, 1), (1, 1, 0)), None),  # two atoms with one number
        (L((2, 2, 1), (1, 0, 0)), None),
        (L((2, 2, 1), (1, 2, 0)), (None, None, 24)),  # one and a half atoms
        (L((2, 2, 1), (1, 2, 0)), (16, None, None)),  # less than the two atoms along M
        (L((2, 2, 1), (1, 2, 0)), (None, L(32, 2), None)),  # every other column
        (L((2, 2, 1), (1, 2, 0)), (None, L((16, 2), (1, 8)), None)),  # columns twice
    ],
)
def test_atoms_and_permutations_take_every_place_once(
    atom_layout: fl.Layout, permutation: Any
) -> None:
    with pytest.raises(UserError, match="FLY-U331"):
        mma(atom_layout, permutation)


@pytest.mark.parametrize("seed", range(20))
def test_coverage_is_what_brute_force_says(seed: int) -> None:
    import random

    draw = random.Random(seed)
    for _ in range(50):
        shape = tuple(draw.choice([1, 2, 3, 4]) for _ in range(3))
        stride = tuple(draw.choice([0, 1, 2, 3, 4, 6, 8, 12]) for _ in range(3))
        values = [fl.crd2idx(i, L(shape, stride)) for i in range(fl.size(shape))]
        size = max(values) + 1
        # Of a mode with stride 0 every coordinate repeats what the others say.
        repeated = len(values) // len(set(values)) * len(set(values)) == len(values)
        whole = sorted(set(values)) == list(range(size))
        zero = 1
        for s, d in zip(shape, stride, strict=True):
            zero *= s if d == 0 else 1
        once = len(set(values)) * zero == len(values)
        assert tiled._covers(L(shape, stride), size) == (whole and once and repeated)
        assert tiled._apart(L(shape, stride)) <= (len(set(values)) == len(values))
