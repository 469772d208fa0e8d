"""From coordinates to indices and back."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout import evaluate as ev
from flydsl.layout.composed import ComposedLayout, CoordTensor
from flydsl.layout.layouts import Layout
from flydsl.layout.leaf import Leaf
from flydsl.layout.tuples import IntTuple, has_none, normalize

__all__ = ["crd2idx", "get_1d_coord", "get_flat_coord", "idx2crd"]


def crd2idx(coord: Any, layout: Any) -> IntTuple:
    """Return what `layout` maps `coord` to: an index, or a coordinate for basis strides.

    An integer against several modes is split colexicographically; the last mode takes the rest.

    Raises:
        UserError: The coordinate does not fit the shape or holds None.
    """
    if not isinstance(layout, Layout | ComposedLayout | CoordTensor):
        raise UserTypeError("crd2idx needs a layout", code="FLY-U116", value=layout)
    if coord is None or has_none(coord if isinstance(coord, tuple) else tuple()):
        raise UserValueError(
            "a coordinate to evaluate holds None", code="FLY-U114", value=coord, hint="use slice"
        )
    crd = normalize(coord, "the coordinate")
    ev.check_coord(crd, layout.shape)
    if isinstance(layout, Layout):
        return ev.evaluate(crd, layout.shape, layout.stride)
    return layout.evaluated(crd)


def _plain(layout: Any) -> Layout:
    if not isinstance(layout, Layout):
        raise UserTypeError(
            "only a plain layout can be inverted index by index", code="FLY-U116", value=str(layout)
        )
    return layout


def idx2crd(index: Any, layout: Any) -> IntTuple:
    """Return per leaf (index / stride) % extent, nested like the shape; 0 for a stride of 0.

    A shape in place of a layout stands for its compact column-major layout.

    Raises:
        UserError: `index` is no integer, or `layout` no plain layout.
    """
    if not isinstance(layout, Layout | ComposedLayout | CoordTensor):
        from flydsl.layout.construct import make_layout

        layout = make_layout(layout)
    return _plain(layout).get_hier_coord(index)


def get_flat_coord(index: Any, layout: Any) -> IntTuple:
    """Return the coordinate of `index` with one linear entry per top-level mode."""
    return _plain(layout).get_flat_coord(index)


def get_1d_coord(index: Any, layout: Any) -> Leaf:
    """Return the linear (colexicographic) coordinate of `index`."""
    return _plain(layout).get_1d_coord(index)
