"""Every operation against brute force over all coordinates, on random layouts.

A refusal (`UserError`) is accepted only where a property says so, a wrong value never. The normal
run draws about 2,000 layouts, the nightly one more than 20,000.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flydsl.layout as fl
from flydsl.errors import UserError
from flydsl.testing.brute_force import coordinates, flat
from flydsl.testing.brute_force import layout_value as value
from flydsl.testing.brute_force import layout_values as values


def maybe(fn: Callable[..., Any], *args: Any) -> Any:
    """Return the result, or None when the operation refuses."""
    try:
        return fn(*args)
    except UserError:
        return None


def check_composition(a: fl.Layout, b: fl.Layout) -> None:
    out = maybe(fl.composition, a, b)
    if out is not None:
        assert fl.weakly_congruent(b.shape, out.shape)
        assert values(out) == [value(a, v) for v in values(b)]


def check_composition_in_range(a: fl.Layout, b: fl.Layout) -> None:
    """A compact b that fits a's modes is composed, not refused."""
    flat = fl.coalesce(a)
    if flat.is_leaf and fl.cosize(b) <= fl.size(a):
        assert values(fl.composition(a, b)) == [value(a, v) for v in values(b)]


def check_coalesce(a: fl.Layout, _: fl.Layout) -> None:
    out = fl.coalesce(a)
    assert values(out) == values(a)
    assert out.depth <= 1
    assert fl.coalesce(out) == out
    by_mode = fl.coalesce(a, (None,) * a.rank if not a.is_leaf else None)
    assert values(by_mode) == values(a)
    if not a.is_leaf:
        kept = fl.coalesce(a, (1,) * a.rank)
        assert [fl.size(m) for m in kept] == [fl.size(m) for m in a]
        assert values(kept) == values(a)


def check_complement(a: fl.Layout, b: fl.Layout) -> None:
    total = max(fl.cosize(a), 1) * fl.size(b)
    out = maybe(fl.complement, a, total)
    if out is None:
        assert len(set(values(a))) < fl.size(a) or not _nests(a)
        return
    own, rest = set(values(a)), values(out)
    assert rest == sorted(set(rest))
    sums = [x + y for x in own for y in rest]
    assert len(set(sums)) == len(sums)
    assert set(range(total)) <= set(sums)


def _nests(a: fl.Layout) -> bool:
    spans = sorted((d, s) for s, d in zip(flat(a.shape), flat(a.stride), strict=True) if s > 1)
    reach = 1
    for d, s in spans:
        if d and d % reach:
            return False
        reach = d * s if d else reach
    return True


def check_right_inverse(a: fl.Layout, _: fl.Layout) -> None:
    out = fl.right_inverse(a)
    assert [value(a, v) for v in values(out)] == list(range(fl.size(out)))
    if sorted(values(a)) == list(range(fl.size(a))):
        assert fl.size(out) == fl.size(a)


def check_left_inverse(a: fl.Layout, _: fl.Layout) -> None:
    out = maybe(fl.left_inverse, a)
    own = values(a)
    if len(set(own)) == len(own):
        if out is None:
            assert not _nests(a)
        else:
            assert [value(out, v) for v in own] == list(range(fl.size(a)))
    elif out is not None:
        assert [value(a, value(out, v)) for v in own] == own


def check_nullspace(a: fl.Layout, _: fl.Layout) -> None:
    out = fl.nullspace(a)
    assert all(value(a, v) == 0 for v in values(out))
    assert len(set(values(out))) == fl.size(out)


def check_predicates(a: fl.Layout, _: fl.Layout) -> None:
    own = values(a)
    assert fl.is_injective(a) == (len(set(own)) == len(own))
    assert fl.is_surjective(a) == (set(own) == set(range(fl.cosize(a))))
    assert fl.is_bijective(a) == (sorted(own) == list(range(fl.cosize(a))))
    assert fl.cosize(a) == max(own) + 1


def check_common(a: fl.Layout, b: fl.Layout) -> None:
    out = fl.max_common_layout(a, b)
    count = list(range(fl.size(out)))
    assert [value(a, v) for v in values(out)] == count
    assert [value(b, v) for v in values(out)] == count
    assert max(values(out)) < min(fl.size(a), fl.size(b))
    # It is the longest run of numbers at the same coordinates of both.
    spots = [(value(a, i), value(b, i)) for i in range(min(fl.size(a), fl.size(b)))]
    run = next(n for n in itertools.count() if (n, n) not in spots)
    assert fl.size(out) <= run
    if _nests(a) and _nests(b) and 0 not in flat(a.stride) + flat(b.stride):
        assert (run > 1) == (fl.size(out) > 1)
    assert fl.max_common_vector(a, b) == fl.size(out)
    same = fl.max_common_vector(a, a)
    assert same == fl.size(fl.right_inverse(a))


