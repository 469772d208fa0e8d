"""Operations on layouts with run-time leaves, checked by giving the leaves their values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flydsl.layout as fl
from flydsl.errors import UserError
from flydsl.testing.brute_force import KnownLeaf, coordinates, known, revealed
from flydsl.testing.brute_force import layout_value as value
from flydsl.testing.brute_force import layout_values as values


def maybe(fn: Callable[..., Any], *args: Any) -> Any:
    """Return the result, or None when the operation refuses."""
    try:
        return fn(*args)
    except UserError:
        return None


def _pieces(a: fl.Layout, divided: fl.Layout, tile: fl.Layout) -> None:
    """Check (tile, rest) against the definition, for the positions that are in `a`."""
    part, rest = revealed(divided).modes()
    others = revealed(fl.complement(tile, fl.size(a)))
    a, tile = revealed(a), revealed(tile)
    where = [t + r for r in values(others) for t in values(tile)]
    pairs = [value(part, t) + value(rest, r) for r, t in _pairs(rest, part)]
    for at, got in zip(where, pairs, strict=True):
        if at < fl.size(a):
            assert got == value(a, at)


def _pairs(outer: fl.Layout, inner: fl.Layout) -> Iterator[tuple[int, int]]:
    return itertools.product(range(fl.size(outer)), range(fl.size(inner)))


def dynamic_composition(a: fl.Layout, b: fl.Layout) -> None:
    out = maybe(fl.composition, a, b)
    if out is not None:
        assert values(revealed(out)) == [value(revealed(a), v) for v in values(revealed(b))]


def dynamic_coalesce(a: fl.Layout, _: fl.Layout) -> None:
    assert values(revealed(fl.coalesce(a))) == values(revealed(a))


def dynamic_complement(a: fl.Layout, b: fl.Layout) -> None:
    total = fl.leaf.mul(fl.cosize(a), fl.size(b))
    out = maybe(fl.complement, a, total)
    if out is not None:
        own, rest = set(values(revealed(a))), values(revealed(out))
        assert rest == sorted(set(rest))
        sums = [x + y for x in own for y in rest]
        assert len(set(sums)) == len(sums)
        assert set(range(known(total))) <= set(sums)


def dynamic_inverses(a: fl.Layout, _: fl.Layout) -> None:
    static = revealed(a)
    right = revealed(fl.right_inverse(a))
    assert [value(static, v) for v in values(right)] == list(range(fl.size(right)))
    left = maybe(fl.left_inverse, a)
    if left is not None:
        own = values(static)
        assert [value(static, value(revealed(left), v)) for v in own] == own


def dynamic_divide(a: fl.Layout, b: fl.Layout) -> None:
    out = maybe(fl.logical_divide, a, b)
    if out is not None:
        _pieces(a, out, b)
    tile = (4,) * a.rank
    zipped = maybe(fl.zipped_divide, a, tile)
    if zipped is not None:
        logical = fl.logical_divide(a, tile)
        for mode, divided in zip(a.modes(), logical, strict=True):
            _pieces(mode, divided, fl.make_layout(4, 1))
        assert fl.size(revealed(zipped)) == fl.size(revealed(logical))


def dynamic_product(a: fl.Layout, b: fl.Layout) -> None:
    out = maybe(fl.logical_product, a, b)
    if out is not None:
        same = fl.logical_product(revealed(a), revealed(b))
        assert values(revealed(out)) == values(same)
        raked = fl.raked_product(a, b)
        assert sorted(values(revealed(raked))) == sorted(values(same))


def dynamic_coordinates(a: fl.Layout, b: fl.Layout) -> None:
    static = revealed(a)
    for i, coord in enumerate(coordinates(static.shape)):
        mixed = fl.map_leaves(lambda c: KnownLeaf(c) if c % 2 else c, coord)
        for evaluate in (fl.crd2idx, fl.crd2offset):
            assert known(evaluate(mixed, a)) == value(static, i)
            assert known(evaluate(KnownLeaf(i), a)) == value(static, i)
            assert known(evaluate(KnownLeaf(i), static)) == value(static, i)
        coord_of = fl.idx2crd(KnownLeaf(i), a)
        assert revealed(coord_of) == fl.idx2crd(i, static)
    assert known(fl.size(a)) == fl.size(static)
    assert known(fl.cosize(a)) == fl.cosize(static)
    # The same path for another leaf class: types do not depend on who carries the value.
    symbols = fl.symbolic(a)
    assert fl.to_text(fl.cosize(symbols)) == fl.to_text(fl.cosize(a))
    assert str(fl.coalesce(symbols)) == str(fl.coalesce(a))
    one, two = maybe(fl.composition, symbols, fl.symbolic(b)), maybe(fl.composition, a, b)
    assert str(one) == str(two)


def dynamic_recast(a: fl.Layout, _: fl.Layout) -> None:
    # Whatever the run-time values are, 1 among them, the result describes the same memory: which
    # mode grows may differ from the one that is chosen when all is known, what is covered may not.
    for old, new in ((8, 16), (16, 8), (8, 32), (16, 24)):
        out = maybe(fl.recast_layout, a, old, new)
        if out is None:
            continue
        whole = math.lcm(old, new)
        blocks = {v * old // whole for v in values(revealed(a))}
        bits = {b * whole + i for b in blocks for i in range(whole)}
        assert {v * new + i for v in values(revealed(out)) for i in range(new)} == bits


def dynamic_swizzle(a: fl.Layout, _: fl.Layout) -> None:
    static = revealed(a)
    for swizzle in (fl.Swizzle(2, 0, 3), fl.Swizzle(1, 1, 2), fl.Swizzle(2, 1, -3)):
        composed = fl.make_composed_layout(swizzle, a)
        for i in range(fl.size(static)):
            assert known(fl.crd2idx(KnownLeaf(i), composed)) == swizzle(value(static, i))


def dynamic_common(a: fl.Layout, b: fl.Layout) -> None:
    for one, two in ((a, b), (a, fl.map_leaves(lambda x: x, a)), (a, revealed(a))):
        common = revealed(fl.max_common_layout(one, two))
        count = list(range(fl.size(common)))
        for layout in (revealed(one), revealed(two)):
            assert [value(layout, v) for v in values(common)] == count
            assert max(values(common)) < fl.size(layout)
        assert fl.size(common) % fl.max_common_vector(one, two) == 0


_BINARY = [
    *(fl.composition, fl.max_common_layout, fl.complement, fl.logical_divide, fl.zipped_divide),
    *(fl.tiled_divide, fl.flat_divide, fl.logical_product, fl.zipped_product, fl.tiled_product),
    *(fl.flat_product, fl.blocked_product, fl.raked_product, fl.append, fl.prepend),
]
_UNARY = [
    *(fl.coalesce, fl.right_inverse, fl.left_inverse, fl.nullspace, fl.size, fl.cosize),
    *(fl.coshape, fl.make_layout_like, fl.make_fragment_layout_like, fl.complement),
]


def dynamic_same_path(a: fl.Layout, b: fl.Layout) -> None:
    """Types are inferred with symbols and lowered with values: both must give the same text."""
    one = fl.symbolic(a)
    # Equal types are one object while types are inferred.
    two = one if str(a) == str(b) else fl.symbolic(b)
    for fn in _BINARY:
        x, y = (fl.size(b), fl.size(two)) if fn is fl.complement else (b, two)
        assert _outcome(fn, a, x) == _outcome(fn, one, y), fn.__name__
        assert _outcome(fn, a, _same(a)) == _outcome(fn, one, one) or fn is fl.complement
    for fn in _UNARY:
        assert _outcome(fn, a) == _outcome(fn, one), fn.__name__
    for old, new in ((16, 8), (8, 32)):
        assert _outcome(fl.recast_layout, a, old, new) == _outcome(fl.recast_layout, one, old, new)


def _same(a: fl.Layout) -> fl.Layout:
    """Return a layout of equal but distinct leaves."""
    return fl.map_leaves(lambda x: KnownLeaf(x.value, x.divisor, x.width) if _hidden(x) else x, a)


def _hidden(x: Any) -> bool:
    return isinstance(x, KnownLeaf)


def _outcome(fn: Callable[..., Any], *arguments: Any) -> str:
    try:
        return fl.to_text(fn(*arguments))
    except UserError as error:
        return str(error.code)


def dynamic_leaves(a: fl.Layout, b: fl.Layout) -> None:
    obj = fl.make_tile(a, b)
    text = fl.to_text(obj)
    assert fl.to_text(fl.parse(text)) == text
    operands = fl.operand_leaves(obj)
    assert [o.width for o in operands] == sorted(o.width for o in operands)
    again = fl.rebuild_from_operands(fl.parse(text), operands)
    assert fl.leaves(again) == fl.leaves(obj)
    assert fl.leaves(fl.rebuild(fl.parse(text), fl.dynamic_leaves(obj))) == fl.leaves(obj)


_DYNAMIC_CHECKS = [
    dynamic_composition,
    dynamic_coalesce,
    dynamic_complement,
    dynamic_inverses,
    dynamic_divide,
    dynamic_product,
    dynamic_coordinates,
    dynamic_common,
    dynamic_same_path,
    dynamic_recast,
    dynamic_swizzle,
    dynamic_leaves,
]

_QUICK = settings(max_examples=45, deadline=None, suppress_health_check=list(HealthCheck))
_LONG = settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("check", _DYNAMIC_CHECKS, ids=lambda c: c.__name__[8:])
@given(data=st.data())
@_QUICK
def test_dynamic(check: Callable[..., None], run_time_layouts: Any, data: st.DataObject) -> None:
    check(data.draw(run_time_layouts), data.draw(run_time_layouts))


@pytest.mark.nightly
@pytest.mark.parametrize("check", _DYNAMIC_CHECKS, ids=lambda c: c.__name__[8:])
@given(data=st.data())
@_LONG
def test_dynamic_long(
    check: Callable[..., None], run_time_layouts: Any, data: st.DataObject
) -> None:
    check(data.draw(run_time_layouts), data.draw(run_time_layouts))
