"""Complement and inverses of layouts.

Whatever cannot be expressed as a layout, or cannot be proven for values known only at run time, is
refused instead of guessed.
"""

from __future__ import annotations

import itertools

from flydsl.errors import UserError, UserTypeError, UserValueError
from flydsl.layout import evaluate as ev
from flydsl.layout import leaf
from flydsl.layout.basis import Basis
from flydsl.layout.composed import ComposedLayout
from flydsl.layout.evaluate import Mode
from flydsl.layout.layouts import Layout, unchecked_layout
from flydsl.layout.leaf import Leaf
from flydsl.layout.queries import cosize, size
from flydsl.layout.simplify import coalesced_modes, from_modes
from flydsl.layout.swizzle import Swizzle
from flydsl.layout.tuples import flatten, int_tuple_product, normalize

__all__ = ["complement", "left_inverse", "nullspace", "right_inverse"]


def _plain(layout: object, what: str) -> Layout:
    """Return `layout`, checked to be plain and with integer strides."""
    if not isinstance(layout, Layout):
        raise UserTypeError(
            f"{what} needs a plain layout",
            code="FLY-U116",
            value=str(layout),
            hint="apply it to the outer part of a composed layout"
            if isinstance(layout, ComposedLayout)
            else "make one with make_layout",
        )
    if any(isinstance(d, Basis) for d in flatten(layout.stride)):
        raise UserTypeError(f"{what} needs integer strides", code="FLY-U112", value=str(layout))
    return layout


def _refuse(what: str, why: str, layout: Layout) -> UserError:
    return UserValueError(f"{what}: {why}", code="FLY-U107", value=str(layout))


def _sorted_spans(layout: Layout, what: str) -> list[Mode]:
    """Return the coalesced modes that move, by stride; the one of run-time stride last.

    Raises:
        UserError: A stride is negative, or two strides are known only at run time.
    """
    modes = [m for m in coalesced_modes(layout) if not (isinstance(m[1], int) and m[1] == 0)]
    if any(isinstance(d, int) and d < 0 for _, d in modes):
        raise _refuse(what, "a stride is negative", layout)
    static = [m for m in modes if isinstance(m[1], int)]
    later = [m for m in modes if not isinstance(m[1], int)]
    if len(later) > 1:
        raise _refuse(what, "the order of two strides is known only at run time", layout)
    return sorted(static, key=lambda m: m[1]) + later  # type: ignore[arg-type,return-value]


def complement(layout: object, codomain_size: object = None) -> Layout:
    """Return the layout of the offsets at which copies of `layout` fill the codomain.

    It is ordered (its strides increase) and disjoint from `layout`: the two together reach each
    number below the codomain's size once, or a little more if the sizes do not divide.

    Args:
        layout: A plain layout; modes of stride 0 do not count.
        codomain_size: An int or run-time integer; a tuple means its product. The default is the
            layout's own cosize.

    Raises:
        UserError: The layout overlaps itself, a stride is no multiple of what the faster modes
            span, or that is known only at run time.
    """
    plain = _plain(layout, "complement")
    if codomain_size is None:
        total = cosize(plain)
    else:
        total = int_tuple_product(normalize(codomain_size, "the codomain size"))
    if isinstance(total, int) and total < 0:
        raise _refuse("complement", "the codomain size is negative", plain)
    current: Leaf = 1
    out: list[Mode] = []
    spans = _sorted_spans(plain, "complement")
    for at, (extent, stride) in enumerate(spans):
        assert not isinstance(stride, Basis)
        if isinstance(extent, int) and extent == 0:
            raise _refuse("complement", "the layout is empty", plain)
        if _lie_beyond(spans[at:], current, total):
            break
        if not leaf.divides(current, stride):
            raise _refuse(
                "complement",
                f"stride {stride} is not known to be a multiple of {current}, which the faster "
                "modes span: the layout overlaps itself or does not nest",
                plain,
            )
        out.append((leaf.floordiv(stride, current), current))
        current = leaf.mul(extent, stride)
    out.append((leaf.ceildiv(total, current), current))
    return from_modes(ev.merge_modes(out))


def _lie_beyond(spans: list[Mode], reached: Leaf, total: Leaf) -> bool:
    """Return whether [0, total) is full and `spans` place further copies of [0, reached) apart."""
    if not isinstance(reached, int) or not isinstance(total, int) or reached < total:
        return False
    for extent, stride in spans:
        if not isinstance(extent, int) or not isinstance(stride, int) or stride < reached:
            return False
        reached += (extent - 1) * stride
    return True


def right_inverse(layout: object) -> Layout | ComposedLayout:
    """Return the largest r of its kind with layout(r(i)) == i for every i below its size.

    It is built from whole modes whose stride continues what is reached so far; for run-time extents
    and strides, from those of which that is provable. The inverse of a swizzled layout applies the
    swizzle first, so it is a composed layout.

    Raises:
        UserError: The layout maps to coordinates, or is composed of more than a swizzle.
    """
    if isinstance(layout, ComposedLayout):
        return _swizzled_inverse(layout)
    plain = _plain(layout, "right_inverse")
    return from_modes(ev.merge_modes(_continuing_modes(plain)))


