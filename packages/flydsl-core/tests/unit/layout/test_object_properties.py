"""Tilers, composed layouts, coordinates, thread-value layouts and congruence by brute force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flydsl.layout as fl
from flydsl.errors import UserError
from flydsl.testing.brute_force import coordinates, flat
from flydsl.testing.brute_force import layout_value as value
from flydsl.testing.brute_force import layout_values as values

SWIZZLES = (fl.Swizzle(2, 0, 3), fl.Swizzle(1, 1, 2), fl.Swizzle(2, 1, -3))


def maybe(fn: Callable[..., Any], *args: Any) -> Any:
    """Return the result, or None when the operation refuses."""
    try:
        return fn(*args)
    except UserError:
        return None


def joined(modes: Any) -> fl.Layout:
    modes = list(modes)
    return fl.make_layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))


def object_divides_by_layouts(a: fl.Layout, b: fl.Layout, draw: Any) -> None:
    """All variants hold the same (tile, rest) when the divisor is a layout."""
    logical = maybe(fl.logical_divide, a, b)
    others = [maybe(f, a, b) for f in (fl.zipped_divide, fl.tiled_divide, fl.flat_divide)]
    if logical is None:
        assert others == [None, None, None]
        return
    zipped, tiled, flat_ = others
    assert zipped == logical
    assert tiled == joined([logical[0], *logical[1]])
    assert flat_ == joined([*logical[0], *logical[1]])


def object_none_and_short_tilers(a: fl.Layout, _: fl.Layout, draw: Any) -> None:
    """None keeps its mode, and modes that the tiler lacks are passed on."""
    if a.is_leaf:
        return
    sizes = [draw.draw(st.sampled_from(_divisors(fl.size(m)))) for m in a.modes()]
    count = draw.draw(st.integers(1, a.rank))
    tiler = tuple(draw.draw(st.sampled_from([None, n])) for n in sizes[:count])
    tile = fl.make_tile(*tiler)
    logical = maybe(fl.logical_divide, a, tile)
    composed = maybe(fl.composition, a, tile)
    if logical is None:
        return
    zipped, flat_ = fl.zipped_divide(a, tile), fl.flat_divide(a, tile)
    assert flat_ == joined([*zipped[0], *zipped[1]])
    assert fl.tiled_divide(a, tile) == joined([zipped[0], *zipped[1]])
    for i, mode in enumerate(a.modes()):
        if i >= count:
            assert logical[i] == mode == zipped[1][i]
        elif tiler[i] is None:
            assert logical[i] == mode == zipped[0][i]
            assert fl.size(zipped[1][i]) == 1
        else:
            assert logical[i].modes() == (zipped[0][i], zipped[1][i])
            assert values(logical[i]) == values(mode)
        if composed is not None:
            n = tiler[i] if i < count else None
            assert values(composed[i]) == values(mode)[:n]
    assert sorted(values(zipped)) == sorted(values(logical)) == sorted(values(a))


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def object_composed_layouts(a: fl.Layout, b: fl.Layout, draw: Any) -> None:
    """Operations on inner o offset o outer act on what comes first."""
    swizzle = draw.draw(st.sampled_from(SWIZZLES))
    offset = draw.draw(st.integers(0, 40))
    composed = fl.make_composed_layout(swizzle, offset, a)

    def all_values(layout: Any) -> list[int]:
        return [layout(i) for i in range(fl.size(layout))]

    def expected(layout: fl.Layout) -> list[int]:
        return [swizzle(offset + v) for v in values(layout)]

    assert all_values(composed) == expected(a)
    for fn in (fl.coalesce, fl.make_fragment_layout_like):
        assert values(fn(a)) == values(getattr(fn(composed), "outer", fn(composed)))
    for fn in (fl.composition, fl.logical_divide, fl.zipped_divide, fl.logical_product):
        plain, both = maybe(fn, a, b), maybe(fn, composed, b)
        assert (plain is None) == (both is None)
        if plain is not None:
            assert all_values(both) == expected(plain)
    again = fl.composition(swizzle, composed)
    assert all_values(again) == [swizzle(v) for v in all_values(composed)]
    if not a.is_leaf:
        for coord in itertools.islice(coordinates(a.shape), 8):
            pattern = (None, *coord[1:])
            rest = fl.slice(composed, pattern)
            inner = [composed(c, *coord[1:]) for c in coordinates(a.shape[0])]
            assert all_values(rest) == inner


def object_coordinates(a: fl.Layout, b: fl.Layout, draw: Any) -> None:
    """The identity layout maps coordinates to themselves, also through the algebra."""
    identity = fl.make_identity_layout(a.shape)
    points = list(coordinates(a.shape))
    assert [identity(c) for c in points] == points
    assert [identity(i) for i in range(len(points))] == points
    assert [identity(i) for i in range(len(points))] == [
        fl.idx2crd(i, a.shape) for i in range(len(points))
    ]
    if a.is_leaf:
        return
    assert values(fl.composition(a, identity)) == values(a)
    through = maybe(fl.composition, identity, b)
    if through is not None:
        extents = flat(a.shape)
        # Coordinates that the composition does not move along are 0 then.
        through = fl.CoordTensor(fl.map_leaves(lambda _: 0, a.shape), through)
        for i, v in enumerate(values(b)):
            at, rest = [], v
            for extent in extents[:-1]:
                at.append(rest % extent)
                rest //= extent
            assert flat(through(i)) == [*at, rest]
    tile = tuple(_divisors(fl.size(m))[-1 if i else 0] for i, m in enumerate(a.modes()))
    base = fl.idx2crd(draw.draw(st.integers(0, len(points) - 1)), a.shape)
    tensor = fl.zipped_divide(fl.CoordTensor(base, identity), tile)
    plain = fl.zipped_divide(a, tile)
    for i in range(fl.size(plain)):
        moved = fl.int_tuple_sub(tensor(i), base)
        assert fl.crd2idx(moved, a) == value(plain, i)


def object_thread_value_layouts(a: fl.Layout, b: fl.Layout, draw: Any) -> None:
    """A thread-value layout finds each element where the raked product puts it."""
    threads, vals = (_compact(x, draw) for x in (a, b))
    made = maybe(fl.make_layout_tv, threads, vals)
    if made is None:
        assert len(flat(threads.shape) + flat(vals.shape)) > 2
        return
    tile, tv = made
    product = fl.raked_product(threads, vals)
    assert math.prod(flat(tile)) == fl.size(threads) * fl.size(vals)
    places = [fl.crd2idx((t, v), tv) for v in range(fl.size(vals)) for t in range(fl.size(threads))]
    assert sorted(places) == list(range(len(places)))
    assert [value(product, p) for p in places] == list(range(len(places)))


def _compact(a: fl.Layout, draw: Any) -> fl.Layout:
    extents = a.shape if isinstance(a.shape, tuple) else (a.shape,)
    return fl.make_ordered_layout(extents, tuple(draw.draw(st.permutations(range(len(extents))))))


def object_layouts_like(a: fl.Layout, _: fl.Layout, draw: Any) -> None:
    """Layouts like another are compact and keep the order of its strides."""
    like, fragment = fl.make_layout_like(a), fl.make_fragment_layout_like(a)
    moving = [
        (s, d, e)
        for s, d, e in zip(flat(a.shape), flat(a.stride), flat(like.stride), strict=True)
        if d and s > 1
    ]
    assert len(set(values(like))) == math.prod(s for s, _, _ in moving) == max(values(like)) + 1
    assert all(x[2] < y[2] for x in moving for y in moving if x[1] < y[1])
    assert sorted(values(fragment)) == list(range(fl.size(a)))
    assert fl.congruent(fragment, a)


def object_ordered_layouts(a: fl.Layout, _: fl.Layout, draw: Any) -> None:
    """Ordered layouts are bijective, and tiles of one cover a shape block by block."""
    modes = a.rank if not a.is_leaf else 1
    order = tuple(draw.draw(st.permutations(range(modes))))
    ordered = fl.make_ordered_layout(a.shape, order if not a.is_leaf else 0)
    assert sorted(values(ordered)) == list(range(fl.size(a)))
    if a.is_leaf:
        return
    steps = [ordered(*(int(i == k) for i in range(modes))) for k in range(modes)]
    big = [k for k in order if fl.size(a, order.index(k)) > 1]
    assert [steps[order.index(k)] for k in sorted(big)] == sorted(
        steps[order.index(k)] for k in big
    )
    block = fl.make_layout(tuple(fl.size(m) for m in a.modes()))
    counts = tuple(draw.draw(st.integers(1, 3)) for _ in range(modes))
    target = tuple(n * fl.size(m) for n, m in zip(counts, a.modes(), strict=True))
    whole = fl.tile_to_shape(block, target, order)
    assert fl.int_tuple_product_each(whole.shape) == target
    assert sorted(values(whole)) == list(range(math.prod(target)))
    for coord in itertools.islice(coordinates(target), 200):
        inside = tuple(c % fl.size(m) for c, m in zip(coord, a.modes(), strict=True))
        assert whole(coord) % fl.size(block) == block(inside)


def object_products_by_mode(a: fl.Layout, b: fl.Layout, draw: Any) -> None:
    """A product by a tile repeats each mode on its own."""
    if a.is_leaf:
        return
    tiler = [draw.draw(st.sampled_from([None, 1, 2, 3])) for _ in a.modes()]
    tile = fl.make_tile(*tiler)
    logical, zipped = maybe(fl.logical_product, a, tile), maybe(fl.zipped_product, a, tile)
    if logical is None:
        assert zipped is None
        return
    assert fl.tiled_product(a, tile) == joined([zipped[0], *zipped[1]])
    assert fl.flat_product(a, tile) == joined([*zipped[0], *zipped[1]])
    for i, (mode, n) in enumerate(zip(a.modes(), tiler, strict=True)):
        if n is None:
            assert logical[i] == mode == zipped[0][i]
        else:
            assert logical[i] == fl.logical_product(mode, n) == joined([zipped[0][i], zipped[1][i]])


def object_congruence(a: fl.Layout, b: fl.Layout, draw: Any) -> None:
    """Congruence compares nesting; a compatible shape's coordinates are the other's too."""
    one, two = a.shape, b.shape
    same = fl.map_leaves(lambda _: 0, one) == fl.map_leaves(lambda _: 0, two)
    assert fl.congruent(one, two) == same == fl.congruent(b, a)
    assert same == (fl.weakly_congruent(one, two) and fl.weakly_congruent(two, one))
    guide = _pruned(one, draw)
    assert fl.weakly_congruent(guide, one)
    product = fl.int_tuple_product_like(one, guide)
    assert fl.congruent(product, guide)
    assert fl.compatible(product, one)
    for coord in itertools.islice(coordinates(product), 50):
        assert 0 <= fl.crd2idx(coord, fl.make_layout(one)) < fl.size(a)
    if fl.compatible(one, two):
        assert fl.size(one) == fl.size(two)
        points = [fl.crd2idx(c, fl.make_layout(two)) for c in coordinates(one)]
        assert sorted(points) == list(range(fl.size(two)))


def _pruned(shape: Any, draw: Any) -> Any:
    if not isinstance(shape, tuple) or draw.draw(st.booleans()):
        return 1
    return tuple(_pruned(s, draw) for s in shape)


def object_tuple_arithmetic(a: fl.Layout, b: fl.Layout, draw: Any) -> None:
    """Leaf by leaf; shape_div and ceil_div follow the sizes."""
    one, two = a.shape, fl.map_leaves(lambda s: s + 1, a.shape)
    for fn, op in (
        (fl.int_tuple_add, lambda x, y: x + y),
        (fl.int_tuple_sub, lambda x, y: x - y),
        (fl.int_tuple_mul, lambda x, y: x * y),
        (fl.int_tuple_div, lambda x, y: x // y),
        (fl.int_tuple_mod, lambda x, y: x % y),
    ):
        expected = [op(x, y) for x, y in zip(flat(one), flat(two), strict=True)]
        assert flat(fn(one, two)) == expected
    assert fl.int_tuple_product(one) == math.prod(flat(one)) == fl.size(a)
    assert flat(fl.ceil_div(two, one)) == [
        -(-y // x) for x, y in zip(flat(one), flat(two), strict=True)
    ]
    assert fl.elem_less(one, two) is True
    assert fl.equal(one, one) is True
    assert fl.equal(one, two) is False
    for divisor in (1, 2, 3, 4, 6):
        out = maybe(fl.shape_div, one, divisor)
        if out is not None and fl.size(a) % divisor == 0:
            assert fl.int_tuple_product(out) == fl.size(a) // divisor


_CHECKS = [
    object_divides_by_layouts,
    object_none_and_short_tilers,
    object_composed_layouts,
    object_coordinates,
    object_thread_value_layouts,
    object_layouts_like,
    object_ordered_layouts,
    object_products_by_mode,
    object_congruence,
    object_tuple_arithmetic,
]

_QUICK = settings(max_examples=45, deadline=None, suppress_health_check=list(HealthCheck))
_LONG = settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("check", _CHECKS, ids=lambda c: c.__name__[7:])
@given(data=st.data())
@_QUICK
def test_objects(check: Callable[..., None], layouts: Any, data: st.DataObject) -> None:
    check(data.draw(layouts), data.draw(layouts), data)


@pytest.mark.nightly
@pytest.mark.parametrize("check", _CHECKS, ids=lambda c: c.__name__[7:])
@given(data=st.data())
@_LONG
def test_objects_long(check: Callable[..., None], layouts: Any, data: st.DataObject) -> None:
    check(data.draw(layouts), data.draw(layouts), data)
