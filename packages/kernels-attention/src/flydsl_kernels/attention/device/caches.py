"""Where keys and values of tokens are in a paged cache.

A cache has pages of `page` tokens; slot `s` is token ``s % page`` of page ``s // page``. With
``x = 16 / itemsize`` the layouts are

* ``linear``: keys and values [pages, page, heads, dim];
* ``vectorised``: keys [pages, heads, dim / x, page, x], values [pages, heads, page / x, dim, x];
* ``transposed``: keys as ``vectorised``, values [pages, heads, dim, page].
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

__all__ = ["key_place", "known_page", "page_of", "store_value", "stored", "value_place"]


def known_page(number: Any, cache: Any) -> Any:
    """Return a number of a page, or that of the last page if a cache has no page of that number.

    Tables in device memory are not looked at on the host: so none makes a kernel leave the cache.
    """
    last = fx.Int32(cache.shape[0]) - 1
    return fx.min(number.to(fx.Uint32), last.to(fx.Uint32)).to(fx.Int32)


def page_of(slot: Any, page: Any) -> tuple[Any, Any]:
    """Return the page of a 64-bit slot, and the token in it."""
    return slot // page, slot % page


def key_place(cache: Any, head: Any, page: Any, token: Any, layout: str) -> tuple[Any, Any, int]:
    """Return where a head's key begins.

    Args:
        cache: The cache of keys.
        head: The head.
        page: The page, 64-bit.
        token: The token in the page, 64-bit.
        layout: The cache's layout.

    Returns:
        Pointer to its element 0, the distance between its blocks, and the elements of a block (0:
        the key is contiguous).
    """
    start = cache.iter + page * cache.stride[0]
    if layout == "linear":
        return start + token * cache.stride[1] + head.to(fx.Int64) * cache.stride[2], None, 0
    block = 128 // cache.dtype.width
    start = start + head.to(fx.Int64) * cache.stride[1] + token * cache.stride[3]
    return start, cache.stride[2], block


def value_place(cache: Any, head: Any, page: Any, token: Any, layout: str) -> tuple[Any, Any]:
    """Return the pointer to element 0 of a head's value, and the distance between elements."""
    start = cache.iter + page * cache.stride[0]
    wide = head.to(fx.Int64)
    if layout == "linear":
        return start + token * cache.stride[1] + wide * cache.stride[2], 1
    start = start + wide * cache.stride[1]
    if layout == "transposed":
        return start + token, cache.stride[2]
    block = 128 // cache.dtype.width
    return start + token // block * cache.stride[2] + token % block, cache.stride[3]


def stored(value: Any, scale: Any, kind: Any, limit: float) -> Any:
    """Return an f32 vector as elements of a cache: divided by `scale`, rounded to nearest even.

    Numbers beyond `limit` become it; NaN stays NaN.

    Args:
        value: f32 vector.
        scale: f32 number, or None.
        kind: The cache's element type.
        limit: The largest number of an 8-bit type; 0 for wider types, which are not limited.
    """
    items = list(value)
    if scale is not None:
        items = [item / scale for item in items]
    if limit:
        items = [_clamped(item, limit) for item in items]
    if kind is fx.Int8:
        items = [fx.math.roundeven(item) for item in items]
    return fx.Vector.from_elements(items).to(kind)


def _clamped(item: Any, limit: float) -> Any:
    high = fx.arith.select(item > limit, fx.Float32(limit), item)
    return fx.arith.select(high < -limit, fx.Float32(-limit), high)


@flyc.jit
def store_value(start: Any, distance: Any, column: Any, value: Any) -> None:
    """Store a vector whose neighbours are `distance` elements apart."""
    if fx.const_expr(isinstance(distance, int) and distance == 1):
        (start + column).store(value)
    else:
        wide = column.to(fx.Int64)
        for index, item in enumerate(value):
            (start + (wide + index) * distance).store(item)
