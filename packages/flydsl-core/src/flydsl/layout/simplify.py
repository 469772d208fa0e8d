"""Simplification: `coalesce`, and layouts made of flat modes."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserValueError
from flydsl.layout import evaluate as ev
from flydsl.layout.composed import ComposedLayout, CoordTensor
from flydsl.layout.layouts import Layout, unchecked_layout
from flydsl.layout.modes import as_layout_like
from flydsl.layout.tuples import IntTuple, format_tuple, normalize

__all__ = ["coalesce", "coalesced_modes", "from_modes", "keep_nonzero"]


def from_modes(modes: list[ev.Mode]) -> Layout:
    """Return the flat layout of `modes`: a leaf for one, 1:0 for none."""
    if not modes:
        return unchecked_layout(1, 0)
    if len(modes) == 1:
        return unchecked_layout(*modes[0])
    return unchecked_layout(tuple(s for s, _ in modes), tuple(d for _, d in modes))


def coalesced_modes(layout: Layout) -> list[ev.Mode]:
    """Return the fewest flat modes of a layout; none when all extents are 1."""
    if not isinstance(layout.shape, tuple):
        return ev.merge_modes([(layout.shape, layout.stride)])
    return ev.merge_modes(ev.flat_modes(layout.shape, layout.stride))


def keep_nonzero(layout: Layout) -> list[ev.Mode]:
    """Return the coalesced modes without those of stride 0."""
    modes = ev.flat_modes(layout.shape, layout.stride)
    return ev.merge_modes(m for m in modes if not (isinstance(m[1], int) and m[1] == 0))


def coalesce(x: object, pattern: object = None) -> Any:
    """Return the flat layout with the fewest modes that maps every integer alike.

    Modes of extent 1 are dropped and static neighbours that continue one another merged; nothing
    left gives 1:0. With a `pattern`, each mode that faces a leaf of it is coalesced on its own, so
    the result keeps the pattern's nesting; further modes stay as they are.

    Raises:
        UserError: `pattern` is nested where the layout is not, or has more modes.
    """
    obj = as_layout_like(x, "coalesce")
    guide = None if pattern is None else normalize(pattern, "the pattern", none=True)
    if isinstance(obj, ComposedLayout):
        return obj.with_outer(coalesce(obj.outer, guide))
    if isinstance(obj, CoordTensor):
        return CoordTensor(obj.base, coalesce(obj.layout, guide))
    return _coalesce_like(obj, guide)


def _coalesce_like(layout: Layout, guide: IntTuple) -> Layout:
    if not isinstance(guide, tuple):
        return from_modes(coalesced_modes(layout))
    if not isinstance(layout.shape, tuple) or len(guide) > len(layout.shape):
        raise UserValueError(
            "profile mismatch: the pattern does not fit the layout",
            code="FLY-U103",
            value=format_tuple(guide),
            hint=f"the shape is {format_tuple(layout.shape)}",
        )
    modes = layout.modes()
    done = [
        mode if g is None else _coalesce_like(mode, g)
        for mode, g in zip(modes[: len(guide)], guide, strict=True)
    ]
    done += modes[len(guide) :]
    return unchecked_layout(tuple(m.shape for m in done), tuple(m.stride for m in done))