def _continuing_modes(plain: Layout) -> list[Mode]:
    """Return (extent, place in the domain) of the modes that count 0, 1, 2, ..., in order."""
    by_stride: dict[int, Mode] = {}
    place: Leaf = 1
    for extent, stride in coalesced_modes(plain):
        if isinstance(stride, int) and stride > 0 and not (isinstance(extent, int) and extent == 0):
            known = by_stride.get(stride)
            if known is None or _longer(extent, known[0]):
                by_stride[stride] = (extent, place)
        place = leaf.product(place, extent)
    found: list[Mode] = []
    reached: Leaf = 1
    while isinstance(reached, int) and reached in by_stride:
        mode = by_stride.pop(reached)
        found.append(mode)
        reached = leaf.mul(reached, mode[0])
    return found


def _longer(a: Leaf, b: Leaf) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a > b


def _swizzled_inverse(layout: ComposedLayout) -> ComposedLayout:
    """Return i -> right_inverse(outer)(swizzle(i))."""
    inner, outer = layout.inner, layout.outer
    at_zero = isinstance(layout.offset, int) and layout.offset == 0
    if not isinstance(inner, Swizzle) or not isinstance(outer, Layout) or not at_zero:
        raise UserTypeError(
            "right_inverse of a composed layout is defined for a swizzle of a layout, offset 0",
            code="FLY-U107",
            value=str(layout),
        )
    inverse = right_inverse(outer)
    count = size(inverse)
    kept = isinstance(count, int) and (count <= 1 << inner.source[0] or count % inner.block == 0)
    if not inner.is_involution or not kept or not isinstance(inverse, Layout):
        raise UserValueError(
            f"right_inverse: the swizzle does not map 0..{count} - 1 to itself",
            code="FLY-U107",
            value=str(layout),
        )
    counting = ComposedLayout(inner, 0, unchecked_layout(count, 1))
    return ComposedLayout(inverse, 0, counting)


def left_inverse(layout: object) -> Layout:
    """Return l with l(layout(c)) == c for every linear coordinate c, modes of stride 0 aside.

    Raises:
        UserError: The layout is not injective, or its strides are not nested multiples, so that no
            layout of the kind is an inverse.
    """
    plain = _plain(layout, "left_inverse")
    modes: list[tuple[Leaf, Leaf, Leaf]] = []
    place: Leaf = 1
    for extent, stride in coalesced_modes(plain):
        assert not isinstance(stride, Basis)
        if isinstance(stride, int) and stride < 0:
            raise _refuse("left_inverse", "a stride is negative", plain)
        if not (isinstance(stride, int) and stride == 0):
            modes.append((extent, stride, place))
        place = leaf.product(place, extent)
    if sum(1 for m in modes if not isinstance(m[1], int)) > 1:
        raise _refuse("left_inverse", "the order of two strides is known only at run time", plain)
    modes.sort(key=lambda m: (not isinstance(m[1], int), m[1] if isinstance(m[1], int) else 0))
    if not modes:
        return unchecked_layout(1, 0)
    out: list[Mode] = [(modes[0][1], 0)]
    for (extent, stride, at), (_, following, _) in itertools.pairwise(modes):
        whole = leaf.divides(leaf.mul(stride, extent), following)
        if not whole and not _nests(extent, stride, following):
            raise _refuse(
                "left_inverse",
                f"stride {following} is not known to be a multiple of {stride} beyond the span of "
                f"{extent}:{stride}",
                plain,
            )
        out.append((leaf.floordiv(following, stride), at))
    out.append((modes[-1][0], modes[-1][2]))
    return from_modes(ev.merge_modes(out))


def _nests(extent: Leaf, stride: Leaf, following: Leaf) -> bool:
    """Return whether `following` is a multiple of `stride` and lies beyond extent:stride."""
    if not (isinstance(extent, int) and isinstance(stride, int) and isinstance(following, int)):
        return False
    return following % stride == 0 and following >= extent * stride


def nullspace(layout: object) -> Layout:
    """Return the layout of the coordinates that differ only in modes of stride 0.

    Its values are linear coordinates that `layout` maps to 0; 1:0 if there is no such mode.

    Raises:
        UserError: The layout is composed.
    """
    if not isinstance(layout, Layout):
        raise UserTypeError("nullspace needs a plain layout", code="FLY-U116", value=str(layout))
    found: list[Mode] = []
    place: Leaf = 1
    for extent, stride in ev.flat_modes(layout.shape, layout.stride):
        if isinstance(stride, int) and stride == 0:
            found.append((extent, place))
        place = leaf.product(place, extent)
    return from_modes(ev.merge_modes(found))
