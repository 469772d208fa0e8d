"""Composition: the layout that maps a coordinate to A(B(coordinate)).

The result is exact or refused. Each mode n:d of B visits 0, d, 2d, ... in A; written in the mixed
radix of A's extents (the last mode is unbounded), that is a single stride of the result as long as
no digit carries. A mode of B that would carry is split where its first part fills a mode of A.
Finally the digits of all modes of B together must not carry either; if they can, the composition is
no layout, and a UserError says in which mode of A.

For run-time extents a digit that provably stays below the known divisor of the extent counts as not
carrying; everything else that depends on run-time values is refused.
"""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserError, UserTypeError, UserValueError
from flydsl.layout import evaluate as ev
from flydsl.layout import leaf
from flydsl.layout.basis import Basis, Stride, scale
from flydsl.layout.composed import ComposedLayout, CoordTensor, Tile, Tiler
from flydsl.layout.layouts import Layout, unchecked_layout
from flydsl.layout.leaf import Leaf
from flydsl.layout.simplify import from_modes
from flydsl.layout.swizzle import CoordSwizzle, Swizzle
from flydsl.layout.tuples import normalize

__all__ = ["as_tiler", "by_mode", "compose_layouts", "composition", "tiler_layout"]


class _Domain:
    """Layout A as a function of one integer, and how far each of its modes is used."""

    __slots__ = ("last", "lead", "source", "used")

    def __init__(self, layout: Layout, trim: bool) -> None:
        self.source = layout
        self.lead, self.last = ev.extended_modes(
            ev.flat_modes(layout.shape, layout.stride), trim=trim
        )
        # Sum over all modes of B of (extent - 1) * digit, per leading mode of A.
        self.used = [0] * len(self.lead)

    def refuse(self, why: str) -> UserError:
        return UserValueError(
            f"the composition is not a layout: {why}",
            code="FLY-U106",
            value=str(self.source),
            hint="divide by tiles that fit the extents, mode by mode (make_tile)",
        )

    def room(self, i: int) -> int:
        """Return how many steps leading mode `i` provably has."""
        extent = self.lead[i][0]
        return extent if isinstance(extent, int) else extent.divisor

    def note_use(self, digits: list[Leaf], extent: Leaf) -> None:
        """Account for a mode that moves by `digits`, and refuse when modes can carry together."""
        for i, digit in enumerate(digits[: len(self.lead)]):
            if isinstance(digit, int) and digit == 0:
                continue
            assert isinstance(digit, int)
            assert isinstance(extent, int)
            self.used[i] += (extent - 1) * digit
            if self.used[i] >= self.room(i):
                raise self.refuse(
                    f"modes of the right side together pass the extent {self.lead[i][0]} of mode "
                    f"{i} of the left side"
                )


def _digits(domain: _Domain, stride: Leaf, extent: Leaf) -> list[Leaf]:
    """Return `stride` in the mixed radix of the domain; the last digit is unbounded."""
    out: list[Leaf] = []
    for s, _ in domain.lead:
        if isinstance(stride, int) and stride == 0:
            out.append(0)
        elif isinstance(s, int) and (isinstance(stride, int) or leaf.divides(s, stride)):
            if s == 0:
                raise domain.refuse("the left side is empty")
            out.append(leaf.mod(stride, s))
            stride = leaf.floordiv(stride, s)
        elif (
            isinstance(stride, int)
            and isinstance(extent, int)
            and not isinstance(s, int)
            and 0 <= (extent - 1) * stride < s.divisor
        ):
            out.append(stride)
            stride = 0
        else:
            raise domain.refuse(
                f"whether {extent}:{stride} stays within the extent {s} is known only at run time"
            )
    out.append(stride)
    return out


def _steps(domain: _Domain, digits: list[Leaf]) -> int | None:
    """Return the most steps of `digits` that carry nowhere; None if there is no bound."""
    most: int | None = None
    for i in range(len(domain.lead)):
        digit = digits[i]
        assert isinstance(digit, int)
        if digit:
            steps = (domain.room(i) - 1) // digit + 1
            most = steps if most is None else min(most, steps)
    return most


