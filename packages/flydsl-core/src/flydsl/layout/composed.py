"""Functions built from layouts: `ComposedLayout`, `CoordTensor`, and `Tile`, a tuple of tilers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout import evaluate as ev
from flydsl.layout.layouts import Drawable, Layout, check_mode, single_coord
from flydsl.layout.leaf import DynamicLeaf
from flydsl.layout.swizzle import CoordSwizzle, Swizzle
from flydsl.layout.tuples import (
    IntTuple,
    flatten,
    format_tuple,
    has_none,
    int_tuple_add,
    is_static_tuple,
    map_tuple,
    normalize,
)

__all__ = ["ComposedLayout", "CoordTensor", "LayoutLike", "Tile", "Tiler"]


def _zero(_: object) -> int:
    return 0


def _check_added(outer: Layout | ComposedLayout, offset: IntTuple, what: str) -> None:
    """Raise UserError unless the values of `outer` can be added to `offset`."""
    if isinstance(outer, ComposedLayout):
        fits = _congruent_profile(outer.codomain, offset)
    else:
        fits = ev.fits_profile(flatten(outer.stride), offset)
    if not fits:
        raise UserValueError(
            f"profile mismatch: {what} is nested otherwise than what the layout maps to",
            code="FLY-U103",
            value=format_tuple(offset),
            allowed=f"a tuple like {format_tuple(outer.codomain)}",
        )


def _congruent_profile(a: IntTuple, b: IntTuple) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_congruent_profile(x, y) for x, y in zip(a, b, strict=True))
    return not isinstance(a, tuple) and not isinstance(b, tuple)


@dataclass(frozen=True, slots=True)
class ComposedLayout(Drawable):
    """The function x -> inner(offset + outer(x)).

    The sum is computed in 64 bits unless the parts of it that are known show that 32 suffice; a
    32-bit run-time offset is taken to leave room for what a static outer layout adds to it.

    Attributes:
        inner: Layout, Swizzle or CoordSwizzle.
        offset: Nested like what `outer` maps to.
        outer: Layout or ComposedLayout; its shape is the domain.

    Raises:
        UserError: A part is of another kind, or the profiles do not fit.
    """

    inner: Layout | Swizzle | CoordSwizzle
    offset: IntTuple
    outer: Layout | ComposedLayout

    def __post_init__(self) -> None:
        if not isinstance(self.outer, Layout | ComposedLayout):
            raise UserTypeError(
                "the outer part of a composed layout is not a layout",
                code="FLY-U116",
                value=self.outer,
            )
        if not isinstance(self.inner, Layout | Swizzle | CoordSwizzle):
            raise UserTypeError(
                "the inner part of a composed layout is of the wrong kind",
                code="FLY-U116",
                value=self.inner,
                allowed="Layout, Swizzle, CoordSwizzle",
            )
        offset = normalize(self.offset, "the offset")
        _check_added(self.outer, offset, "the offset")
        if isinstance(self.inner, Swizzle) and isinstance(offset, tuple):
            raise UserValueError(
                "a swizzle needs an index, but the outer layout maps to coordinates",
                code="FLY-U112",
                hint="use a CoordSwizzle",
            )
        if isinstance(self.inner, CoordSwizzle):
            self.inner(map_tuple(_zero, offset))
        if isinstance(self.inner, Layout):
            ev.check_coord(offset, self.inner.shape)
        object.__setattr__(self, "offset", offset)

    def __str__(self) -> str:
        return f"{self.inner} o {format_tuple(self.offset)} o {self.outer}"

    @property
    def codomain(self) -> IntTuple:
        """Zeros nested like the values."""
        return (
            self.inner.codomain if isinstance(self.inner, Layout) else map_tuple(_zero, self.offset)
        )

    @property
    def shape(self) -> IntTuple:
        """The domain: the shape of the outer layout."""
        return self.outer.shape

    @property
    def stride(self) -> NoReturn:
        """A composed layout has none.

        Raises:
            UserTypeError: Always.
        """
        raise UserTypeError(
            "a composed layout has no stride", code="FLY-U116", value=str(self), hint="use .outer"
        )

    @property
    def rank(self) -> int:
        """The number of top-level modes."""
        return self.outer.rank

    @property
    def depth(self) -> int:
        """The depth of nesting; 0 for a leaf."""
        return self.outer.depth

    @property
    def is_leaf(self) -> bool:
        """Whether the shape is a leaf."""
        return self.outer.is_leaf

    @property
    def is_static(self) -> bool:
        """Whether nothing is known only at run time."""
        inner = not isinstance(self.inner, Layout) or self.inner.is_static
        return inner and is_static_tuple(self.offset) and self.outer.is_static

    @property
    def is_static_shape(self) -> bool:
        """Whether all extents are ints."""
        return self.outer.is_static_shape

    def with_outer(self, outer: Layout | ComposedLayout) -> ComposedLayout:
        """Return the same inner and offset around another outer layout."""
        return ComposedLayout(self.inner, self.offset, outer)

    def modes(self) -> tuple[ComposedLayout, ...]:
        """Return one composed layout per top-level mode, all with the same inner and offset."""
        return tuple(self.with_outer(mode) for mode in self.outer.modes())

    def __iter__(self) -> Iterator[ComposedLayout]:
        return iter(self.modes())

    def __getitem__(self, mode: int) -> ComposedLayout:
        """Return one top-level mode, with the same inner and offset."""
        return self.with_outer(self.outer[mode])

    def evaluated(self, coord: IntTuple) -> IntTuple:
        """Return what a checked coordinate maps to; None entries count as 0."""
        if isinstance(self.outer, ComposedLayout):
            value = self.outer.evaluated(coord)
            value = int_tuple_add(self.offset, value)
        else:
            value = _added(self.offset, self.outer, coord)
        if not isinstance(self.inner, Layout):
            return self.inner(value)
        return ev.evaluate(value, self.inner.shape, self.inner.stride)

    def sliced(self, coord: IntTuple) -> ComposedLayout:
        """Return the modes that face None in a checked coordinate; the others move the offset.

        Raises:
            UserError: Nothing faces None.
        """
        rest = self.outer.sliced(coord)
        if isinstance(self.outer, ComposedLayout):
            return self.with_outer(rest)
        return ComposedLayout(self.inner, _added(self.offset, self.outer, coord), rest)

    def __call__(self, *coord: Any) -> Any:
        """Return what the coordinate maps to, or the remaining layout when it holds None."""
        crd = single_coord(coord, self.shape)
        ev.check_coord(crd, self.shape)
        if has_none(crd):
            return self if crd is None else self.sliced(crd)
        return self.evaluated(crd)


def _added(offset: IntTuple, outer: Layout, coord: IntTuple) -> IntTuple:
    value = ev.evaluate(
        coord,
        outer.shape,
        outer.stride,
        profile=map_tuple(_zero, offset),
        offset=offset,
    )
    return int_tuple_add(offset, value)


@dataclass(frozen=True, slots=True)
class CoordTensor(Drawable):
    """A view of the coordinates themselves: x -> base + layout(x).

    Attributes:
        base: Coordinate (or index) of the element at 0.
        layout: Usually with basis strides, such as an identity layout or a part of one.

    Raises:
        UserError: A part is of another kind, or the base does not fit what the layout maps to.
    """

    base: IntTuple
    layout: Layout

    def __post_init__(self) -> None:
        base = normalize(self.base, "the base coordinate")
        if not isinstance(self.layout, Layout):
            raise UserTypeError(
                "a coordinate tensor needs a layout", code="FLY-U116", value=self.layout
            )
        _check_added(self.layout, base, "the base coordinate")
        object.__setattr__(self, "base", base)

    def __str__(self) -> str:
        return f"{format_tuple(self.base)}, {self.layout}"

    @property
    def shape(self) -> IntTuple:
        """The shape of the layout."""
        return self.layout.shape

    @property
    def stride(self) -> IntTuple:
        """The stride of the layout."""
        return self.layout.stride

    @property
    def dtype(self) -> NoReturn:
        """A coordinate tensor has no element type.

        Raises:
            UserTypeError: Always.
        """
        raise UserTypeError(
            "a coordinate tensor has no element type: its elements are coordinates",
            code="FLY-U116",
            value=str(self),
        )

    @property
    def codomain(self) -> IntTuple:
        """Zeros nested like the base."""
        return map_tuple(_zero, self.base)

    @property
    def rank(self) -> int:
        """The number of top-level modes."""
        return self.layout.rank

    @property
    def depth(self) -> int:
        """The depth of nesting; 0 for a leaf."""
        return self.layout.depth

    @property
    def is_static(self) -> bool:
        """Whether nothing is known only at run time."""
        return is_static_tuple(self.base) and self.layout.is_static

    @property
    def is_static_shape(self) -> bool:
        """Whether all extents are ints."""
        return self.layout.is_static_shape

    def modes(self) -> tuple[CoordTensor, ...]:
        """Return one tensor per top-level mode, all with the same base."""
        return tuple(CoordTensor(self.base, mode) for mode in self.layout.modes())

    def __iter__(self) -> Iterator[CoordTensor]:
        # Without it Python would iterate by __getitem__, which knows no end.
        return iter(self.modes())

    def evaluated(self, coord: IntTuple) -> IntTuple:
        """Return the element at a checked coordinate; None entries count as 0."""
        return _added(self.base, self.layout, coord)

    def sliced(self, coord: IntTuple) -> CoordTensor:
        """Return the modes that face None in a checked coordinate; the others move the base.

        Raises:
            UserError: Nothing faces None.
        """
        return CoordTensor(self.evaluated(coord), self.layout.sliced(coord))

    def __call__(self, *coord: Any) -> Any:
        """Return the element at the coordinate, or the remaining view when it holds None."""
        crd = single_coord(coord, self.shape)
        ev.check_coord(crd, self.shape)
        if has_none(crd):
            return self if crd is None else self.sliced(crd)
        return self.evaluated(crd)

    def __getitem__(self, coord: Any) -> Any:
        """Return the element or view at `coord`, as a call does."""
        return self(*coord) if isinstance(coord, tuple) else self(coord)


Tiler: TypeAlias = "int | DynamicLeaf | Layout | Tile | None"


@dataclass(frozen=True, slots=True)
class Tile:
    """One tiler per mode: an int n (the layout n:1), a Layout, a Tile, or None (keep the mode).

    Raises:
        UserError: `modes` is empty, or holds something else or an int below 1.
    """

    modes: tuple[Tiler, ...]

    def __post_init__(self) -> None:
        modes: object = self.modes
        if not isinstance(modes, tuple) or not modes:
            raise UserValueError("a tile needs modes", code="FLY-U115", value=modes)
        for mode in modes:
            if isinstance(mode, bool) or not isinstance(
                mode, int | DynamicLeaf | Layout | Tile | None
            ):
                raise UserValueError(
                    "a tile holds something else than tilers",
                    code="FLY-U115",
                    value=mode,
                    allowed="int, None, Layout or a tuple of these",
                )
            if isinstance(mode, int) and mode < 1:
                raise UserValueError(
                    "a tile size is not positive", code="FLY-U115", value=mode, allowed="1 or more"
                )

    def __str__(self) -> str:
        return "[" + "|".join("*" if m is None else str(m) for m in self.modes) + "]"

    @property
    def rank(self) -> int:
        """The number of modes."""
        return len(self.modes)

    def __getitem__(self, mode: int) -> Tiler:
        """Return one mode.

        Raises:
            UserError: `mode` is no int or out of range.
        """
        return self.modes[check_mode(mode, self.rank)]


LayoutLike: TypeAlias = "Layout | ComposedLayout | CoordTensor"
