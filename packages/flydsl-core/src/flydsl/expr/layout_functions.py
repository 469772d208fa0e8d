"""``fx.make_layout``, ``fx.logical_divide``, … : the public functions of the layout algebra.

Their rules are those of the functions of the same name in `flydsl.layout`; `flydsl.expr.layouts`
says when they compute and when they emit an operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flydsl.errors import UserTypeError
from flydsl.expr.ambient import current
from flydsl.expr.coordinates import checked_coordinate
from flydsl.expr.layouts import apply, scalar_result, tuple_value
from flydsl.expr.tuple_functions import make_int_tuple
from flydsl.expr.wrapping import FlyValue, is_plain, plain

__all__ = [
    "append",
    "blocked_product",
    "coalesce",
    "complement",
    "composed_get_inner",
    "composed_get_offset",
    "composed_get_outer",
    "composition",
    "coprofile",
    "coshape",
    "cosize",
    "crd2idx",
    "dice",
    "flat_divide",
    "flat_product",
    "get",
    "get_",
    "get_1d_coord",
    "get_flat_coord",
    "get_iter",
    "get_layout",
    "get_shape",
    "get_stride",
    "group",
    "idx2crd",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "make_composed_layout",
    "make_fragment_layout_like",
    "make_identity_layout",
    "make_layout",
    "make_layout_like",
    "make_ordered_layout",
    "make_tile",
    "prepend",
    "raked_product",
    "recast_layout",
    "right_inverse",
    "select",
    "size",
    "slice",
    "take",
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "zipped_divide",
    "zipped_product",
]


# Constructors


def make_layout(shape: Any, stride: Any = None) -> Any:
    """Return the layout ``shape:stride``; without a stride, compact with the first mode fastest.

    Raises:
        UserError: The nesting of shape and stride differs.
    """
    if stride is None:
        return make_ordered_layout(shape, 0)
    return apply("make_layout", make_int_tuple(shape), _stride(stride))


def _stride(stride: Any) -> Any:
    return stride if is_plain(stride) else make_int_tuple(stride)


def make_ordered_layout(shape: Any, order: Any) -> Any:
    """Return the compact layout whose modes are ordered by `order`, smallest first."""
    return apply("make_ordered_layout", make_int_tuple(shape), order)


def make_identity_layout(shape: Any) -> Any:
    """Return the layout that maps every coordinate to itself."""
    return apply("make_identity_layout", make_int_tuple(shape))


def make_layout_like(layout: Any) -> Any:
    """Return the compact layout of the same shape and stride order."""
    return apply("make_layout_like", layout)


def make_fragment_layout_like(layout: Any) -> Any:
    """Return the layout of a register fragment for a partitioned layout or tensor."""
    return apply("make_fragment_layout_like", layout)


def make_composed_layout(inner: Any, offset_or_outer: Any, outer: Any = None) -> Any:
    """Return ``inner o offset o outer``; without an offset it is zero."""
    if outer is None:
        return apply("make_composed_layout", inner, coprofile(offset_or_outer), offset_or_outer)
    return apply("make_composed_layout", inner, make_int_tuple(offset_or_outer), outer)


def make_tile(*modes: Any) -> Any:
    """Return a tiler with one entry per mode: int, None (keep), tuple or static layout.

    Raises:
        UserError: An entry is of another kind or not static.
    """
    from flydsl import layout

    for mode in modes:
        if not is_plain(mode):
            raise UserTypeError(
                "a tile is made of values known while tracing", code="FLY-U238", value=mode
            )
    return layout.make_tile(*(tuple_value(plain(mode)) for mode in modes))


# Queries


def get_shape(x: Any) -> Any:
    """Return the shape of a layout or tensor."""
    return apply("get_shape", x)


def get_stride(x: Any) -> Any:
    """Return the stride of a layout or tensor."""
    return apply("get_stride", x)


def get_layout(x: Any) -> Any:
    """Return the layout of a tensor."""
    return apply("get_layout", x)


def get_iter(x: Any) -> Any:
    """Return the pointer of a tensor, or the base coordinate of a coordinate tensor."""
    return apply("get_iter", x)


def composed_get_inner(x: Any) -> Any:
    """Return the inner part of a composed layout."""
    return apply("composed_get_inner", x)


def composed_get_offset(x: Any) -> Any:
    """Return the offset of a composed layout."""
    return apply("composed_get_offset", x)


def composed_get_outer(x: Any) -> Any:
    """Return the outer part of a composed layout."""
    return apply("composed_get_outer", x)


def size(x: Any) -> Any:
    """Return the number of elements of a shape, layout or tensor."""
    return apply("size", x)


def cosize(x: Any) -> Any:
    """Return one more than the largest index of a layout."""
    return apply("cosize", x)


def coshape(x: Any) -> Any:
    """Return the extent of a layout's codomain."""
    return apply("coshape", x)


def coprofile(x: Any) -> Any:
    """Return zeros with the nesting of a layout's codomain."""
    return apply("coprofile", x)


def get_(x: Any, mode: int | Sequence[int]) -> Any:
    """Return one mode of a tuple, layout or tensor; a sequence is a path.

    Raises:
        UserError: There is no such mode.
    """
    path = tuple(mode) if isinstance(mode, (tuple, list)) else (mode,)
    return apply("get", x, mode=path)


def get(x: Any, mode: int | Sequence[int]) -> Any:
    """Return one mode as `get_` does; a single integer comes as int or numeric."""
    return scalar_result(get_(x, mode))


# Mode surgery


def take(x: Any, begin: int, end: int) -> Any:
    """Return modes `begin` to `end` (exclusive); one mode is unwrapped."""
    return apply("take", x, begin=begin, end=end)


