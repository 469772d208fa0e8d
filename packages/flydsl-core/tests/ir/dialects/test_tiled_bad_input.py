"""Whatever is given to the tiled operations, they work or raise `UserError`."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flydsl import layout as fl
from flydsl.dialects import atoms, tiled
from flydsl.dialects import fly_types as ft
from flydsl.dialects.views import InferredPointer, View
from flydsl.errors import UserError

COPY = ft.CopyAtomType(atoms.UniversalCopy(64), 16)
FMA = ft.MmaAtomType(atoms.UniversalFMA("f32"))

NUMBERS = st.one_of(
    st.integers(-2, 9),
    st.sampled_from([16, 32, 64, 2**31, 2**40, True, None, 1.5, "4", fl.Dyn(), fl.Dyn(64, 8)]),
)
TUPLES = st.recursive(NUMBERS, lambda x: st.lists(x, max_size=3).map(tuple), max_leaves=4)


@st.composite
def layouts(draw: st.DrawFn) -> Any:
    """Draw a layout, possibly with run-time leaves, or something else."""
    if draw(st.integers(0, 4)) == 0:
        return draw(TUPLES)
    count = draw(st.integers(1, 3))
    leaf = st.one_of(st.sampled_from([1, 2, 4, 8, 16]), st.just(fl.Dyn()))
    shape = tuple(draw(leaf) for _ in range(count))
    stride = tuple(draw(st.sampled_from([0, 1, 2, 4, 8, 16, 32])) for _ in range(count))
    return fl.Layout(shape, stride)


@st.composite
def operands(draw: st.DrawFn) -> Any:
    """Draw a tensor, coordinate tensor, layout or something else."""
    layout = draw(layouts())
    kind = draw(st.integers(0, 3))
    if not isinstance(layout, fl.Layout) or kind == 0:
        return layout
    if kind == 1:
        return fl.CoordTensor(0, layout)
    return View(InferredPointer(ft.PtrType("f16", "global", 16)), layout)


@settings(max_examples=80, deadline=None)
@given(layouts(), TUPLES, layouts(), operands(), NUMBERS)
def test_tiled_copies(tv: Any, tile: Any, values: Any, x: Any, thread: Any) -> None:
    with contextlib.suppress(UserError):
        made, layout = fl.make_layout_tv(tv, values)
        tiled.make_tiled_copy(COPY, layout, made)
    with contextlib.suppress(UserError):
        tiled.make_tiled_copy(COPY, tv, tile)
    good = tiled.make_tiled_copy(COPY, fl.Layout((4, 8), (8, 1)), (8, 4))
    for operation in (tiled.partition_src, tiled.partition_dst):
        with contextlib.suppress(UserError):
            operation(good, x, thread)
    with contextlib.suppress(UserError):
        tiled.retile(good, x)


@settings(max_examples=80, deadline=None)
@given(layouts(), TUPLES, operands(), NUMBERS, st.sampled_from(["A", "B", "C", "D", "E", "", None]))
def test_tiled_mmas(atoms_at: Any, permutation: Any, x: Any, thread: Any, operand: Any) -> None:
    for atom in (FMA, COPY, None):
        with contextlib.suppress(UserError):
            tiled.make_tiled_mma(atom, atoms_at, permutation)
    good = tiled.make_tiled_mma(FMA, fl.Layout((4, 2, 1), (1, 4, 0)))
    with contextlib.suppress(UserError):
        tiled.mma_partition(good, x, thread, operand_id=operand)
    with contextlib.suppress(UserError):
        tiled.mma_partition_shape(good, permutation, operand_id=operand)
    with contextlib.suppress(UserError):
        tiled.mma_layout_tv(good, operand)


@given(
    st.sampled_from([*tiled.TRAVERSAL_ORDERS, ""]), layouts(), st.tuples(*[st.integers(1, 3)] * 3)
)
def test_traversals(order: str, layout: Any, extents: tuple[int, int, int]) -> None:
    steps = tiled.traversal(order, None, extents)
    assert len(set(steps)) == len(steps) == extents[0] * extents[1] * extents[2]
    if isinstance(layout, fl.Layout):
        with contextlib.suppress(UserError):
            found = tiled.traversal("", layout, extents)
            assert sorted(found) == sorted(steps)
