"""Questions about layouts as functions: injective, surjective, bijective, and what two share."""

from __future__ import annotations

import math

from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout import evaluate as ev
from flydsl.layout import leaf
from flydsl.layout.basis import Basis
from flydsl.layout.layouts import Layout
from flydsl.layout.leaf import Leaf
from flydsl.layout.queries import size
from flydsl.layout.simplify import coalesced_modes, from_modes
from flydsl.layout.tuples import flatten

__all__ = [
    "is_bijective",
    "is_injective",
    "is_surjective",
    "max_common_layout",
    "max_common_vector",
]

_MAX_ENUMERATED = 1 << 20


def _static(layout: object, what: str) -> Layout:
    if not isinstance(layout, Layout):
        raise UserTypeError(f"{what} needs a plain layout", code="FLY-U116", value=str(layout))
    if not layout.is_static:
        raise UserValueError(
            f"{what} cannot be decided before run time", code="FLY-U109", value=str(layout)
        )
    return layout


def _spans(layout: Layout) -> dict[tuple[int, ...], list[tuple[int, int]]]:
    """Return (extent, |stride|) of the modes of extent above 1, sorted, per codomain entry."""
    out: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for extent, stride in ev.flat_modes(layout.shape, layout.stride):
        path: tuple[int, ...] = ()
        if isinstance(stride, Basis):
            path, stride = stride.modes, stride.value  # noqa: PLW2901
        assert isinstance(extent, int)
        assert isinstance(stride, int)
        if extent > 1:
            out.setdefault(path, []).append((extent, abs(stride)))
    for spans in out.values():
        spans.sort(key=lambda m: m[1])
    return out


def is_injective(layout: object) -> bool:
    """Return whether no two coordinates map to the same value.

    Raises:
        UserError: The layout is composed or not static, or its strides interleave and it is too
            large to enumerate (over a million elements).
    """
    plain = _static(layout, "is_injective")
    total = size(plain)
    assert isinstance(total, int)
    return total == 0 or all(_injective(spans) for spans in _spans(plain).values())


def _injective(spans: list[tuple[int, int]]) -> bool:
    reach, count = 0, 1
    nested = True
    for extent, stride in spans:
        if stride == 0:
            return False
        nested = nested and stride > reach
        reach += (extent - 1) * stride
        count *= extent
    if nested or count > reach + 1:
        return nested
    if count > _MAX_ENUMERATED:
        raise UserValueError(
            "is_injective: the strides interleave and the layout is too large to enumerate",
            code="FLY-U118",
            value=count,
            allowed=f"up to {_MAX_ENUMERATED} elements",
        )
    values = {0}
    for extent, stride in spans:
        values = {v + i * stride for v in values for i in range(extent)}
    return len(values) == count


def is_surjective(layout: object) -> bool:
    """Return whether every number below the cosize (or coordinate below the coshape) is reached.

    Raises:
        UserError: The layout is composed or not static.
    """
    plain = _static(layout, "is_surjective")
    for spans in _spans(plain).values():
        reach = 0
        for extent, stride in spans:
            # Sorted: beyond `reach`, the next value that any mode adds is this stride.
            if stride > reach + 1:
                return False
            reach += (extent - 1) * stride
    return True


def is_bijective(layout: object) -> bool:
    """Return whether the layout is injective and surjective.

    Raises:
        UserError: As `is_injective`.
    """
    return is_surjective(layout) and is_injective(layout)


def max_common_layout(a: object, b: object) -> Layout:
    """Return the largest v with a(v(i)) == b(v(i)) == i for every i below its size.

    It gives the coordinates that both layouts keep next to one another from 0 on. Of a run-time
    extent the known divisor counts (it is positive), so v is static.

    Raises:
        UserError: An operand is no plain layout, or maps to coordinates.
    """
    left, right = _operand(a), _operand(b)
    ours, theirs = _by_stride(left), _by_stride(right)
    found: list[ev.Mode] = []
    reached = 1
    while True:
        pairs = [
            (_common_extent(s, t), place)
            for s, place in ours.get(reached, ())
            for t, other in theirs.get(reached, ())
            if isinstance(place, int) and place == other
        ]
        extent, place = max(pairs, default=(1, 0))
        if extent == 1:
            return from_modes(ev.merge_modes(found))
        found.append((extent, place))
        for modes in (ours, theirs):
            _split(modes, reached, place, extent)
        reached *= extent


def _split(modes: dict[int, list[tuple[Leaf, Leaf]]], stride: int, place: int, extent: int) -> None:
    """Add what follows the first `extent` steps of a longer mode as a mode of its own."""
    for whole, at in modes[stride]:
        if isinstance(at, int) and at == place and leaf.divides(extent, whole):
            rest = leaf.floordiv(whole, extent)
            modes.setdefault(stride * extent, []).append((rest, place * extent))


def _by_stride(layout: Layout) -> dict[int, list[tuple[Leaf, Leaf]]]:
    """Return (extent, place in the domain) of the modes of each static positive stride."""
    out: dict[int, list[tuple[Leaf, Leaf]]] = {}
    place: Leaf = 1
    for extent, stride in coalesced_modes(layout):
        if isinstance(stride, int) and stride > 0:
            out.setdefault(stride, []).append((extent, place))
        place = leaf.product(place, extent)
    return out


def _common_extent(s: Leaf, t: Leaf) -> int:
    """Return how many steps two extents have in common, as far as that is known."""
    if isinstance(s, int) and isinstance(t, int):
        return max(min(s, t), 1)
    return math.gcd(leaf.divisor_of(s), leaf.divisor_of(t))


def _operand(x: object) -> Layout:
    if not isinstance(x, Layout) or any(isinstance(d, Basis) for d in flatten(x.stride)):
        raise UserTypeError(
            "a common layout is defined for plain layouts with integer strides",
            code="FLY-U116",
            value=str(x),
        )
    return x


def max_common_vector(a: object, b: object) -> int:
    """Return how many elements both layouts keep next to one another, in the same order.

    Raises:
        UserError: As `max_common_layout`.
    """
    total = size(max_common_layout(a, b))
    assert isinstance(total, int)
    return total
