"""Leaves of layout objects: listing, replacing and mapping them.

Pre-order means reading order of the canonical text: shape before stride, inner before offset before
outer, base before layout. Where run-time leaves become operands, the order is pre-order with all
32-bit leaves first and the 64-bit ones after them (`operand_leaves`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout.basis import Basis
from flydsl.layout.composed import ComposedLayout, CoordTensor, Tile
from flydsl.layout.layouts import Layout, unchecked_layout
from flydsl.layout.leaf import Dyn, DynamicLeaf, Leaf
from flydsl.layout.swizzle import CoordSwizzle, Swizzle

__all__ = [
    "dynamic_leaves",
    "get_leaves",
    "is_static_object",
    "leaves",
    "map_leaves",
    "operand_leaves",
    "rebuild",
    "rebuild_from_operands",
    "symbolic",
]


def _walk(x: Any) -> Iterator[Leaf | None]:
    if x is None or isinstance(x, int | DynamicLeaf):
        yield x
    elif isinstance(x, tuple | list):
        for e in x:
            yield from _walk(e)
    elif isinstance(x, Layout):
        yield from _walk(x.shape)
        yield from _walk(x.stride)
    elif isinstance(x, Basis):
        yield x.value
    elif isinstance(x, ComposedLayout):
        yield from _walk(x.inner)
        yield from _walk(x.offset)
        yield from _walk(x.outer)
    elif isinstance(x, CoordTensor):
        yield from _walk(x.base)
        yield from _walk(x.layout)
    elif isinstance(x, Tile):
        yield from _walk(x.modes)
    elif not isinstance(x, Swizzle | CoordSwizzle):
        raise UserTypeError("this object has no integer leaves", code="FLY-U116", value=x)


def leaves(x: Any) -> tuple[Leaf | None, ...]:
    """Return all leaves of a tuple or layout object in pre-order; of a basis stride, its value."""
    return tuple(_walk(x))


def get_leaves(x: Any, dynamic_only: bool = False) -> tuple[Leaf | None, ...]:
    """Return all leaves, or only the run-time ones, in pre-order."""
    return dynamic_leaves(x) if dynamic_only else leaves(x)


def dynamic_leaves(x: Any) -> tuple[DynamicLeaf, ...]:
    """Return the run-time leaves in pre-order."""
    return tuple(e for e in _walk(x) if isinstance(e, DynamicLeaf))


def operand_leaves(x: Any) -> tuple[DynamicLeaf, ...]:
    """Return the run-time leaves in the order of operands: 32-bit ones first, then 64-bit ones."""
    found = dynamic_leaves(x)
    return tuple(e for e in found if e.width != 64) + tuple(e for e in found if e.width == 64)


def is_static_object(x: Any) -> bool:
    """Return whether no leaf is a run-time integer."""
    return not any(isinstance(e, DynamicLeaf) for e in _walk(x))


def map_leaves(fn: Callable[[Leaf], Leaf], x: Any) -> Any:
    """Return `x` with each leaf replaced by ``fn(leaf)``; None leaves stay."""
    if x is None:
        return None
    if isinstance(x, int | DynamicLeaf):
        return fn(x)
    if isinstance(x, tuple | list):
        return tuple(map_leaves(fn, e) for e in x)
    if isinstance(x, Layout):
        shape = map_leaves(fn, x.shape)
        return unchecked_layout(shape, map_leaves(fn, x.stride))
    if isinstance(x, Basis):
        return Basis(fn(x.value), x.modes)
    if isinstance(x, ComposedLayout):
        inner = map_leaves(fn, x.inner)
        offset = map_leaves(fn, x.offset)
        return ComposedLayout(inner, offset, map_leaves(fn, x.outer))
    if isinstance(x, CoordTensor):
        base = map_leaves(fn, x.base)
        return CoordTensor(base, map_leaves(fn, x.layout))
    if isinstance(x, Tile):
        return Tile(map_leaves(fn, x.modes))
    if isinstance(x, Swizzle | CoordSwizzle):
        return x
    raise UserTypeError("this object has no integer leaves", code="FLY-U116", value=x)


def _values(x: object) -> tuple[Leaf, ...]:
    given = tuple(x) if isinstance(x, Iterable) else (x,)
    bad = [e for e in given if isinstance(e, bool) or not isinstance(e, int | DynamicLeaf)]
    if bad:
        raise UserTypeError(
            "a value for a run-time leaf is no integer", code="FLY-U101", value=bad[0]
        )
    return given


def _wrong_count(x: Any, given: int) -> UserValueError:
    return UserValueError(
        "the number of values is not the number of run-time leaves",
        code="FLY-U103",
        value=given,
        allowed=str(len(dynamic_leaves(x))),
    )


def rebuild(x: Any, values: Iterable[Leaf]) -> Any:
    """Return `x` with its run-time leaves replaced by `values`, which are in pre-order.

    Raises:
        UserError: There are more or fewer values than run-time leaves.
    """
    given = _values(values)
    if len(given) != len(dynamic_leaves(x)):
        raise _wrong_count(x, len(given))
    source = iter(given)
    return map_leaves(lambda e: next(source) if isinstance(e, DynamicLeaf) else e, x)


def rebuild_from_operands(x: Any, operands: Iterable[Leaf]) -> Any:
    """Return `x` with its run-time leaves replaced by operands in the order of `operand_leaves`.

    Raises:
        UserError: There are more or fewer operands than run-time leaves.
    """
    found = dynamic_leaves(x)
    given = _values(operands)
    if len(given) != len(found):
        raise _wrong_count(x, len(given))
    narrow = sum(1 for e in found if e.width != 64)
    low, high = iter(given[:narrow]), iter(given[narrow:])
    return rebuild(x, [next(high) if e.width == 64 else next(low) for e in found])


def symbolic(x: Any) -> Any:
    """Return `x` with every run-time leaf replaced by a `Dyn` of the same width and divisor."""
    return map_leaves(lambda e: Dyn(e.width, e.divisor) if isinstance(e, DynamicLeaf) else e, x)