def _pieces(a: fl.Layout, divided: fl.Layout, tile: fl.Layout) -> None:
    """Check (tile, rest) against the definition, for the positions that are in `a`."""
    part, rest = divided.modes()
    where = [t + r for r in values(fl.complement(tile, fl.size(a))) for t in values(tile)]
    pairs = [value(part, t) + value(rest, r) for r, t in _pairs(rest, part)]
    for at, got in zip(where, pairs, strict=True):
        if at < fl.size(a):
            assert got == value(a, at)


def _pairs(outer: fl.Layout, inner: fl.Layout) -> Iterator[tuple[int, int]]:
    return itertools.product(range(fl.size(outer)), range(fl.size(inner)))


def check_logical_divide(a: fl.Layout, b: fl.Layout) -> None:
    out = maybe(fl.logical_divide, a, b)
    if out is not None:
        _pieces(a, out, b)


def check_divides_agree(a: fl.Layout, b: fl.Layout) -> None:
    sizes = [d for d in (1, 2, 3, 4) if fl.size(b) % d == 0]
    tile = tuple(sizes[i % len(sizes)] for i in range(a.rank))
    logical = maybe(fl.logical_divide, a, tile)
    if logical is None:
        assert maybe(fl.zipped_divide, a, tile) is None
        return
    zipped = fl.zipped_divide(a, tile)
    tiled, flat = fl.tiled_divide(a, tile), fl.flat_divide(a, tile)
    parts = [m.modes() for m in logical]
    assert zipped == _layout([_layout([p[0] for p in parts]), _layout([p[1] for p in parts])])
    assert tiled == _layout([zipped[0], *zipped[1]])
    assert flat == _layout([*zipped[0], *zipped[1]])
    for mode, divided, n in zip(a.modes(), logical, tile, strict=True):
        _pieces(mode, divided, fl.make_layout(n, 1))


def _layout(modes: list[fl.Layout]) -> fl.Layout:
    return fl.make_layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))


def check_products(a: fl.Layout, b: fl.Layout) -> None:
    out = maybe(fl.logical_product, a, b)
    if out is None:
        assert maybe(fl.blocked_product, a, b) is None
        return
    block, copies = out.modes()
    assert block == a
    own = values(a)
    if len(set(own)) == len(own) and len(set(values(b))) == fl.size(b):
        everything = [x + y for y in values(copies) for x in own]
        assert len(set(everything)) == len(everything)
    assert [values(copies).index(v) for v in values(copies)] == [
        values(b).index(v) for v in values(b)
    ]
    assert fl.zipped_product(a, b) == out
    assert fl.tiled_product(a, b) == _layout([a, *copies])
    assert fl.flat_product(a, b) == _layout([*a, *copies])
    blocked, raked = fl.blocked_product(a, b), fl.raked_product(a, b)
    assert sorted(values(blocked)) == sorted(values(raked)) == sorted(values(out))
    for one, two in zip(blocked.modes(), raked.modes(), strict=True):
        if a.rank == b.rank == 1:
            continue
        assert one.modes() == tuple(reversed(two.modes()))