def _step_stride(domain: _Domain, digits: list[Leaf]) -> Stride:
    """Return how far one step of `digits` moves in the codomain of A."""
    out: Stride = 0
    steps = [d for _, d in domain.lead] + [domain.last]
    for digit, stride in zip(digits, steps, strict=True):
        if isinstance(digit, int) and digit == 0:
            continue
        moved = scale(stride, digit)
        if isinstance(out, int) and out == 0:
            out = moved
        elif isinstance(out, Basis) or isinstance(moved, Basis):
            if not (
                isinstance(out, Basis) and isinstance(moved, Basis) and out.modes == moved.modes
            ):
                raise domain.refuse("one step moves along two coordinates at once")
            out = Basis(leaf.add(out.value, moved.value), out.modes)
        else:
            out = leaf.add(out, moved)
    return out


def _compose_mode(domain: _Domain, extent: Leaf, stride: Leaf) -> list[ev.Mode]:
    """Return the modes of A o (extent:stride)."""
    if not domain.lead:
        return [(extent, scale(domain.last, stride))]
    pieces: list[ev.Mode] = []
    while True:
        digits = _digits(domain, stride, extent)
        most = _steps(domain, digits)
        if most is None or (isinstance(extent, int) and extent <= most):
            domain.note_use(digits, extent)
            pieces.append((extent, _step_stride(domain, digits)))
            return pieces
        if not leaf.divides(most, extent) or most == 1:
            raise domain.refuse(
                f"the steps of {extent}:{stride} cannot be split where a mode of the left side "
                f"ends (after {most} of them)"
            )
        domain.note_use(digits, most)
        pieces.append((most, _step_stride(domain, digits)))
        extent = leaf.floordiv(extent, most)
        stride = leaf.mul(stride, most)


def _compose_nested(
    domains: dict[tuple[int, ...], _Domain], a: Layout, b: Layout, trim: bool
) -> Layout:
    if isinstance(b.shape, tuple):
        parts = [
            _compose_nested(domains, a, unchecked_layout(s, d), trim)
            for s, d in zip(b.shape, b.stride, strict=True)
        ]
        return unchecked_layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
    stride = b.stride
    path: tuple[int, ...] = ()
    if isinstance(stride, Basis):
        path, stride = stride.modes, stride.value
    elif domains and isinstance(stride, int) and stride == 0:
        return unchecked_layout(b.shape, 0)
    if path not in domains:
        domains[path] = _Domain(_mode_at(a, path), trim)
    pieces = _compose_mode(domains[path], b.shape, stride)
    return unchecked_layout(*pieces[0]) if len(pieces) == 1 else from_modes(pieces)


def _mode_at(a: Layout, path: tuple[int, ...]) -> Layout:
    out = a
    for mode in path:
        if out.is_leaf or mode >= out.rank:
            raise UserValueError(
                "profile mismatch: a basis stride of the right side has no mode on the left side",
                code="FLY-U103",
                value=list(path),
                hint=f"the left side is {a}",
            )
        out = out[mode]
    return out


def compose_layouts(a: Layout, b: Layout, *, trim: bool = False) -> Layout:
    """Return A o B for plain layouts.

    Args:
        a: The layout applied second.
        b: The layout applied first; basis strides address the modes of `a`.
        trim: Ignore trailing modes of extent 1 of `a`: equal for values of B within the size of
            `a`, and defined for more B. Divides use it, where the excess is padding.

    Raises:
        UserError: The composition is not a layout.
    """
    return _compose_nested({}, a, b, trim)


def tiler_layout(tiler: Tiler, what: str) -> Layout:
    """Return the layout that a tiler of one mode stands for.

    Raises:
        UserError: It is a Tile or None.
    """
    if isinstance(tiler, Layout):
        return tiler
    if tiler is None or isinstance(tiler, Tile):
        raise UserTypeError(f"{what} needs a layout or size here", code="FLY-U115", value=tiler)
    return unchecked_layout(tiler, 1)


