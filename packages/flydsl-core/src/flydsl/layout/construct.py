"""Making layouts, tuples of tilers and composed layouts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout import leaf
from flydsl.layout.basis import Basis
from flydsl.layout.composed import ComposedLayout, Tile
from flydsl.layout.layouts import Layout
from flydsl.layout.leaf import Leaf
from flydsl.layout.tuples import (
    IntTuple,
    flatten,
    format_tuple,
    map_tuple,
    normalize,
    unflatten,
    weakly_congruent,
)

__all__ = [
    "make_composed_layout",
    "make_coord",
    "make_fragment_layout_like",
    "make_identity_layout",
    "make_layout",
    "make_layout_like",
    "make_ordered_layout",
    "make_shape",
    "make_stride",
    "make_tile",
]


def _one_or_many(x: tuple[Any, ...]) -> Any:
    return x[0] if len(x) == 1 and isinstance(x[0], tuple | list) else tuple(x)


def make_shape(*x: Any) -> IntTuple:
    """Return a shape of the modes given, or of one tuple."""
    return normalize(_one_or_many(x), "the shape")


def make_stride(*x: Any) -> IntTuple:
    """Return a stride of the modes given, or of one tuple; basis strides are allowed."""
    return normalize(_one_or_many(x), "the stride", basis=True)


def make_coord(*x: Any) -> IntTuple:
    """Return a coordinate of the modes given, or of one tuple; None keeps a mode."""
    return normalize(_one_or_many(x), "the coordinate", none=True)


def make_layout(shape: Any, stride: Any = None) -> Layout:
    """Return the layout shape:stride; without a stride, compact with the first mode fastest.

    Raises:
        UserError: Shape and stride are nested differently or hold something else than integers.
    """
    if stride is None:
        return make_ordered_layout(shape, 0)
    return Layout(shape, stride)


def _compact(extents: Iterable[Leaf], start: Leaf = 1) -> tuple[list[Leaf], Leaf]:
    strides: list[Leaf] = []
    for extent in extents:
        strides.append(start)
        start = leaf.product(start, extent)
    return strides, start


def _under(order: IntTuple, shape: IntTuple) -> list[tuple[Any, IntTuple]]:
    """Return (order leaf, the part of the shape that it faces), in order of the shape."""
    if isinstance(order, tuple):
        return [pair for o, s in zip(order, shape, strict=True) for pair in _under(o, s)]
    return [(order, shape)]


def _rank_of(order: Any) -> tuple[bool, int]:
    """Sort key: static orders by value, then the ones known only at run time."""
    return (not isinstance(order, int), order if isinstance(order, int) else 0)


def make_ordered_layout(shape: Any, order: Any) -> Layout:
    """Return the compact layout whose mode of the smallest order is fastest.

    An order leaf that faces several modes orders them first to last; equal orders rank by position.

    Raises:
        UserError: The nesting of `order` is not a prefix of that of `shape`.
    """
    extents = normalize(shape, "the shape")
    orders = normalize(order, "the order")
    if not weakly_congruent(orders, extents):
        raise UserValueError(
            "profile mismatch: the order does not fit the shape",
            code="FLY-U103",
            value=format_tuple(orders),
            hint=f"the shape is {format_tuple(extents)}",
        )
    pairs = _under(orders, extents)
    strides: dict[int, list[Leaf]] = {}
    running: Leaf = 1
    for at in sorted(range(len(pairs)), key=lambda i: _rank_of(pairs[i][0])):
        strides[at], running = _compact(flatten(pairs[at][1]), running)
    flat = [stride for at in range(len(pairs)) for stride in strides[at]]
    return Layout(extents, unflatten(iter(flat), extents))


def make_identity_layout(shape: Any) -> Layout:
    """Return the layout that maps every coordinate to itself; a leaf n gives n:1."""
    extents = normalize(shape, "the shape")
    if not isinstance(extents, tuple):
        return Layout(extents, 1)
    return Layout(extents, _identity_stride(extents, ()))


def _identity_stride(shape: IntTuple, path: tuple[int, ...]) -> IntTuple:
    if isinstance(shape, tuple):
        return tuple(_identity_stride(s, (*path, i)) for i, s in enumerate(shape))
    return Basis(1, path)


def _magnitude(stride: Any) -> tuple[bool, int]:
    """Sort key: static strides by size, then the ones known only at run time."""
    if isinstance(stride, Basis):
        stride = stride.value
    return (not isinstance(stride, int), abs(stride) if isinstance(stride, int) else 0)


def _is_broadcast(stride: Any) -> bool:
    return isinstance(stride, int) and stride == 0


def _needs_layout(layout: Any, what: str) -> Layout:
    if isinstance(layout, ComposedLayout):
        return _needs_layout(layout.outer, what)
    if not isinstance(layout, Layout):
        raise UserTypeError(f"{what} needs a layout", code="FLY-U116", value=layout)
    return layout


def make_layout_like(layout: Any) -> Layout:
    """Return the compact layout of the same shape whose modes keep the order of their strides.

    Modes of stride 0 keep it: they repeat elements and need no room.
    """
    like = _needs_layout(layout, "make_layout_like")
    extents, strides = flatten(like.shape), flatten(like.stride)
    out: list[Leaf] = [0] * len(extents)
    running: Leaf = 1
    for i in sorted(range(len(extents)), key=lambda i: _magnitude(strides[i])):
        if not _is_broadcast(strides[i]):
            out[i] = running
            running = leaf.product(running, extents[i])
    return Layout(like.shape, unflatten(iter(out), like.shape))


def make_fragment_layout_like(layout: Any) -> Layout:
    """Return the register layout for `layout`: mode 0 compact first, the others by their strides.

    Modes of extent 1 get stride 0. Mode 0 holds what one instruction moves, so its elements are
    neighbours; the remaining modes follow in the order of their strides in `layout`.
    """
    like = _needs_layout(layout, "make_fragment_layout_like")
    if not isinstance(like.shape, tuple):
        return Layout(like.shape, 1)
    first = [
        (e, d, True) for e, d in zip(flatten(like.shape[0]), flatten(like.stride[0]), strict=True)
    ]
    rest = [
        (e, d, False)
        for s, t in zip(like.shape[1:], like.stride[1:], strict=True)
        for e, d in zip(flatten(s), flatten(t), strict=True)
    ]
    modes = first + rest
    if len(like.shape) == 1:
        order = list(range(len(modes)))
    else:
        after = sorted(range(len(first), len(modes)), key=lambda i: _magnitude(modes[i][1]))
        order = [*range(len(first)), *after]
    out: list[Leaf] = [0] * len(modes)
    running: Leaf = 1
    for i in order:
        extent = modes[i][0]
        if not (isinstance(extent, int) and extent == 1):
            out[i] = running
            running = leaf.product(running, extent)
    return Layout(like.shape, unflatten(iter(out), like.shape))


def make_composed_layout(inner: Any, *rest: Any) -> ComposedLayout:
    """Return x -> inner(offset + outer(x)) from (inner, outer) or (inner, offset, outer).

    Raises:
        UserError: Another number of arguments, or parts that do not fit.
    """
    if len(rest) == 1:
        outer = rest[0]
        if not isinstance(outer, Layout | ComposedLayout):
            raise UserTypeError(
                "the outer part of a composed layout is not a layout", code="FLY-U116", value=outer
            )
        return ComposedLayout(inner, map_tuple(lambda _: 0, outer.codomain), outer)
    if len(rest) != 2:
        raise UserTypeError(
            "make_composed_layout takes (inner, outer) or (inner, offset, outer)",
            code="FLY-U116",
            value=len(rest) + 1,
        )
    return ComposedLayout(inner, rest[0], rest[1])


def make_tile(*modes: Any) -> Tile:
    """Return a tuple of tilers: ints, layouts, nested tuples, None to keep a mode.

    Raises:
        UserError: A mode is of another kind.
    """
    return Tile(tuple(make_tile(*m) if isinstance(m, tuple | list) else m for m in modes))
