"""Coalescing, composition, complement and inverses.

The definitions are those of CuTe's layout algebra. Whatever cannot be expressed as a layout, or
cannot be proven for values known only at run time, is refused instead of guessed.
"""

from __future__ import annotations

import itertools
from typing import Any

from flydsl.errors import UserError, UserTypeError, UserValueError
from flydsl.layout import evaluate as ev
from flydsl.layout import leaf
from flydsl.layout.basis import Basis, Stride, scale
from flydsl.layout.composed import ComposedLayout, CoordTensor, Tile
from flydsl.layout.evaluate import Mode
from flydsl.layout.layouts import Layout
from flydsl.layout.leaf import DynamicLeaf, Leaf
from flydsl.layout.modes import cosize, size
from flydsl.layout.tuples import IntTuple, flatten, int_tuple_product, normalize, weakly_congruent

__all__ = ["coalesce", "complement", "composition", "from_modes", "left_inverse", "right_inverse"]

_CHECKED_SIZE = 1 << 16


def from_modes(modes: list[Mode]) -> Layout:
    """Return the layout of these leaf modes; 1:0 of none, a single one unwrapped."""
    if not modes:
        return Layout(1, 0)
    if len(modes) == 1:
        return Layout(*modes[0])
    return Layout(tuple(m[0] for m in modes), tuple(m[1] for m in modes))


def coalesce(layout: Any, pattern: Any = None) -> Any:
    """Return the same function with the fewest modes; with `pattern`, within each of its leaves.

    Raises:
        UserError: The nesting of `pattern` is not a prefix of that of the layout.
    """
    if isinstance(layout, ComposedLayout):
        return layout.with_outer(coalesce(layout.outer, pattern))
    if isinstance(layout, CoordTensor):
        return CoordTensor(layout.base, coalesce(layout.layout, pattern))
    if not isinstance(layout, Layout):
        raise UserTypeError("coalesce needs a layout", code="FLY-U116", value=layout)
    if pattern is None:
        return from_modes(ev.merge_modes(ev.flat_modes(layout.shape, layout.stride)))
    guide = normalize(pattern, "the pattern", none=True)
    if not weakly_congruent(guide, layout.shape):
        raise UserValueError(
            "profile mismatch: the pattern does not fit the layout", code="FLY-U103", value=pattern
        )
    return _coalesced(layout, guide)


def _coalesced(layout: Layout, guide: IntTuple) -> Layout:
    if not isinstance(guide, tuple):
        return coalesce(layout)  # type: ignore[no-any-return]
    modes = [_coalesced(m, g) for m, g in zip(layout.modes(), guide, strict=True)]
    return Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))


def composition(a: Any, b: Any) -> Any:
    """Return the layout x -> a(b(x)), nested like `b`; a `Tile` composes mode by mode.

    Modes of `a` beyond the rank of a tile pass through, as do those that face None.

    Raises:
        UserError: No layout expresses the composition, or that cannot be decided before run time.
    """
    if isinstance(a, ComposedLayout):
        return a.with_outer(composition(a.outer, b))
    if isinstance(a, CoordTensor):
        return CoordTensor(a.base, composition(a.layout, b))
    if not isinstance(a, Layout):
        raise UserTypeError("composition needs a layout", code="FLY-U116", value=a)
    if isinstance(b, Tile):
        return _by_mode(a, b)
    if not isinstance(b, Layout):
        raise UserTypeError(
            "the inner part of a composition is neither a layout nor a tile",
            code="FLY-U116",
            value=b,
            hint="make a tile of ints with make_tile",
        )
    out = _composed(a, b)
    if _may_carry(a, b):
        _check_composition(a, b, out)
    return out


def _by_mode(a: Layout, tile: Tile) -> Layout:
    modes = list(a.modes())
    if tile.rank > len(modes):
        raise UserValueError(
            "a tile has more modes than the layout",
            code="FLY-U115",
            value=str(tile),
            allowed=f"at most {len(modes)} modes",
        )
    for i, tiler in enumerate(tile.modes):
        if tiler is None:
            continue
        inner = Layout(tiler, 1) if isinstance(tiler, int | DynamicLeaf) else tiler
        modes[i] = composition(modes[i], inner)
    return Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))


def _composed(a: Layout, b: Layout) -> Layout:
    if isinstance(b.shape, tuple):
        modes = [_composed(a, mode) for mode in b.modes()]
        return Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))
    step = b.stride
    if isinstance(step, Basis):
        for mode in step.modes:
            a = a[mode]
        step = step.value
    lead, last = ev.extended_modes(ev.flat_modes(a.shape, a.stride))
    return from_modes(_compose_leaf(lead, last, b.shape, step))


def _undecided(extent: Leaf, step: Leaf, mode: Leaf) -> UserError:
    return UserValueError(
        f"composition: {extent}:{step} does not divide into a mode of extent {mode}",
        code="FLY-U105",
        allowed="extents and strides of which one provably divides the other",
    )


def _compose_leaf(lead: list[Mode], last: Stride, extent: Leaf, step: Leaf) -> list[Mode]:
    """Return the modes of i -> a(i * step), i < extent, for an extended layout a."""
    if isinstance(step, int) and step == 0:
        return [(extent, 0)]
    out: list[Mode] = []
    left, skip = extent, step
    for size_, stride in lead:
        if isinstance(size_, int) and leaf.divisor_of(skip) % size_ == 0:
            skip = leaf.floordiv(skip, size_)
            continue
        if isinstance(skip, int) and skip == 1:
            room: Leaf = size_
        elif isinstance(size_, int) and isinstance(skip, int) and size_ % skip == 0:
            room = size_ // skip
        else:
            raise _undecided(extent, step, size_)
        at, skip = scale(stride, skip), 1
        if not (isinstance(room, int) and isinstance(left, int)):
            raise _undecided(extent, step, size_)
        if left <= room:
            return [*out, (left, at)]
        if left % room:
            raise _undecided(extent, step, size_)
        out.append((room, at))
        left //= room
    if out and isinstance(left, int) and left == 1:
        return out
    return [*out, (left, scale(last, skip))]


def _may_carry(a: Layout, b: Layout) -> bool:
    """Return whether sums over the modes of `b` may cross a boundary between modes of `a`."""
    if len(flatten(a.shape)) == 1:
        return False
    modes = [m for m in ev.flat_modes(b.shape, b.stride) if m[0] != 1 and m[1] != 0]
    if len(modes) < 2 or any(isinstance(d, Basis) for _, d in modes):
        return False
    if not ev.extended_modes(ev.flat_modes(a.shape, a.stride))[0]:
        return False
    ordered = sorted(modes, key=lambda m: m[1] if isinstance(m[1], int) else 1 << 62)
    for (s, d), (_, following) in itertools.pairwise(ordered):
        end = leaf.mul(s, d)  # type: ignore[arg-type]
        if not (isinstance(end, int) and end and leaf.divisor_of(following) % end == 0):  # type: ignore[arg-type]
            return True
    return False


def _check_composition(a: Layout, b: Layout, out: Layout) -> None:
    """Raise UserError unless `out` equals a(b(x)) everywhere."""
    count = size(b)
    if isinstance(count, int) and count <= _CHECKED_SIZE and a.is_static and b.is_static:
        for i in range(count):
            if a(b(i)) != out(i):
                break
        else:
            return
    raise UserValueError(
        "composition: no layout maps every coordinate to a(b(x)), or it cannot be proven",
        code="FLY-U105",
        value=f"{a} o {b}",
        hint="compose mode by mode with make_tile, or give the inner layout strides that nest",
    )


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