def as_tiler(x: object, what: str) -> Layout | Tile:
    """Return `x` as a Layout or Tile: an int n is the layout n:1, a tuple a Tile.

    Raises:
        UserError: It is none of these.
    """
    if isinstance(x, Layout | Tile):
        return x
    if isinstance(x, tuple | list):
        return tile_from(x)
    if isinstance(x, ComposedLayout | CoordTensor | Swizzle | CoordSwizzle) or x is None:
        raise UserTypeError(
            f"{what}: the tiler is of the wrong kind",
            code="FLY-U115",
            value=x,
            allowed="Layout, Tile, tuple, int",
        )
    size = normalize(x, "the tiler")
    return unchecked_layout(Tile((size,)).modes[0], 1)


def tile_from(x: tuple[Any, ...] | list[Any], _depth: int = 0) -> Tile:
    """Return the Tile of a tuple of ints, None, layouts and tuples.

    Raises:
        UserError: It is empty, too deep or holds something else.
    """
    if _depth > 32:
        raise UserValueError("a tile is nested too deeply", code="FLY-U115")
    modes: list[Tiler] = []
    for e in x:
        if isinstance(e, tuple | list):
            modes.append(tile_from(e, _depth + 1))
        elif e is None or isinstance(e, Layout | Tile | float | str | bool):
            modes.append(e)  # type: ignore[arg-type]
        else:
            modes.append(normalize(e, "the tile"))
    return Tile(tuple(modes))


def by_mode(layout: Layout, tile: Tile, what: str, fn: Any) -> Layout:
    """Return `layout` with ``fn(mode, tiler)`` for each mode of `tile`; further modes stay.

    A None tiler keeps its mode, a Tile applies to the sub-modes.

    Raises:
        UserError: The tile has more modes than the layout.
    """
    if tile.rank > layout.rank or layout.is_leaf:
        if not (layout.is_leaf and tile.rank == 1):
            raise UserValueError(
                f"{what}: the tile has more modes than the layout",
                code="FLY-U103",
                value=str(tile),
                hint=f"the layout is {layout}",
            )
        layout = unchecked_layout((layout.shape,), (layout.stride,))
    modes = layout.modes()
    done = [
        mode
        if tiler is None
        else by_mode(mode, tiler, what, fn)
        if isinstance(tiler, Tile)
        else fn(mode, tiler_layout(tiler, what))
        for mode, tiler in zip(modes[: tile.rank], tile.modes, strict=True)
    ]
    done += modes[tile.rank :]
    return unchecked_layout(tuple(m.shape for m in done), tuple(m.stride for m in done))


def composition(a: object, b: object) -> Any:
    """Return the layout that maps a coordinate to a(b(coordinate)).

    Args:
        a: Layout, ComposedLayout, CoordTensor, Swizzle or CoordSwizzle.
        b: Layout or ComposedLayout; a Tile or tuple composes mode by mode (None keeps a mode,
            further modes stay); an int n is the layout n:1.

    Raises:
        UserError: The composition is not a layout, or an operand is of another kind.
    """
    if isinstance(b, ComposedLayout):
        if isinstance(a, Layout | Swizzle | CoordSwizzle):
            return ComposedLayout(a, b.codomain, b)
        if isinstance(a, ComposedLayout):
            return ComposedLayout(a.inner, a.offset, composition(a.outer, b))
    if isinstance(a, Swizzle | CoordSwizzle):
        right = as_tiler(b, "composition")
        if not isinstance(right, Layout):
            raise UserTypeError("a swizzle composes with a layout", code="FLY-U116", value=b)
        return ComposedLayout(a, right.codomain, right)
    if isinstance(a, ComposedLayout):
        return a.with_outer(composition(a.outer, b))
    if isinstance(a, CoordTensor):
        return CoordTensor(a.base, composition(a.layout, b))
    if not isinstance(a, Layout):
        raise UserTypeError("composition needs a layout", code="FLY-U116", value=a)
    tiler = as_tiler(b, "composition")
    if isinstance(tiler, Tile):
        return by_mode(a, tiler, "composition", compose_layouts)
    return compose_layouts(a, tiler)
