"""Sizes, codomains, coordinates and indices of layouts."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout import evaluate as ev
from flydsl.layout import leaf
from flydsl.layout.basis import Basis
from flydsl.layout.composed import ComposedLayout, CoordTensor, Tile
from flydsl.layout.layouts import Layout, linear_coord
from flydsl.layout.leaf import Leaf
from flydsl.layout.modes import as_layout_like, require_integers
from flydsl.layout.swizzle import Swizzle
from flydsl.layout.tuples import (
    IntTuple,
    flatten,
    int_tuple_add,
    int_tuple_product,
    map_tuple,
    normalize,
)

__all__ = [
    "composed_get_inner",
    "composed_get_offset",
    "composed_get_outer",
    "coprofile",
    "coshape",
    "cosize",
    "crd2idx",
    "crd2offset",
    "get_1d_coord",
    "get_flat_coord",
    "get_hier_coord",
    "get_iter",
    "get_layout",
    "get_scalar",
    "get_shape",
    "get_stride",
    "idx2crd",
    "size",
]


def size(x: object, mode: object = None) -> Leaf:
    """Return the number of coordinates of a layout, tuple (as a shape) or tile; or of one mode.

    Raises:
        UserError: `x` has no size, or `mode` is out of range.
    """
    if isinstance(x, Layout | ComposedLayout | CoordTensor):
        shape = x.shape
    elif isinstance(x, Tile):
        shape = tuple(_tiler_size(m) for m in x.modes)
    else:
        shape = normalize(x, "the shape")
    if mode is not None:
        sizes = ev.mode_sizes(shape)
        if isinstance(mode, bool) or not isinstance(mode, int) or not 0 <= mode < len(sizes):
            raise UserValueError(
                "a mode is out of range",
                code="FLY-U104",
                value=mode,
                allowed=f"0 to {len(sizes) - 1}",
            )
        return sizes[mode]
    return int_tuple_product(shape)


def _tiler_size(mode: Any) -> Leaf:
    if mode is None:
        raise UserValueError("a tile with None has no size of its own", code="FLY-U115")
    return size(mode) if isinstance(mode, Layout | Tile) else normalize(mode, "the tile")


def _reach(extents: list[tuple[Leaf, Leaf]]) -> Leaf:
    """Return the number of integers between the lowest and highest value, both included.

    A run-time number has 64 bits unless it is an extent: neither products nor sums of 32 wrap.
    """
    if any(_is(s, 0) for s, _ in extents):
        return 0
    steps = [(s, abs(d) if isinstance(d, int) else d) for s, d in extents]
    moving = [(s, step) for s, step in steps if not (_is(s, 1) or _is(step, 0))]
    if len(moving) == 1 and _is(moving[0][1], 1):
        return moving[0][0]
    total: Leaf = 1
    for s, step in moving:
        total = leaf.add(total, leaf.widen(leaf.product(leaf.sub(s, 1), step)))
    return total


def _is(x: Leaf, value: int) -> bool:
    return isinstance(x, int) and x == value


def coshape(x: object) -> IntTuple:
    """Return, per entry of the codomain, 1 + sum of (extent - 1) * |stride|; 0 if empty.

    For a swizzled layout it is rounded up to the block that the swizzle permutes.

    Raises:
        UserError: The composed layout's inner part is not defined on all its values.
    """
    obj = as_layout_like(x, "coshape")
    if isinstance(obj, CoordTensor):
        return coshape(obj.layout)
    if isinstance(obj, ComposedLayout):
        return _composed_coshape(obj)
    return _coshape_at(ev.flat_modes(obj.shape, obj.stride), obj.codomain, ())


def _coshape_at(modes: list[ev.Mode], profile: IntTuple, path: tuple[int, ...]) -> IntTuple:
    if isinstance(profile, tuple):
        return tuple(_coshape_at(modes, p, (*path, i)) for i, p in enumerate(profile))
    here: list[tuple[Leaf, Leaf]] = []
    for s, d in modes:
        if isinstance(d, Basis):
            here.append((s, d.value if d.modes == path else 0))
        else:
            here.append((s, d))
    return _reach(here)


def _composed_coshape(x: ComposedLayout) -> IntTuple:
    reach = int_tuple_add(x.offset, coshape(x.outer))
    if isinstance(x.inner, Layout):
        return _inner_coshape(x, reach)
    if isinstance(x.inner, Swizzle):
        if isinstance(reach, int) and reach <= 1 << x.inner.source[0]:
            return reach
        return _round_up(reach, x.inner.block)
    return _round_up_at(reach, x.inner.col, 1 << (x.inner.mask + x.inner.base_col))


def _round_up(x: Leaf, unit: int) -> Leaf:
    return leaf.mul(leaf.ceildiv(x, unit), unit)


def _round_up_at(x: IntTuple, path: tuple[int, ...], unit: int) -> IntTuple:
    if not path:
        return _round_up(x, unit)
    return tuple(_round_up_at(e, path[1:], unit) if i == path[0] else e for i, e in enumerate(x))


def _inner_coshape(x: ComposedLayout, outer: IntTuple) -> IntTuple:
    assert isinstance(x.inner, Layout)
    reach = [leaf.add(a, b) for a, b in zip(flatten(x.offset), flatten(outer), strict=False)]
    room = x.inner.shape if len(reach) > 1 else int_tuple_product(x.inner.shape)
    for used, extent in zip(reach, flatten(room), strict=False):
        if isinstance(used, int) and isinstance(extent, int) and used > extent:
            raise UserValueError(
                "the outer layout reaches beyond the inner layout's shape",
                code="FLY-U106",
                value=str(x),
            )
    return coshape(x.inner)


def cosize(x: object) -> Leaf:
    """Return the product of `coshape`: how many elements the layout's values span."""
    return int_tuple_product(coshape(x))