def check_recast(a: fl.Layout, _: fl.Layout) -> None:
    for ratio in (2, 3, 4):
        wide = maybe(fl.recast_layout, a, 8, 8 * ratio)
        if wide is not None:
            assert set(values(wide)) == {v // ratio for v in values(a)}
        narrow = maybe(fl.recast_layout, a, 8 * ratio, 8)
        if narrow is not None:
            parts = {v * ratio + i for v in values(a) for i in range(ratio)}
            assert set(values(narrow)) == parts
            assert fl.size(narrow) == fl.size(a) * ratio
            assert values(fl.recast_layout(narrow, 8, 8 * ratio)) == values(a) or not _moves(a)


def _moves(a: fl.Layout) -> bool:
    return all(s > 1 for s in flat(a.shape))


def check_coordinates(a: fl.Layout, _: fl.Layout) -> None:
    for i, coord in enumerate(coordinates(a.shape)):
        assert fl.crd2idx(coord, a) == value(a, i) == fl.crd2idx(i, a)
        assert fl.crd2offset(coord, a) == value(a, i)
        if not a.is_leaf:
            flat = fl.get_flat_coord(i, fl.make_layout(a.shape))
            assert fl.crd2idx(flat, a) == value(a, i)
        assert fl.get_1d_coord(i, fl.make_layout(a.shape)) == i
    own = values(a)
    nests = len(set(own)) == len(own) and _nests(a)
    for i, coord in enumerate(coordinates(a.shape)):
        if nests:
            assert fl.idx2crd(own[i], a) == coord
            assert fl.get_1d_coord(own[i], a) == i


def check_slices(a: fl.Layout, _: fl.Layout) -> None:
    if a.is_leaf:
        return
    for keep in itertools.product((False, True), repeat=a.rank):
        if not any(keep) or all(keep):
            continue
        for coord in coordinates(a.shape):
            pattern = tuple(None if k else c for k, c in zip(keep, coord, strict=True))
            rest, offset = fl.slice_and_offset(a, pattern)
            kept = tuple(c for k, c in zip(keep, coord, strict=True) if k)
            inner = kept[0] if len(kept) == 1 else kept
            assert fl.crd2idx(inner, rest) + offset == fl.crd2idx(coord, a)
            # Modes of a nested coordinate come in line.
            fixed = [i for k, c in zip(keep, coord, strict=True) if not k for i in flat(c)]
            diced = fl.dice(a, pattern)
            assert fl.crd2idx(fixed[0] if len(fixed) == 1 else tuple(fixed), diced) == offset
            assert fl.slice(a, pattern) == rest == a(*pattern)


def check_text(a: fl.Layout, b: fl.Layout) -> None:
    for obj in (a, b, fl.make_tile(a, None, b), fl.CoordTensor(0, a), a.shape):
        assert fl.parse(fl.to_text(obj)) == obj
    composed = fl.make_composed_layout(fl.Swizzle(2, 1, 3), 5, a)
    assert fl.parse(str(composed)) == composed


def check_surgery(a: fl.Layout, b: fl.Layout) -> None:
    wrapped = fl.append(a, b)
    assert wrapped.rank == a.rank + 1
    assert wrapped[a.rank] == b
    assert fl.prepend(a, b)[0] == b
    assert fl.select(wrapped, list(range(wrapped.rank))) == wrapped
    grouped = fl.group(wrapped, 0, a.rank)
    assert values(grouped) == values(wrapped)
    assert grouped[1] == b
    back = fl.take(wrapped, 0, a.rank)
    assert values(back) == values(a)


def check_swizzled(a: fl.Layout, _: fl.Layout) -> None:
    for swizzle in (fl.Swizzle(2, 0, 3), fl.Swizzle(1, 1, 2), fl.Swizzle(2, 1, -3)):
        composed = fl.make_composed_layout(swizzle, a)
        own = [composed(i) for i in range(fl.size(a))]
        assert own == [swizzle(v) for v in values(a)]
        assert [swizzle(v) for v in own] == values(a)
        assert max(own) < fl.cosize(composed)
        inverse = maybe(fl.right_inverse, composed)
        if inverse is not None:
            assert [composed(inverse(i)) for i in range(fl.size(inverse))] == list(
                range(fl.size(inverse))
            )


_STATIC_CHECKS = [
    check_composition,
    check_composition_in_range,
    check_coalesce,
    check_complement,
    check_right_inverse,
    check_left_inverse,
    check_nullspace,
    check_predicates,
    check_common,
    check_logical_divide,
    check_divides_agree,
    check_products,
    check_recast,
    check_coordinates,
    check_slices,
    check_text,
    check_surgery,
    check_swizzled,
]


# 18 static checks of two layouts each and 10 run-time ones: about 2,000 layouts.
_QUICK = settings(max_examples=45, deadline=None, suppress_health_check=list(HealthCheck))
_LONG = settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("check", _STATIC_CHECKS, ids=lambda c: c.__name__[6:])
@given(data=st.data())
@_QUICK
def test_static(check: Callable[..., None], layouts: Any, data: st.DataObject) -> None:
    check(data.draw(layouts), data.draw(layouts))


@pytest.mark.nightly
@pytest.mark.parametrize("check", _STATIC_CHECKS, ids=lambda c: c.__name__[6:])
@given(data=st.data())
@_LONG
def test_static_long(check: Callable[..., None], layouts: Any, data: st.DataObject) -> None:
    check(data.draw(layouts), data.draw(layouts))
