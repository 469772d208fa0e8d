"""Layouts of the same memory seen as elements of another width."""

from __future__ import annotations

import math
from typing import Any

from flydsl.errors import UserError, UserTypeError, UserValueError
from flydsl.layout import leaf
from flydsl.layout.basis import Basis
from flydsl.layout.composed import ComposedLayout
from flydsl.layout.evaluate import Mode
from flydsl.layout.layouts import Layout, unchecked_layout
from flydsl.layout.swizzle import Swizzle
from flydsl.layout.tuples import flatten, unflatten

__all__ = ["recast_layout"]


def recast_layout(layout: object, old_bits: object, new_bits: object) -> Any:
    """Return in elements of `new_bits` the layout that is given in elements of `old_bits`.

    Wider elements: strides are divided, and a mode of stride d less than the ratio r shrinks by
    r / d. Narrower ones: strides are multiplied, and the mode of stride 1 grows. Any other ratio is
    the first followed by the second. Modes of stride 0 stay.

    With run-time strides this describes the same memory whatever their values are. To narrower
    elements, a static mode of stride 1 grows, and any other may be 1 at run time too: (i, j) -> i +
    k j becomes (i', j) -> i' + r k j, also for k = 1. To wider ones, a run-time stride has to be a
    known multiple of r, which 1 is not.

    Args:
        layout: Layout, or ComposedLayout of a swizzle.
        old_bits: Bits of the present element, or a type with a `width`.
        new_bits: Bits of the new element, or a type with a `width`.

    Raises:
        UserError: A stride, extent, offset or swizzle does not divide, or narrower elements have no
            mode of stride 1 to grow.
    """
    old, new = _bits(old_bits), _bits(new_bits)
    if isinstance(layout, ComposedLayout):
        return _composed(layout, old, new)
    if not isinstance(layout, Layout):
        raise UserTypeError("recast_layout needs a layout", code="FLY-U116", value=layout)
    common = math.lcm(old, new)
    modes = list(zip(flatten(layout.shape), flatten(layout.stride), strict=True))
    if common > old:
        _check_within(modes, common // old)
        modes = [_widened(mode, common // old) for mode in modes]
    if common > new:
        modes = _narrowed(modes, common // new)
    shape = unflatten(iter([s for s, _ in modes]), layout.shape)
    return unchecked_layout(shape, unflatten(iter([d for _, d in modes]), layout.shape))


def _bits(x: object) -> int:
    bits = x if isinstance(x, int) else getattr(x, "width", None)
    if isinstance(bits, bool) or not isinstance(bits, int) or not 0 < bits <= 1 << 20:
        raise UserTypeError(
            "an element width is not a number of bits",
            code="FLY-U101",
            value=x,
            allowed="a positive int or an element type",
        )
    return bits


def _composed(layout: ComposedLayout, old: int, new: int) -> ComposedLayout:
    inner = layout.inner
    if not isinstance(inner, Swizzle):
        raise UserTypeError(
            "only a swizzled layout can be recast", code="FLY-U116", value=str(layout)
        )
    scaled = leaf.mul(layout.offset, old)
    if not leaf.divides(new, scaled):
        raise UserValueError(
            f"recast: the offset {layout.offset} does not divide from {old} to {new} bits",
            code="FLY-U105",
        )
    offset = leaf.floordiv(scaled, new)
    return ComposedLayout(inner.recast(old, new), offset, recast_layout(layout.outer, old, new))


def _refused(mode: Mode, why: str) -> UserError:
    return UserValueError(f"recast: mode {mode[0]}:{mode[1]} {why}", code="FLY-U105")


def _check_within(modes: list[Mode], ratio: int) -> None:
    """Refuse modes that step inside one new element and together leave it."""
    reach = 0
    for extent, stride in modes:
        if isinstance(stride, int) and 0 < stride < ratio:
            steps = ratio // stride
            reach += ((min(extent, steps) if isinstance(extent, int) else steps) - 1) * stride
    if reach >= ratio:
        raise UserValueError(
            f"recast: modes of strides below {ratio} overlap, so they do not make whole elements",
            code="FLY-U105",
            value=",".join(f"{s}:{d}" for s, d in modes),
        )


def _widened(mode: Mode, ratio: int) -> Mode:
    extent, stride = mode
    if isinstance(stride, Basis):
        raise _refused(mode, "has a basis stride")
    if isinstance(extent, int) and extent == 1 and not leaf.divides(ratio, stride):
        return 1, leaf.floordiv(stride, ratio) if isinstance(stride, int) else stride
    if leaf.divides(ratio, stride):
        return extent, leaf.floordiv(stride, ratio)
    if not isinstance(stride, int) or stride < 0 or ratio % stride:
        raise _refused(mode, f"has a stride that neither divides {ratio} nor is a multiple of it")
    per = ratio // stride
    if leaf.divides(per, extent):
        return leaf.floordiv(extent, per), 1
    if isinstance(extent, int) and extent > 0 and per % extent == 0:
        return 1, 1
    raise _refused(mode, f"has an extent that does not make whole elements of {per}")


def _narrowed(modes: list[Mode], ratio: int) -> list[Mode]:
    contiguous = [
        i
        for i, (s, d) in enumerate(modes)
        if isinstance(d, int) and d == 1 and not (isinstance(s, int) and s == 1)
    ]
    if not contiguous:
        # A single element: any mode of extent 1 can hold its parts.
        moving = [m for m in modes if not (isinstance(m[0], int) and m[0] == 1)]
        units = [i for i, (s, _) in enumerate(modes) if isinstance(s, int) and s == 1]
        marked = [i for i in units if isinstance(modes[i][1], int) and modes[i][1] == 1]
        if marked or (units and not moving):
            contiguous = (marked or units)[:1]
    if len(contiguous) != 1:
        raise UserValueError(
            "recast: narrower elements need exactly one mode of stride 1",
            code="FLY-U105",
            value=",".join(f"{s}:{d}" for s, d in modes),
        )
    out: list[Mode] = []
    for i, (extent, stride) in enumerate(modes):
        if isinstance(stride, Basis):
            raise _refused((extent, stride), "has a basis stride")
        if i == contiguous[0]:
            out.append((leaf.product(extent, ratio), 1))
        else:
            out.append((extent, leaf.mul(stride, ratio)))
    return out