def coprofile(x: object) -> IntTuple:
    """Return zeros nested like the layout's values."""
    return as_layout_like(x, "coprofile").codomain


def get_shape(x: object) -> IntTuple:
    """Return the shape of a layout."""
    return as_layout_like(x, "get_shape").shape


def get_stride(x: object) -> IntTuple:
    """Return the stride of a layout.

    Raises:
        UserError: The layout is composed.
    """
    return as_layout_like(x, "get_stride").stride


def get_layout(x: object) -> Layout | ComposedLayout:
    """Return the layout of a coordinate tensor; a layout is its own.

    Raises:
        UserError: `x` is something else.
    """
    obj = as_layout_like(x, "get_layout")
    return obj.layout if isinstance(obj, CoordTensor) else obj


def get_iter(x: object) -> IntTuple:
    """Return the base coordinate of a coordinate tensor.

    Raises:
        UserError: `x` is something else.
    """
    if not isinstance(x, CoordTensor):
        raise UserTypeError("get_iter needs a tensor", code="FLY-U116", value=x)
    return x.base


def get_scalar(x: object) -> Leaf:
    """Return the leaf that `x` is.

    Raises:
        UserError: `x` is a tuple.
    """
    out = normalize(x, "the tuple")
    if isinstance(out, tuple):
        raise UserValueError("get_scalar needs a single integer", code="FLY-U103", value=out)
    return out  # type: ignore[no-any-return]


def _composed(x: object, what: str) -> ComposedLayout:
    if not isinstance(x, ComposedLayout):
        raise UserTypeError(f"{what} needs a composed layout", code="FLY-U116", value=x)
    return x


def composed_get_inner(x: object) -> Any:
    """Return the inner part of a composed layout."""
    return _composed(x, "composed_get_inner").inner


def composed_get_offset(x: object) -> IntTuple:
    """Return the offset of a composed layout."""
    return _composed(x, "composed_get_offset").offset


def composed_get_outer(x: object) -> Any:
    """Return the outer part of a composed layout."""
    return _composed(x, "composed_get_outer").outer


def crd2idx(coord: object, layout: object) -> IntTuple:
    """Return what `layout` maps `coord` to.

    A tuple coordinate matches the modes; an integer against nested modes is split
    colexicographically, the last mode taking the rest (no range check). The result has 64 bits
    unless the extents and strides show that 32 suffice for every coordinate in range.

    Raises:
        UserError: The coordinate does not fit the shape.
    """
    return _apply(coord, layout, "crd2idx")


def crd2offset(coord: object, layout: object) -> IntTuple:
    """Return `crd2idx`, under the name that says what it is for.

    Raises:
        UserError: The coordinate does not fit the shape.
    """
    return _apply(coord, layout, "crd2offset")


def _apply(coord: object, layout: object, what: str) -> IntTuple:
    obj = as_layout_like(layout, what)
    crd = require_integers(normalize(coord, "the coordinate", none=True), "the coordinate")
    ev.check_coord(crd, obj.shape)
    if isinstance(obj, Layout):
        return ev.evaluate(crd, obj.shape, obj.stride)
    return obj.evaluated(crd)


def _index_and_layout(index: object, layout: object, what: str) -> tuple[Leaf, Layout]:
    if isinstance(layout, ComposedLayout | CoordTensor):
        raise UserTypeError(
            f"{what} is not defined for this kind of layout",
            code="FLY-U116",
            value=str(layout),
            allowed="a plain layout",
        )
    if not isinstance(layout, Layout):
        shape = normalize(layout, "the layout")
        layout = Layout(shape, _compact(shape))
    idx = normalize(index, "the index")
    if isinstance(idx, tuple):
        raise UserTypeError(
            f"{what} needs a single index",
            code="FLY-U101",
            value=idx,
            hint="the first argument is the index, the second the layout",
        )
    return idx, layout


def _compact(shape: IntTuple) -> IntTuple:
    weight: Leaf = 1

    def step(extent: Leaf) -> Leaf:
        nonlocal weight
        here = weight
        weight = leaf.product(weight, extent)
        return here

    return map_tuple(step, shape)


def idx2crd(index: object, layout: object) -> IntTuple:
    """Return the coordinate of `index`: per leaf (index / stride) % extent.

    Leaves of extent 1 or stride 0 give 0. A shape in place of a layout means the compact
    column-major layout of it.

    Raises:
        UserError: The layout is composed or has basis strides.
    """
    idx, obj = _index_and_layout(index, layout, "idx2crd")
    return ev.index_to_coord(idx, obj.shape, obj.stride)


get_hier_coord = idx2crd


def get_flat_coord(index: object, layout: object) -> IntTuple:
    """Return the coordinate of `index` with one linear entry per top-level mode."""
    idx, obj = _index_and_layout(index, layout, "get_flat_coord")
    return obj.get_flat_coord(idx)


def get_1d_coord(index: object, layout: object) -> Leaf:
    """Return the linear (colexicographic) coordinate of `index`."""
    idx, obj = _index_and_layout(index, layout, "get_1d_coord")
    return linear_coord(ev.index_to_coord(idx, obj.shape, obj.stride), obj.shape)
