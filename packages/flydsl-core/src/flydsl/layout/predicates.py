"""Questions about layouts as functions: injective, surjective, bijective, and what two share."""

from __future__ import annotations

from flydsl.errors import UserError, UserTypeError, UserValueError
from flydsl.layout import evaluate as ev
from flydsl.layout.basis import Basis
from flydsl.layout.compose import compose_layouts
from flydsl.layout.inverses import right_inverse
from flydsl.layout.layouts import Layout
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

    It gives the coordinates that both layouts keep next to one another from 0 on; run-time parts
    count as far as they are provably alike.

    Raises:
        UserError: An operand is no plain layout, or maps to coordinates.
    """
    left, right = _operand(a), _operand(b)
    inverse = right_inverse(right)
    assert isinstance(inverse, Layout)
    modes = ev.merge_modes(ev.flat_modes(inverse.shape, inverse.stride))
    for count in range(len(modes), 0, -1):
        extent, stride = modes[count - 1]
        parts = _divisors(extent) if isinstance(extent, int) else [extent]
        for part in parts:
            candidate = from_modes([*modes[: count - 1], (part, stride)])
            if _counts(left, candidate):
                return candidate
    return from_modes([])


def _operand(x: object) -> Layout:
    if not isinstance(x, Layout) or any(isinstance(d, Basis) for d in flatten(x.stride)):
        raise UserTypeError(
            "a common layout is defined for plain layouts with integer strides",
            code="FLY-U116",
            value=str(x),
        )
    return x


def _divisors(n: int) -> list[int]:
    """Return the divisors of `n` above 1, largest first."""
    low = [d for d in range(1, min(int(n**0.5) + 1, 1 << 12)) if n % d == 0]
    return sorted({n // d for d in low} | {d for d in low if d > 1} - {1}, reverse=True)


def _counts(layout: Layout, candidate: Layout) -> bool:
    """Return whether layout(candidate(i)) == i provably."""
    try:
        values = coalesced_modes(compose_layouts(layout, candidate))
    except UserError:
        return False
    if not values:
        return True
    return len(values) == 1 and isinstance(values[0][1], int) and values[0][1] == 1


def max_common_vector(a: object, b: object) -> int:
    """Return how many elements both layouts keep next to one another, in the same order.

    Raises:
        UserError: As `max_common_layout`.
    """
    common = max_common_layout(a, b)
    total = size(common)
    if isinstance(total, int):
        return total
    static = [s for s in flatten(common.shape) if isinstance(s, int)]
    out = 1
    for s in static:
        out *= s
    return out
