"""Dividing layouts into tiles, and repeating layouts: divides and products in all arrangements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout import leaf
from flydsl.layout.compose import composition
from flydsl.layout.composed import ComposedLayout, CoordTensor, Tile
from flydsl.layout.construct import make_ordered_layout, make_tile
from flydsl.layout.inverses import complement, right_inverse
from flydsl.layout.layouts import Layout
from flydsl.layout.leaf import DynamicLeaf
from flydsl.layout.modes import append
from flydsl.layout.queries import cosize, size
from flydsl.layout.tuples import IntTuple, ceil_div, int_tuple_product, normalize

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


def _join(modes: list[Layout]) -> Layout:
    return Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))


def _outermost(layout: Any, what: str, fn: Callable[[Layout], Layout]) -> Any:
    """Apply `fn` to the plain layout inside a composed layout or coordinate tensor."""
    if isinstance(layout, ComposedLayout):
        return layout.with_outer(_outermost(layout.outer, what, fn))
    if isinstance(layout, CoordTensor):
        return CoordTensor(layout.base, fn(layout.layout))
    if not isinstance(layout, Layout):
        raise UserTypeError(f"{what} needs a layout", code="FLY-U116", value=layout)
    return fn(layout)


def _tiler(divisor: Any) -> Layout | Tile:
    if isinstance(divisor, Layout | Tile):
        return divisor
    if isinstance(divisor, tuple | list):
        return make_tile(*divisor)
    raise UserTypeError(
        "a divisor is neither a layout nor a tile",
        code="FLY-U115",
        value=divisor,
        allowed="a Layout, a Tile or a tuple of tilers",
        hint="write make_layout(n) or (n,) for a tile of n",
    )


def _divided(layout: Layout, tiler: Any) -> tuple[Layout, Layout]:
    """Return (tile, rest) of one mode."""
    if tiler is None:
        return layout, Layout(1, 0)
    if isinstance(tiler, Tile):
        pairs = _pairs(layout, tiler)
        return _join([t for t, _ in pairs]), _join([r for _, r in pairs])
    inner = Layout(tiler, 1) if isinstance(tiler, int | DynamicLeaf) else tiler
    rest = complement(inner, size(layout))
    return composition(layout, inner), composition(layout, rest)


def _pairs(layout: Layout, tile: Tile) -> list[tuple[Layout, Layout]]:
    modes = layout.modes()
    if tile.rank > len(modes):
        raise UserValueError(
            "a tile has more modes than the layout",
            code="FLY-U115",
            value=str(tile),
            allowed=f"at most {len(modes)} modes",
        )
    return [_divided(m, t) for m, t in zip(modes, tile.modes, strict=False)]


def logical_divide(layout: Any, divisor: Any) -> Any:
    """Return ((tile), (rest)); a tile divides mode by mode, modes that it lacks pass through.

    Raises:
        UserError: `divisor` is of another kind or does not divide the layout.
    """
    tiler = _tiler(divisor)

    def run(plain: Layout) -> Layout:
        if isinstance(tiler, Layout):
            return _join(list(_divided(plain, tiler)))
        modes: list[Layout] = []
        for i, mode in enumerate(plain.modes()):
            if i < tiler.rank and tiler.modes[i] is not None:
                modes.append(logical_divide_mode(mode, tiler.modes[i]))
            else:
                modes.append(mode)
        _pairs_rank(plain, tiler)
        return _join(modes)

    return _outermost(layout, "logical_divide", run)


def _pairs_rank(plain: Layout, tile: Tile) -> None:
    if tile.rank > plain.rank:
        raise UserValueError(
            "a tile has more modes than the layout", code="FLY-U115", value=str(tile)
        )


def logical_divide_mode(mode: Layout, tiler: Any) -> Layout:
    """Return one mode divided by a tiler, as (tile, rest) or, for a nested tile, mode by mode."""
    if isinstance(tiler, Tile):
        return logical_divide(mode, tiler)  # type: ignore[no-any-return]
    return _join(list(_divided(mode, tiler)))


def _gathered(layout: Layout, tiler: Layout | Tile) -> tuple[Layout, Layout]:
    """Return the tile modes together and the rest modes together."""
    if isinstance(tiler, Layout):
        return _divided(layout, tiler)
    pairs = _pairs(layout, tiler)
    rest = [r for _, r in pairs] + list(layout.modes()[tiler.rank :])
    return _join([t for t, _ in pairs]), _join(rest)


def zipped_divide(layout: Any, divisor: Any) -> Any:
    """Return (tile modes, rest modes).

    Raises:
        UserError: As `logical_divide`.
    """
    tiler = _tiler(divisor)
    return _outermost(layout, "zipped_divide", lambda x: _join(list(_gathered(x, tiler))))


def tiled_divide(layout: Any, divisor: Any) -> Any:
    """Return (tile modes, rest 0, rest 1, …).

    Raises:
        UserError: As `logical_divide`.
    """
    tiler = _tiler(divisor)

    def run(plain: Layout) -> Layout:
        tile, rest = _gathered(plain, tiler)
        return _join([tile, *rest.modes()])

    return _outermost(layout, "tiled_divide", run)


def flat_divide(layout: Any, divisor: Any) -> Any:
    """Return (tile 0, tile 1, …, rest 0, rest 1, …).

    Raises:
        UserError: As `logical_divide`.
    """
    tiler = _tiler(divisor)

    def run(plain: Layout) -> Layout:
        tile, rest = _gathered(plain, tiler)
        return _join([*tile.modes(), *rest.modes()])

    return _outermost(layout, "flat_divide", run)


def _repeated(block: Layout, tile: Any) -> Layout:
    """Return where the copies of `block` go: `tile` placed in the complement of the block."""
    if not isinstance(tile, Layout):
        raise UserTypeError(
            "a product needs two layouts", code="FLY-U116", value=tile, hint="use make_layout(n)"
        )
    room = complement(block, leaf.mul(size(block), cosize(tile)))
    return composition(room, tile)  # type: ignore[no-any-return]


def logical_product(layout: Any, tile: Any) -> Any:
    """Return (block, copies): the layout repeated as `tile` says.

    Raises:
        UserError: An operand is no layout, or the block overlaps itself.
    """
    return _outermost(layout, "logical_product", lambda x: _join([x, _repeated(x, tile)]))


def zipped_product(layout: Any, tile: Any) -> Any:
    """Return (block modes, tile modes)."""
    return logical_product(layout, tile)


def tiled_product(layout: Any, tile: Any) -> Any:
    """Return (block, tile 0, tile 1, …)."""
    return _outermost(layout, "tiled_product", lambda x: _join([x, *_repeated(x, tile).modes()]))


def flat_product(layout: Any, tile: Any) -> Any:
    """Return (block 0, block 1, …, tile 0, tile 1, …)."""
    return _outermost(
        layout, "flat_product", lambda x: _join([*x.modes(), *_repeated(x, tile).modes()])
    )


def _interleaved(block: Layout, tile: Any, *, raked: bool) -> Layout:
    if not isinstance(tile, Layout):
        raise UserTypeError("a product needs two layouts", code="FLY-U116", value=tile)
    full = max(block.rank, tile.rank)
    unit = Layout(1, 0)
    padded = append(block, unit, full) if full > block.rank else block
    copies = _repeated(block, append(tile, unit, full) if full > tile.rank else tile)
    pairs = zip(padded.modes(), copies.modes(), strict=True)
    modes = [_join([c, b] if raked else [b, c]) for b, c in pairs]
    return modes[0] if full == 1 else _join(modes)


def blocked_product(layout: Any, tile: Any) -> Any:
    """Return per mode (block, copies): each block stays together."""
    return _outermost(layout, "blocked_product", lambda x: _interleaved(x, tile, raked=False))


def raked_product(layout: Any, tile: Any) -> Any:
    """Return per mode (copies, block): the blocks are interleaved."""
    return _outermost(layout, "raked_product", lambda x: _interleaved(x, tile, raked=True))


def tile_to_shape(block: Any, target_shape: Any, order: Any) -> Any:
    """Return `block` repeated until it covers `target_shape`, copies placed in `order`.

    Raises:
        UserError: The shapes differ in rank.
    """
    shape = normalize(target_shape, "the target shape")
    counts = ceil_div(shape, _sizes(block.shape) if hasattr(block, "shape") else block)
    return blocked_product(block, make_ordered_layout(counts, order))


def _sizes(shape: IntTuple) -> IntTuple:
    return tuple(int_tuple_product(s) for s in shape) if isinstance(shape, tuple) else shape


def make_layout_tv(thr_layout: Any, val_layout: Any) -> tuple[IntTuple, Layout]:
    """Return (tile shape, layout from (thread, value) to the position in the tile).

    Raises:
        UserError: A layout is not static.
    """
    for x in (thr_layout, val_layout):
        if not isinstance(x, Layout) or not x.is_static:
            raise UserValueError(
                "a thread-value layout needs static layouts", code="FLY-U111", value=str(x)
            )
    product = raked_product(thr_layout, val_layout)
    threads, values = size(thr_layout), size(val_layout)
    inverse = right_inverse(product)
    tv = composition(inverse, Layout((threads, values), (1, threads)))
    return _sizes(product.shape), tv
