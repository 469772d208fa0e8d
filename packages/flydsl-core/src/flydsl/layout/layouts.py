"""`Layout`, the function that the algebra is about.

Objects of the algebra are immutable values; `str()` is the canonical text that
`flydsl.layout.parse` reads back.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flydsl.errors import UserIndexError, UserTypeError, UserValueError
from flydsl.layout import evaluate as ev
from flydsl.layout import leaf
from flydsl.layout.basis import Basis
from flydsl.layout.tuples import (
    IntTuple,
    congruent,
    flatten,
    format_tuple,
    has_none,
    int_tuple_product,
    is_static_tuple,
    map_tuple,
    normalize,
    single_leaf,
    weakly_congruent,
)

__all__ = ["Drawable", "Layout", "check_mode", "linear_coord", "single_coord", "unchecked_layout"]


def tuple_depth(x: IntTuple) -> int:
    """Return 0 for a leaf, else one more than the deepest entry."""
    return 1 + max((tuple_depth(e) for e in x), default=0) if isinstance(x, tuple) else 0


def _check_extent(extent: object) -> object:
    if isinstance(extent, int) and extent < 0:
        raise UserValueError("an extent is negative", code="FLY-U110", value=extent)
    return extent


def linear_coord(coord: IntTuple, shape: IntTuple) -> leaf.Leaf:
    """Return the colexicographic number of `coord` in `shape`, in 64 bits if it may need them."""
    if not isinstance(shape, tuple):
        return coord  # type: ignore[no-any-return]
    size = int_tuple_product(shape)
    times = leaf.mul if isinstance(size, int) and size < 1 << 31 else leaf.product
    total: leaf.Leaf = 0
    weight: leaf.Leaf = 1
    for c, s in zip(coord, shape, strict=True):
        total = leaf.add(total, times(linear_coord(c, s), weight))
        weight = leaf.product(weight, int_tuple_product(s))
    return total


def single_coord(coord: tuple[Any, ...], shape: IntTuple) -> IntTuple:
    """Return the coordinate that the arguments of a layout call mean."""
    if len(coord) == 1:
        only = None if coord[0] is None else normalize(coord[0], "the coordinate", none=True)
        # A tuple is the whole coordinate, unless it only fits the one mode of a layout of rank 1.
        return only if not isinstance(only, tuple) or weakly_congruent(only, shape) else (only,)
    return normalize(coord, "the coordinate", none=True)


class Drawable:
    """What everything that has a picture shares."""

    __slots__ = ()

    def draw(self, **options: Any) -> str:
        """Return a text picture and write files if asked; see `flydsl.layout.drawing.draw`."""
        # Drawing sits above this module, so it is found by name.
        module = importlib.import_module("flydsl.layout.drawing")
        return module.draw(self, **options)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Layout(Drawable):
    """A function from coordinates to integers: `shape` gives the domain, `stride` the steps.

    Attributes:
        shape: Extents, nested; run-time ints are allowed, negative ones are not.
        stride: Steps, nested alike; ints, run-time ints or `Basis`.

    Raises:
        UserError: The two are not congruent, or hold something else than integers.
    """

    shape: IntTuple
    stride: IntTuple

    def __post_init__(self) -> None:
        shape = map_tuple(_check_extent, normalize(self.shape, "the shape"))
        stride = normalize(self.stride, "the stride", basis=True)
        if not congruent(shape, stride):
            raise UserValueError(
                "profile mismatch: shape and stride of a layout are nested differently",
                code="FLY-U103",
                value=f"{format_tuple(shape)}:{format_tuple(stride)}",
            )
        flat = flatten(stride)
        if any(isinstance(d, Basis) for d in flat):
            ev.codomain_profile(flat)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)

    def __str__(self) -> str:
        return f"{format_tuple(self.shape)}:{format_tuple(self.stride)}"

    @property
    def rank(self) -> int:
        """The number of top-level modes."""
        return len(self.shape) if isinstance(self.shape, tuple) else 1

    @property
    def depth(self) -> int:
        """The depth of nesting; 0 for a leaf."""
        return tuple_depth(self.shape)

    @property
    def is_leaf(self) -> bool:
        """Whether shape and stride are leaves."""
        return not isinstance(self.shape, tuple)

    @property
    def is_static(self) -> bool:
        """Whether nothing is known only at run time."""
        return self.is_static_shape and self.is_static_stride

    @property
    def is_static_shape(self) -> bool:
        """Whether all extents are ints."""
        return is_static_tuple(self.shape)

    @property
    def is_static_stride(self) -> bool:
        """Whether all strides are ints or static basis strides."""
        return is_static_tuple(self.stride)

    @property
    def codomain(self) -> IntTuple:
        """Zeros nested like the values: 0, or a tuple when there are basis strides."""
        return ev.codomain_profile(flatten(self.stride))

    def modes(self) -> tuple[Layout, ...]:
        """Return the top-level modes; of a leaf, itself."""
        if not isinstance(self.shape, tuple):
            return (self,)
        return tuple(unchecked_layout(s, d) for s, d in zip(self.shape, self.stride, strict=True))

    def __iter__(self) -> Iterator[Layout]:
        return iter(self.modes())

    def __getitem__(self, mode: int) -> Layout:
        """Return one top-level mode.

        Raises:
            UserError: `mode` is no int or out of range.
        """
        index = check_mode(mode, self.rank)
        if not isinstance(self.shape, tuple):
            return self
        return unchecked_layout(self.shape[index], self.stride[index])

    def __call__(self, *coord: Any) -> Any:
        """Return what the coordinate maps to, or the remaining layout when it holds None.

        The coordinate is given as one argument per mode, as one tuple, or as one integer.
        """
        crd = single_coord(coord, self.shape)
        ev.check_coord(crd, self.shape)
        if has_none(crd):
            return self if crd is None else self.sliced(crd)
        return ev.evaluate(crd, self.shape, self.stride)

    def sliced(self, coord: IntTuple) -> Layout:
        """Return the modes that face None in a checked coordinate; one mode is unwrapped.

        Raises:
            UserError: Nothing faces None.
        """
        shape = ev.slice_tuple(self.shape, coord)
        if not shape:
            raise ev.selection_error("slice", coord)
        stride = ev.slice_tuple(self.stride, coord)
        if len(shape) == 1:
            return unchecked_layout(shape[0], stride[0])
        return unchecked_layout(shape, stride)

    def get_hier_coord(self, index: leaf.Leaf) -> IntTuple:
        """Return the coordinate of `index`, nested like the shape."""
        return ev.index_to_coord(single_leaf(index, "the index"), self.shape, self.stride)

    def get_flat_coord(self, index: leaf.Leaf) -> IntTuple:
        """Return the coordinate of `index` with one linear entry per top-level mode."""
        coord = self.get_hier_coord(index)
        if not isinstance(self.shape, tuple):
            return coord
        return tuple(linear_coord(c, s) for c, s in zip(coord, self.shape, strict=True))

    def get_1d_coord(self, index: leaf.Leaf) -> leaf.Leaf:
        """Return the linear (colexicographic) coordinate of `index`."""
        return linear_coord(self.get_hier_coord(index), self.shape)


# The slots' own setters: several times faster than the dataclass's __init__, which validates.
_SET_SHAPE = vars(Layout)["shape"].__set__
_SET_STRIDE = vars(Layout)["stride"].__set__


def unchecked_layout(shape: IntTuple, stride: IntTuple) -> Layout:
    """Return a layout of parts that are known to be congruent and well formed."""
    out: Layout = object.__new__(Layout)
    _SET_SHAPE(out, shape)
    _SET_STRIDE(out, stride)
    return out


def check_mode(mode: object, rank: int) -> int:
    """Return `mode` as an index into `rank` modes; negative ones count from the end.

    Raises:
        UserError: It is no int or out of range.
    """
    if isinstance(mode, bool) or not isinstance(mode, int):
        raise UserTypeError("a mode is not an int", code="FLY-U104", value=mode)
    if not -rank <= mode < rank:
        raise UserIndexError(
            "a mode is out of range", code="FLY-U104", value=mode, allowed=f"0 to {rank - 1}"
        )
    return mode % rank
