"""Complement and inverses of layouts.

Whatever cannot be expressed as a layout, or cannot be proven for values known only at run time, is
refused instead of guessed.
"""

from __future__ import annotations

import itertools
from typing import Any

from flydsl.errors import UserError, UserTypeError, UserValueError
from flydsl.layout import evaluate as ev
from flydsl.layout import leaf
from flydsl.layout.basis import Basis
from flydsl.layout.composed import ComposedLayout
from flydsl.layout.evaluate import Mode
from flydsl.layout.layouts import Layout
from flydsl.layout.leaf import DynamicLeaf, Leaf
from flydsl.layout.queries import cosize
from flydsl.layout.simplify import from_modes
from flydsl.layout.tuples import flatten, int_tuple_product, normalize

__all__ = ["complement", "left_inverse", "right_inverse"]


def _spans(layout: Layout, what: str) -> list[Mode]:
    """Return the modes that move, by stride; those known only at run time last."""
    modes = []
    for extent, stride in ev.flat_modes(layout.shape, layout.stride):
        if isinstance(stride, Basis):
            raise UserTypeError(f"{what} needs integer strides", code="FLY-U112", value=str(layout))
        if not (
            (isinstance(extent, int) and extent == 1) or (isinstance(stride, int) and stride == 0)
        ):
            modes.append((extent, stride))
    return sorted(modes, key=lambda m: m[1] if isinstance(m[1], int) else 1 << 62)


def complement(layout: Any, codomain_size: Any = None) -> Layout:
    """Return the layout of the offsets that `layout` leaves out, up to `codomain_size` in total.

    The default codomain is that of the layout itself.

    Raises:
        UserError: The layout overlaps itself, its strides do not nest, or are not known.
    """
    if isinstance(layout, ComposedLayout):
        layout = layout.outer
    if not isinstance(layout, Layout):
        raise UserTypeError("complement needs a layout", code="FLY-U116", value=layout)
    total = (
        cosize(layout)
        if codomain_size is None
        else int_tuple_product(normalize(codomain_size, "the codomain size"))
    )
    modes = _spans(layout, "complement")
    current: Leaf = 1
    out: list[Mode] = []
    for extent, stride in modes:
        assert not isinstance(stride, Basis)
        if (
            isinstance(current, int) and leaf.divisor_of(stride) % current == 0 and stride != 0
        ) or (isinstance(current, DynamicLeaf) and len(modes) == 1):
            gap = leaf.floordiv(stride, current)
        else:
            raise UserValueError(
                "complement: the layout overlaps itself, or its strides are not multiples of what "
                "the faster modes span",
                code="FLY-U105",
                value=str(layout),
            )
        out.append((gap, current))
        current = leaf.mul(extent, stride)
    out.append((leaf.ceildiv(total, current), current))
    return from_modes(ev.merge_modes(out))


def right_inverse(layout: Any) -> Layout:
    """Return the largest layout r with layout(r(i)) = i, as far as it can be proven.

    Raises:
        UserError: The layout is swizzled or maps to coordinates.
    """
    plain = _invertible(layout, "right_inverse")
    start: Leaf = 1
    modes = []
    for extent, stride in ev.flat_modes(plain.shape, plain.stride):
        modes.append((extent, stride, start))
        start = leaf.mul(start, extent)
    found: list[Mode] = []
    current: Leaf = 1
    while True:
        following = [m for m in modes if isinstance(m[1], int) and m[1] == current and m[0] != 1]
        if not following or not isinstance(current, int):
            break
        extent, _, prefix = following[0]
        modes.remove(following[0])
        found.append((extent, prefix))
        current = leaf.mul(current, extent)
    return from_modes(ev.merge_modes(found)) if found else Layout(1, 0)


def left_inverse(layout: Any) -> Layout:
    """Return a layout l with l(layout(i)) = i for every i; modes of stride 0 map to 0.

    Raises:
        UserError: The strides are not nested multiples, so that no layout is an inverse.
    """
    plain = _invertible(layout, "left_inverse")
    start: Leaf = 1
    modes: list[tuple[Leaf, int, Leaf]] = []
    for extent, stride in ev.flat_modes(plain.shape, plain.stride):
        if isinstance(stride, int) and stride > 0:
            if extent != 1:
                modes.append((extent, stride, start))
        elif stride != 0:
            raise _no_inverse(plain)
        start = leaf.mul(start, extent)
    modes.sort(key=lambda m: m[1])
    if not modes:
        return Layout(1, 0)
    out: list[Mode] = [(modes[0][1], 0)]
    for (extent, stride, prefix), following in itertools.zip_longest(modes, modes[1:]):
        if following is None:
            out.append((extent, prefix))
            break
        if following[1] % stride or not isinstance(extent, int) or extent * stride > following[1]:
            raise _no_inverse(plain)
        out.append((following[1] // stride, prefix))
    return from_modes(ev.merge_modes(out))


def _no_inverse(layout: Layout) -> UserError:
    return UserValueError(
        "left_inverse: the layout is not injective, or its strides are not nested multiples",
        code="FLY-U105",
        value=str(layout),
    )


def _invertible(layout: Any, what: str) -> Layout:
    if isinstance(layout, Layout) and not any(isinstance(d, Basis) for d in flatten(layout.stride)):
        return layout
    raise UserTypeError(
        f"{what} needs a plain layout with integer strides",
        code="FLY-U116",
        value=str(layout),
        hint="invert the inner and outer parts of a composed layout by themselves",
    )