def select(x: Any, indices: Sequence[int]) -> Any:
    """Return the modes with these indices; one mode is unwrapped."""
    chosen = tuple(indices) if isinstance(indices, list) else indices
    return apply("select", x, indices=chosen)


def group(x: Any, begin: int, end: int) -> Any:
    """Return `x` with modes `begin` to `end` (exclusive) nested in one mode."""
    return apply("group", x, begin=begin, end=end)


def append(x: Any, element: Any, n: int | None = None) -> Any:
    """Return `x` with a mode added at the end, repeated up to rank `n`."""
    return apply("append", x, element, n=n)


def prepend(x: Any, element: Any, n: int | None = None) -> Any:
    """Return `x` with a mode added at the front, repeated up to rank `n`."""
    return apply("prepend", x, element, n=n)


def slice(x: Any, coordinate: Any) -> Any:  # noqa: A001  (the name of the public API)
    """Return the part of `x` at the fixed entries of `coordinate`, over the free (None) ones.

    Raises:
        UserError: The coordinate does not fit, nothing is free, or a constant is outside a tensor.
    """
    if getattr(getattr(x, "kind", None), "mnemonic", "") in ("memref", "coord_tensor"):
        coordinate = checked_coordinate(coordinate, x)
    return apply("slice", x, coordinate)


def dice(x: Any, coordinate: Any) -> Any:
    """Return the modes of `x` that `coordinate` fixes."""
    return apply("dice", x, coordinate)


# Algebra


def coalesce(x: Any, pattern: Any = None) -> Any:
    """Return the layout with adjacent modes merged, by mode of `pattern` if given."""
    return apply("coalesce", x) if pattern is None else apply("coalesce", x, pattern)


def composition(outer: Any, inner: Any) -> Any:
    """Return ``outer o inner``; `inner` is a layout or a tile."""
    return apply("composition", outer, inner)


def complement(layout: Any, codomain_size: Any = None) -> Any:
    """Return the layout of what `layout` leaves out of its codomain."""
    if codomain_size is None:
        return apply("complement", layout)
    return apply("complement", layout, codomain_size)


def right_inverse(layout: Any) -> Any:
    """Return the largest R with ``layout(R(i)) == i``."""
    return apply("right_inverse", layout)


def left_inverse(layout: Any) -> Any:
    """Return the L with ``L(layout(i)) == i``."""
    return apply("left_inverse", layout)


def logical_divide(x: Any, tiler: Any) -> Any:
    """Split each mode into (tile, rest) by a layout, tile, tuple or int."""
    return apply("logical_divide", x, tiler)


def zipped_divide(x: Any, tiler: Any) -> Any:
    """Return ((tile modes), (rest modes))."""
    return apply("zipped_divide", x, tiler)


def tiled_divide(x: Any, tiler: Any) -> Any:
    """Return ((tile modes), rest0, rest1, …)."""
    return apply("tiled_divide", x, tiler)


def flat_divide(x: Any, tiler: Any) -> Any:
    """Return (tile0, tile1, …, rest0, rest1, …)."""
    return apply("flat_divide", x, tiler)


def logical_product(block: Any, tile: Any) -> Any:
    """Return (block, repetitions of it over `tile`)."""
    return apply("logical_product", block, tile)


def zipped_product(block: Any, tile: Any) -> Any:
    """Return ((block modes), (tile modes))."""
    return apply("zipped_product", block, tile)


def tiled_product(block: Any, tile: Any) -> Any:
    """Return ((block modes), tile0, tile1, …)."""
    return apply("tiled_product", block, tile)


def flat_product(block: Any, tile: Any) -> Any:
    """Return (block0, …, tile0, …)."""
    return apply("flat_product", block, tile)


def blocked_product(block: Any, tile: Any) -> Any:
    """Return the product with modes (block_i, tile_i)."""
    return apply("blocked_product", block, tile)


def raked_product(block: Any, tile: Any) -> Any:
    """Return the product with modes (tile_i, block_i)."""
    return apply("raked_product", block, tile)


def tile_to_shape(block: Any, shape: Any, order: Any) -> Any:
    """Repeat `block` until it covers `shape`, repetitions ordered by `order`."""
    return apply("tile_to_shape", block, shape, order)


def recast_layout(layout: Any, old_bits: Any, new_bits: Any) -> Any:
    """Return the layout of the same memory seen as elements of another width.

    Args:
        layout: The layout over elements of `old_bits`.
        old_bits: Width now, in bits, or a numeric class.
        new_bits: Width wanted, in bits, or a numeric class.
    """
    old, new = (getattr(bits, "width", bits) for bits in (old_bits, new_bits))
    return apply("recast_layout", layout, new_type_bits=new, old_type_bits=old)


# Coordinates


def crd2idx(coordinate: Any, layout: Any) -> Any:
    """Return the index that `layout` maps a coordinate to."""
    return apply("crd2idx", _coordinate(coordinate), layout)


def idx2crd(index: Any, layout: Any) -> Any:
    """Return the coordinate of an index, nested as the shape."""
    return apply("idx2crd", _coordinate(index), layout)


def get_flat_coord(index: Any, layout: Any) -> Any:
    """Return the coordinate of an index, one entry per top-level mode."""
    return apply("get_flat_coord", _coordinate(index), layout)


def get_1d_coord(index: Any, layout: Any) -> Any:
    """Return the colexicographic position of an index."""
    return apply("get_1d_coord", _coordinate(index), layout)


def _coordinate(value: Any) -> Any:
    if current() is None or is_plain(value) or isinstance(value, FlyValue):
        return value
    return make_int_tuple(value)
