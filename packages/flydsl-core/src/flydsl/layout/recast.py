"""Layouts of the same memory seen as elements of another width."""

from __future__ import annotations

import math
from typing import Any

from flydsl.errors import UserError, UserTypeError, UserValueError
from flydsl.layout import leaf
from flydsl.layout.basis import Basis
from flydsl.layout.composed import ComposedLayout
from flydsl.layout.layouts import Layout
from flydsl.layout.leaf import Leaf
from flydsl.layout.swizzle import Swizzle
from flydsl.layout.tuples import flatten, unflatten

__all__ = ["recast_layout"]


def recast_layout(layout: Any, old_bits: Any, new_bits: Any) -> Any:
    """Return the layout in elements of `new_bits` of what `layout` says in elements of `old_bits`.

    Both are bit counts or types with a `width`.

    Raises:
        UserError: The contiguous mode or a stride does not divide.
    """
    old, new = _bits(old_bits), _bits(new_bits)
    common = math.lcm(old, new)
    up, down = common // old, common // new
    if isinstance(layout, ComposedLayout):
        return _composed(layout, old, new)
    if not isinstance(layout, Layout):
        raise UserTypeError("recast_layout needs a layout", code="FLY-U116", value=layout)
    if up > 1:
        layout = _upcast(layout, up)
    return _downcast(layout, down) if down > 1 else layout


def _bits(x: Any) -> int:
    bits = x if isinstance(x, int) and not isinstance(x, bool) else getattr(x, "width", None)
    if not isinstance(bits, int) or bits < 1:
        raise UserTypeError(
            "an element width is not a number of bits",
            code="FLY-U113",
            value=x,
            allowed="a positive int or an element type",
        )
    return bits


def _composed(layout: ComposedLayout, old: int, new: int) -> ComposedLayout:
    inner = layout.inner
    if not isinstance(inner, Swizzle) or not isinstance(layout.offset, int):
        raise UserTypeError(
            "only a swizzled layout with a static offset can be recast",
            code="FLY-U113",
            value=str(layout),
        )
    if layout.offset * old % new:
        raise UserValueError(
            "recast: the offset does not divide", code="FLY-U113", value=layout.offset
        )
    outer = recast_layout(layout.outer, old, new)
    return ComposedLayout(inner.recast(old, new), layout.offset * old // new, outer)


def _refused(extent: Leaf, stride: object, factor: int) -> UserError:
    return UserValueError(
        f"recast: {factor} old elements make a new one, but mode {extent}:{stride} does not divide",
        code="FLY-U113",
    )


def _upcast(layout: Layout, factor: int) -> Layout:
    extents, strides = [], []
    for extent, stride in zip(flatten(layout.shape), flatten(layout.stride), strict=True):
        if isinstance(stride, Basis):
            raise _refused(extent, stride, factor)
        if leaf.divisor_of(stride) % factor == 0:
            extents.append(extent)
            strides.append(leaf.floordiv(stride, factor))
        elif isinstance(stride, int) and factor % stride == 0:
            per = factor // stride
            if not (isinstance(extent, int) and extent == 1) and leaf.divisor_of(extent) % per:
                raise _refused(extent, stride, factor)
            extents.append(
                1 if isinstance(extent, int) and extent == 1 else leaf.floordiv(extent, per)
            )
            strides.append(1)
        else:
            raise _refused(extent, stride, factor)
    return Layout(unflatten(iter(extents), layout.shape), unflatten(iter(strides), layout.shape))


def _downcast(layout: Layout, factor: int) -> Layout:
    extents, strides = [], []
    for extent, stride in zip(flatten(layout.shape), flatten(layout.stride), strict=True):
        if isinstance(stride, int) and stride == 1:
            extents.append(leaf.mul(extent, factor))
            strides.append(1)
        elif isinstance(stride, Basis):
            raise _refused(extent, stride, factor)
        else:
            extents.append(extent)
            strides.append(leaf.mul(stride, factor))
    return Layout(unflatten(iter(extents), layout.shape), unflatten(iter(strides), layout.shape))
