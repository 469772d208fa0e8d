"""The run-time leaves of Fly types and values: which they are, and rebuilding a value from them.

Order everywhere: as in the type's text, left to right (pre-order); across a function boundary the
32-bit leaves come first, then the 64-bit ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flydsl import layout as fl
from flydsl.dialects import types as ft
from flydsl.dialects.infer import value_of_type
from flydsl.dialects.views import View
from flydsl.errors import CompilerBug

__all__ = ["abi_order", "leaf_widths", "leaves_of", "map_leaves", "with_leaves"]

LeafFn = Callable[[fl.DynamicLeaf], Any]


def map_leaves(x: Any, fn: LeafFn) -> Any:
    """Return `x` with every run-time leaf replaced by ``fn(leaf)``, in pre-order."""
    if isinstance(x, fl.DynamicLeaf):
        return fn(x)
    if isinstance(x, tuple):
        return tuple(map_leaves(e, fn) for e in x)
    if isinstance(x, fl.Basis):
        return fl.Basis(map_leaves(x.value, fn), x.modes)
    if isinstance(x, fl.Layout):
        return fl.Layout(map_leaves(x.shape, fn), map_leaves(x.stride, fn))
    if isinstance(x, fl.ComposedLayout):
        inner = map_leaves(x.inner, fn)
        return fl.ComposedLayout(inner, map_leaves(x.offset, fn), map_leaves(x.outer, fn))
    if isinstance(x, fl.CoordTensor):
        return fl.CoordTensor(map_leaves(x.base, fn), map_leaves(x.layout, fn))
    if isinstance(x, fl.Tile):
        return fl.Tile(tuple(map_leaves(mode, fn) for mode in x.modes))
    if isinstance(x, View):
        return View(x.pointer, map_leaves(x.layout, fn))
    return x


def leaves_of(x: Any) -> list[fl.DynamicLeaf]:
    """Return the run-time leaves of a value in pre-order."""
    found: list[fl.DynamicLeaf] = []

    def note(leaf: fl.DynamicLeaf) -> fl.DynamicLeaf:
        found.append(leaf)
        return leaf

    map_leaves(x, note)
    return found


def abi_order(leaves: Sequence[Any]) -> list[Any]:
    """Return leaves (anything with `width`) with the 32-bit ones first."""
    return [x for x in leaves if x.width == 32] + [x for x in leaves if x.width == 64]


def leaf_widths(kind: ft.FlyType) -> list[int]:
    """Return the widths of a type's run-time leaves, in ABI order."""
    if "?" not in str(kind):
        return []
    return [leaf.width for leaf in abi_order(leaves_of(value_of_type(kind)))]


def with_leaves(x: Any, leaves: Sequence[Any]) -> Any:
    """Return `x` with its run-time leaves replaced by `leaves`, given in ABI order.

    Raises:
        CompilerBug: Their number or widths differ.
    """
    pools: dict[int, Iterator[Any]] = {
        width: iter([leaf for leaf in leaves if leaf.width == width]) for width in (32, 64)
    }
    missing = object()

    def take(leaf: fl.DynamicLeaf) -> Any:
        found = next(pools[leaf.width], missing)
        if found is missing:
            raise CompilerBug("a value has fewer run-time leaves than its type", code="FLY-B313")
        return found

    out = map_leaves(x, take)
    if any(next(pool, missing) is not missing for pool in pools.values()):
        raise CompilerBug("a value has more run-time leaves than its type", code="FLY-B313")
    return out
