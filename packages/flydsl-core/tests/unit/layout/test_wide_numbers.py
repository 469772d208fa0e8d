"""Nothing wraps: with 32-bit leaves near their limit, results have the 64 bits that they need.

`KnownLeaf` fails as soon as a value does not fit the width that the algebra gave it.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flydsl.layout as fl
from flydsl.layout.leaf import width_of
from flydsl.testing.brute_force import KnownLeaf, flat, known, revealed

_EXTENTS = st.sampled_from([1, 2, 3, 64, 1000, 2**10, 2**16, 2**20 + 1, 2**24, 2**30, 2**31 - 1])
_MANY = settings(max_examples=200, deadline=None)


@st.composite
def wide_layouts(draw: st.DrawFn) -> fl.Layout:
    """Compact layouts (in some order, maybe with gaps) of up to 2**60 elements, leaves hidden."""
    extents = draw(st.lists(_EXTENTS, min_size=1, max_size=4))
    while math.prod(extents) > 2**60:
        extents.pop()
    strides, step = [0] * len(extents), 1
    for i in draw(st.permutations(range(len(extents)))):
        strides[i] = step
        step *= extents[i] * draw(st.sampled_from([1, 1, 2] if step * extents[i] < 2**62 else [1]))

    def hide(x: int) -> Any:
        kind = draw(st.sampled_from(["static", "narrow", "wide"]))
        if kind == "static":
            return x
        divisor = draw(st.sampled_from([1, x & -x]))
        return KnownLeaf(x, divisor, 32 if kind == "narrow" and x < 2**31 else 64)

    layout = fl.make_layout(tuple(extents), tuple(strides))
    return fl.map_leaves(hide, layout)


def _coordinate(draw: Any, layout: fl.Layout) -> tuple[list[int], Any]:
    """Return a coordinate within the layout, plain and with some entries hidden."""
    plain = [draw(st.sampled_from([0, e - 1, e // 2])) for e in flat(revealed(layout).shape)]
    mixed = tuple(KnownLeaf(c) if draw(st.booleans()) else c for c in plain)
    return plain, mixed


@given(data=st.data())
@_MANY
def test_sizes_and_indices(data: st.DataObject) -> None:
    layout = data.draw(wide_layouts())
    static = revealed(layout)
    assert known(fl.size(layout)) == math.prod(flat(static.shape))
    assert known(fl.cosize(layout)) == fl.cosize(static)
    assert known(fl.int_tuple_product(layout.shape)) == math.prod(flat(static.shape))
    plain, mixed = _coordinate(data.draw, layout)
    index = sum(c * d for c, d in zip(plain, flat(static.stride), strict=True))
    assert known(fl.crd2idx(mixed, layout)) == index
    assert known(layout(*mixed)) == index
    linear = fl.crd2idx(tuple(plain), fl.make_layout(static.shape))
    one = KnownLeaf(linear, 1, 32 if linear < 2**31 else 64)
    assert known(fl.crd2idx(one, layout)) == index
    if 0 not in flat(static.stride):
        place = KnownLeaf(index, 1, 32 if index < 2**31 else 64)
        assert revealed(fl.idx2crd(place, layout)) == fl.idx2crd(index, static)
        assert known(fl.get_1d_coord(place, layout)) == fl.get_1d_coord(index, static)


@given(data=st.data())
@_MANY
def test_slices(data: st.DataObject) -> None:
    layout = data.draw(wide_layouts())
    plain, mixed = _coordinate(data.draw, layout)
    if layout.rank < 2:
        return
    pattern, static = (None, *mixed[1:]), revealed(layout)
    moved = sum(c * d for c, d in zip(plain[1:], flat(static.stride)[1:], strict=True))
    _, offset = fl.slice_and_offset(layout, pattern)
    assert known(offset) == moved
    base = data.draw(st.sampled_from([0, 5, 2**31 - 1, 2**40]))
    swizzled = fl.make_composed_layout(fl.Swizzle(3, 0, 3), base, layout)
    rest = fl.slice(swizzled, pattern)
    assert known(rest.offset) == base + moved
    assert known(rest(plain[0])) == fl.Swizzle(3, 0, 3)(
        base + moved + plain[0] * flat(static.stride)[0]
    )


@given(data=st.data())
@_MANY
def test_compact_strides(data: st.DataObject) -> None:
    layout = data.draw(wide_layouts())
    order = tuple(data.draw(st.permutations(range(layout.rank))))
    for made, static in (
        (
            fl.make_ordered_layout(layout.shape, order),
            fl.make_ordered_layout(revealed(layout).shape, order),
        ),
        (fl.make_layout(layout.shape), fl.make_layout(revealed(layout).shape)),
    ):
        assert revealed(made) == static
    fragment = fl.make_fragment_layout_like(layout)
    total = math.prod(flat(revealed(layout).shape))
    assert known(fl.cosize(fragment)) == total


@pytest.mark.parametrize(
    ("shape", "stride", "width"),
    [
        ((64, 64), (64, 1), 32),
        ((2**20, 2**11), (2**11, 1), 32),
        ((2**20, 2**12), (2**12, 1), 64),
        ((fl.Dyn(32), 8), (8, 1), 64),
        ((fl.Dyn(32),), (1,), 32),
        ((8, 8), (fl.Dyn(64), 1), 64),
    ],
)
def test_small_layouts_stay_in_32_bits(shape: Any, stride: Any, width: int) -> None:
    layout = fl.make_layout(shape, stride)
    coordinate = (fl.Dyn(32),) * len(shape)
    assert width_of(fl.crd2idx(coordinate, layout)) == width
    swizzled = fl.make_composed_layout(fl.Swizzle(2, 0, 3), layout)
    assert width_of(fl.crd2idx(coordinate, swizzled)) == width


@pytest.mark.parametrize(
    ("shape", "stride", "expected"),
    [
        ((2**30, 2), (1, KnownLeaf(2**30, 1, 32)), 2**31),
        ((2, KnownLeaf(2**31 - 1, 1, 32)), (KnownLeaf(2**31 - 1, 1, 32), 1), 2**32 - 2),
        (2, KnownLeaf(2**31 - 1, 1, 32), 2**31),
        (KnownLeaf(2**31 - 1, 1, 32), 1, 2**31 - 1),
    ],
)
def test_sums_that_pass_32_bits(shape: Any, stride: Any, expected: int) -> None:
    assert known(fl.cosize(fl.make_layout(shape, stride))) == expected
