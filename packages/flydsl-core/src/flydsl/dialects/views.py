"""`View`: a pointer with a layout, the Python value behind a tensor in memory.

The pointer is a `PtrType` while types are inferred and an SSA pointer while lowering; both move by
a number of elements, which is all that the algebra needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from flydsl.dialects.fly_types import AnyLayout, MemRefType, PtrType
from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout import ComposedLayout, Layout, Swizzle
from flydsl.layout import evaluate as ev
from flydsl.layout.leaf import Leaf
from flydsl.layout.tuples import IntTuple

__all__ = ["InferredPointer", "Pointer", "View", "make_view", "view_type"]


class Pointer(Protocol):
    """Something that points to elements and can be moved by a number of them."""

    @property
    def type(self) -> PtrType:
        """The pointer's type."""
        ...

    def moved(self, offset: Leaf) -> Pointer:
        """Return the pointer `offset` elements further; the int 0 gives the pointer itself."""
        ...

    def retyped(self, type_: PtrType) -> Pointer:
        """Return the same address with another pointer type of the same space."""
        ...


@dataclass(frozen=True, slots=True)
class InferredPointer:
    """A pointer of which only the type is known."""

    type: PtrType

    def moved(self, offset: Leaf) -> InferredPointer:
        """See `Pointer.moved`."""
        return InferredPointer(self.type.moved(offset))

    def retyped(self, type_: PtrType) -> InferredPointer:
        """See `Pointer.retyped`."""
        return InferredPointer(type_)


Coordinate: TypeAlias = IntTuple


@dataclass(frozen=True, slots=True)
class View:
    """A tensor in memory: element at coordinate c is ``pointer[layout(c)]``."""

    pointer: Any
    layout: AnyLayout

    @property
    def shape(self) -> IntTuple:
        """Extents of the layout."""
        return self.layout.shape

    @property
    def rank(self) -> int:
        """The number of top-level modes."""
        return self.layout.rank

    def mapped(self, fn: Callable[..., Any], *arguments: Any, **keywords: Any) -> View:
        """Return the view whose layout is ``fn(layout, …)``."""
        return View(self.pointer, fn(self.layout, *arguments, **keywords))

    def at(self, coord: Coordinate) -> Any:
        """Return the pointer to the element at `coord`; None entries count as 0.

        Raises:
            UserError: The coordinate does not fit the shape.
        """
        ev.check_coord(coord, self.layout.shape)
        if isinstance(self.layout, Layout):
            offset = ev.evaluate(coord, self.layout.shape, self.layout.stride)
        else:
            offset = self.layout.evaluated(coord)
        return self.pointer.moved(offset)

    def sliced(self, coord: Coordinate) -> View:
        """Return the modes that face None; the others move the pointer (or a composed offset)."""
        ev.check_coord(coord, self.layout.shape)
        rest = self.layout.sliced(coord)
        if isinstance(self.layout, ComposedLayout):
            return View(self.pointer, rest)
        return View(self.at(coord), rest)


def view_type(view: View) -> MemRefType:
    """Return the type of a view."""
    kind: PtrType = view.pointer.type
    return MemRefType(kind.element, kind.space, view.layout, kind.alignment)


def make_view(pointer: Any, layout: AnyLayout) -> View:
    """Return the view of `pointer` through `layout`.

    A byte swizzle of the pointer becomes the inner part of a composed layout, which needs the
    pointer to be aligned to the swizzle's period.

    Raises:
        UserError: The layout maps to coordinates, or the swizzle cannot move into the layout.
    """
    if not isinstance(layout, Layout | ComposedLayout):
        raise UserTypeError(
            "a view needs a pointer or coordinate, and a layout", code="FLY-U312", value=str(layout)
        )
    kind: PtrType = pointer.type
    if kind.swizzle is None:
        return View(pointer, layout)
    if kind.alignment % kind.swizzle.period:
        raise UserValueError(
            "a swizzled pointer is not aligned to the period of its swizzle",
            code="FLY-U317",
            value=f"{kind.alignment} bytes",
            allowed=f"a multiple of {kind.swizzle.period} bytes",
        )
    swizzle: Swizzle = kind.swizzle.recast(8, MemRefType(kind.element, "", Layout(1, 1), 1).bits)
    plain = PtrType(kind.element, kind.space, kind.alignment)
    return View(pointer.retyped(plain), ComposedLayout(swizzle, 0, layout))
