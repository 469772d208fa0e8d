"""Dividing layouts into tiles, and repeating layouts: divides and products in all arrangements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout import leaf
from flydsl.layout.compose import as_tiler, compose_layouts, tiler_layout
from flydsl.layout.composed import ComposedLayout, CoordTensor, Tile, Tiler
from flydsl.layout.construct import make_ordered_layout
from flydsl.layout.inverses import complement, right_inverse
from flydsl.layout.layouts import Layout, unchecked_layout
from flydsl.layout.modes import append
from flydsl.layout.queries import cosize, size
from flydsl.layout.tuples import IntTuple, ceil_div, int_tuple_product_each, normalize

__all__ = [
    "blocked_product",
    "flat_divide",
    "flat_product",
    "logical_divide",
    "logical_product",
    "make_layout_tv",
    "raked_product",
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "zipped_divide",
    "zipped_product",
]

_UNIT = unchecked_layout(1, 0)


def _join(modes: list[Layout]) -> Layout:
    return unchecked_layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))


def _outermost(layout: object, what: str, fn: Callable[[Layout], Layout]) -> Any:
    """Apply `fn` to the plain layout inside a composed layout or coordinate tensor."""
    if isinstance(layout, ComposedLayout):
        return layout.with_outer(_outermost(layout.outer, what, fn))
    if isinstance(layout, CoordTensor):
        return CoordTensor(layout.base, fn(layout.layout))
    if not isinstance(layout, Layout):
        raise UserTypeError(f"{what} needs a layout", code="FLY-U116", value=layout)
    return fn(layout)


def _check_rank(layout: Layout, tile: Tile, what: str) -> None:
    if tile.rank > layout.rank:
        raise UserValueError(
            f"{what}: the tile has more modes than the layout",
            code="FLY-U115",
            value=str(tile),
            hint=f"the layout is {layout}",
        )


def _divided(layout: Layout, tile: Layout) -> Layout:
    """Return (tile, rest) of a layout taken as one mode.

    Both come from one composition, so that a tile and a rest that would carry into each other are
    refused. Positions beyond the layout are padding, hence `trim`.
    """
    both = _join([tile, complement(tile, size(layout))])
    return compose_layouts(layout, both, trim=True)


def _pairs(layout: Layout, tile: Tile, what: str) -> tuple[list[Layout], list[Layout]]:
    """Return the tile parts and the rest parts, mode by mode; None takes its mode whole."""
    _check_rank(layout, tile, what)
    tiles, rests = [], []
    for mode, tiler in zip(layout.modes(), tile.modes, strict=False):
        if tiler is None:
            part, rest = mode, _UNIT
        elif isinstance(tiler, Tile):
            inner, outer = _pairs(mode, tiler, what)
            part, rest = _join(inner), _join(outer + list(mode.modes()[tiler.rank :]))
        else:
            part, rest = _divided(mode, tiler_layout(tiler, what)).modes()
        tiles.append(part)
        rests.append(rest)
    return tiles, rests


def _gathered(layout: Layout, tiler: Layout | Tile, what: str) -> tuple[Layout, Layout]:
    """Return the tile modes together and the rest modes together."""
    if isinstance(tiler, Layout):
        part, rest = _divided(layout, tiler).modes()
        return part, rest
    tiles, rests = _pairs(layout, tiler, what)
    return _join(tiles), _join(rests + list(layout.modes()[tiler.rank :]))


def _by_mode(layout: Layout, tile: Tile, what: str) -> Layout:
    _check_rank(layout, tile, what)
    modes = list(layout.modes())
    for i, tiler in enumerate(tile.modes):
        modes[i] = _one_mode(modes[i], tiler, what)
    return _join(modes)


def _one_mode(mode: Layout, tiler: Tiler, what: str) -> Layout:
    if tiler is None:
        return mode
    if isinstance(tiler, Tile):
        return _by_mode(mode, tiler, what)
    return _divided(mode, tiler_layout(tiler, what))


def logical_divide(layout: object, divisor: object) -> Any:
    """Return (tile, rest), or that pair for each mode of a tile.

    Args:
        layout: Layout, ComposedLayout (divided in its outer part) or CoordTensor.
        divisor: A Layout (or int n: n:1) divides the layout as one mode; a Tile or tuple divides
            mode by mode, where None and missing modes leave their mode as it is.

    Raises:
        UserError: `divisor` is of another kind, overlaps itself, or does not fit the layout.
    """
    tiler = as_tiler(divisor, "logical_divide")

    def run(plain: Layout) -> Layout:
        if isinstance(tiler, Layout):
            return _divided(plain, tiler)
        return _by_mode(plain, tiler, "logical_divide")

    return _outermost(layout, "logical_divide", run)


def zipped_divide(layout: object, divisor: object) -> Any:
    """Return (tile modes, rest modes).

    A None in a tile takes its mode whole: the mode is in the tile and its rest is 1:0. Modes that
    the tile lacks are in the rest.

    Raises:
        UserError: As `logical_divide`.
    """
    tiler = as_tiler(divisor, "zipped_divide")
    return _outermost(
        layout, "zipped_divide", lambda x: _join(list(_gathered(x, tiler, "zipped_divide")))
    )


def tiled_divide(layout: object, divisor: object) -> Any:
    """Return (tile modes, rest 0, rest 1, ...); else as `zipped_divide`.

    Raises:
        UserError: As `logical_divide`.
    """
    tiler = as_tiler(divisor, "tiled_divide")

    def run(plain: Layout) -> Layout:
        tile, rest = _gathered(plain, tiler, "tiled_divide")
        return _join([tile, *rest.modes()])

    return _outermost(layout, "tiled_divide", run)


def flat_divide(layout: object, divisor: object) -> Any:
    """Return (tile 0, tile 1, ..., rest 0, rest 1, ...); else as `zipped_divide`.

    Raises:
        UserError: As `logical_divide`.
    """
    tiler = as_tiler(divisor, "flat_divide")

    def run(plain: Layout) -> Layout:
        tile, rest = _gathered(plain, tiler, "flat_divide")
        return _join([*tile.modes(), *rest.modes()])

    return _outermost(layout, "flat_divide", run)


def _copies(block: Layout, tile: Layout) -> Layout:
    """Return where the copies of `block` go: `tile` placed in the complement of the block."""
    room = complement(block, leaf.product(size(block), cosize(tile)))
    return compose_layouts(room, tile)


def _multiplied(block: Layout, tile: Tile, what: str) -> tuple[list[Layout], list[Layout]]:
    """Return the block parts and the copies, mode by mode."""
    _check_rank(block, tile, what)
    copies = []
    for mode, tiler in zip(block.modes(), tile.modes, strict=False):
        if tiler is None:
            copies.append(_UNIT)
        elif isinstance(tiler, Tile):
            raise UserTypeError(
                f"{what}: a product by a nested tile is not defined", code="FLY-U115", value=tile
            )
        else:
            copies.append(_copies(mode, tiler_layout(tiler, what)))
    return list(block.modes()), copies


def logical_product(layout: object, tile: object) -> Any:
    """Return (block, copies): the layout repeated as `tile` says.

    Args:
        layout: Layout, or ComposedLayout (repeated in its outer part).
        tile: A Layout (or int n: n:1); a Tile or tuple repeats mode by mode.

    Raises:
        UserError: An operand is of another kind, or the block overlaps itself.
    """
    tiler = as_tiler(tile, "logical_product")

    def run(block: Layout) -> Layout:
        if isinstance(tiler, Layout):
            return _join([block, _copies(block, tiler)])
        blocks, copies = _multiplied(block, tiler, "logical_product")
        done = [
            b if t is None else _join([b, c])
            for b, c, t in zip(blocks, copies, tiler.modes, strict=False)
        ]
        return _join(done + blocks[tiler.rank :])

    return _outermost(layout, "logical_product", run)


def _product_parts(block: Layout, tiler: Layout | Tile, what: str) -> tuple[Layout, Layout]:
    if isinstance(tiler, Layout):
        return block, _copies(block, tiler)
    blocks, copies = _multiplied(block, tiler, what)
    return _join(blocks), _join(copies)


def zipped_product(layout: object, tile: object) -> Any:
    """Return (block modes, copies); else as `logical_product`."""
    tiler = as_tiler(tile, "zipped_product")
    return _outermost(
        layout,
        "zipped_product",
        lambda x: _join(list(_product_parts(x, tiler, "zipped_product"))),
    )


def tiled_product(layout: object, tile: object) -> Any:
    """Return (block modes, copies 0, copies 1, ...); else as `logical_product`."""
    tiler = as_tiler(tile, "tiled_product")

    def run(plain: Layout) -> Layout:
        block, copies = _product_parts(plain, tiler, "tiled_product")
        return _join([block, *copies.modes()])

    return _outermost(layout, "tiled_product", run)


def flat_product(layout: object, tile: object) -> Any:
    """Return (block 0, block 1, ..., copies 0, copies 1, ...); else as `logical_product`."""
    tiler = as_tiler(tile, "flat_product")

    def run(plain: Layout) -> Layout:
        block, copies = _product_parts(plain, tiler, "flat_product")
        return _join([*block.modes(), *copies.modes()])

    return _outermost(layout, "flat_product", run)


def _interleaved(block: Layout, tile: object, what: str, *, raked: bool) -> Layout:
    tiler = as_tiler(tile, what)
    if not isinstance(tiler, Layout):
        raise UserTypeError(
            f"{what} needs a layout", code="FLY-U115", value=str(tiler), hint="use make_layout"
        )
    full = max(block.rank, tiler.rank)
    padded = append(block, _UNIT, full)
    # As modes of a tuple, so that a copy mode that is split stays one mode.
    copies = _copies(block, _join(list(append(tiler, _UNIT, full).modes())))
    modes = [
        _join([c, b] if raked else [b, c])
        for b, c in zip(padded.modes(), copies.modes(), strict=True)
    ]
    return modes[0] if block.is_leaf and tiler.is_leaf else _join(modes)


def blocked_product(layout: object, tile: object) -> Any:
    """Return per mode (block, copies): each block stays together.

    The shorter of the two is padded with modes 1:0 at its end.

    Raises:
        UserError: An operand is of another kind, or the block overlaps itself.
    """
    return _outermost(
        layout,
        "blocked_product",
        lambda x: _interleaved(x, tile, "blocked_product", raked=False),
    )


def raked_product(layout: object, tile: object) -> Any:
    """Return per mode (copies, block): the blocks are interleaved; else as `blocked_product`.

    Raises:
        UserError: As `blocked_product`.
    """
    return _outermost(
        layout, "raked_product", lambda x: _interleaved(x, tile, "raked_product", raked=True)
    )


def tile_to_shape(block: object, target_shape: object, order: object) -> Any:
    """Return `block` repeated until it covers `target_shape`, the copies placed in `order`.

    Raises:
        UserError: The shapes differ in rank, or the block overlaps itself.
    """
    if not isinstance(block, Layout | ComposedLayout):
        raise UserTypeError("tile_to_shape needs a layout", code="FLY-U116", value=block)
    shape = int_tuple_product_each(normalize(target_shape, "the target shape"))
    sizes = int_tuple_product_each(block.shape)
    if (len(shape) if isinstance(shape, tuple) else 1) != block.rank:
        raise UserValueError(
            "tile_to_shape: the block and the target shape differ in rank",
            code="FLY-U103",
            value=shape,
            hint=f"the block is {block}",
        )
    return blocked_product(block, make_ordered_layout(_counts(shape, sizes), order))


def _counts(shape: IntTuple, sizes: IntTuple) -> IntTuple:
    if isinstance(shape, tuple) and not isinstance(sizes, tuple):
        return ceil_div(shape, (sizes,))
    return ceil_div(shape, sizes)


def make_layout_tv(thr_layout: object, val_layout: object) -> tuple[IntTuple, Layout]:
    """Return (tile shape, layout from (thread, value) to the position in the tile).

    Args:
        thr_layout: From the tile's coordinates, in units of what a thread holds, to threads.
        val_layout: From the coordinates within a thread's part to value numbers.

    Raises:
        UserError: A layout is not static, or the two do not number threads and values without gap.
    """
    for x in (thr_layout, val_layout):
        if not isinstance(x, Layout) or not x.is_static:
            raise UserValueError(
                "a thread-value layout needs static layouts", code="FLY-U109", value=str(x)
            )
    product: Layout = raked_product(thr_layout, val_layout)
    threads, values = size(thr_layout), size(val_layout)
    inverse = right_inverse(product)
    if not isinstance(inverse, Layout) or size(inverse) != leaf.mul(threads, values):
        raise UserValueError(
            "the thread and value layouts do not number their elements 0, 1, 2, ... without a gap",
            code="FLY-U107",
            value=f"{thr_layout} and {val_layout}",
        )
    tv = compose_layouts(inverse, Layout((threads, values), (1, threads)))
    return int_tuple_product_each(product.shape), tv
