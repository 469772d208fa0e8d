"""Layouts as functions, on bare shapes and strides: merging modes, coordinates and slices.

The objects of the algebra and all algorithms are built on these. An integer coordinate
against several modes is split colexicographically and the last mode takes the whole rest, so a
layout is defined beyond its size too; `extended_modes` is that function with its fewest modes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from flydsl.errors import UserError, UserTypeError, UserValueError
from flydsl.layout import leaf
from flydsl.layout.basis import Basis, Stride, scale
from flydsl.layout.leaf import DynamicLeaf, Leaf
from flydsl.layout.tuples import (
    IntTuple,
    flatten,
    format_tuple,
    int_tuple_product,
    weakly_congruent,
)

__all__ = [
    "Mode",
    "Term",
    "check_coord",
    "codomain_profile",
    "continues",
    "dice_tuple",
    "evaluate",
    "extended_modes",
    "fits_profile",
    "flat_modes",
    "index_to_coord",
    "merge_modes",
    "mode_sizes",
    "offset_exceeds",
    "selection_error",
    "slice_tuple",
    "split_index",
    "sum_terms",
]

Mode: TypeAlias = tuple[Leaf, Stride]
Term: TypeAlias = tuple[Leaf, Stride]

_I32_MAX = 2**31 - 1


def flat_modes(shape: IntTuple, stride: IntTuple) -> list[Mode]:
    """Return the leaf modes (extent, stride) in order."""
    return list(zip(flatten(shape), flatten(stride), strict=True))


def continues(extent: Leaf, stride: Stride, following: Stride) -> bool:
    """Return whether `following` provably is the stride that continues extent:stride."""
    if isinstance(stride, int):
        return (
            isinstance(extent, int) and isinstance(following, int) and extent * stride == following
        )
    if isinstance(stride, Basis) and isinstance(following, Basis):
        return stride.modes == following.modes and continues(extent, stride.value, following.value)
    return False


def merge_modes(modes: Iterable[Mode]) -> list[Mode]:
    """Drop the modes of extent 1 and merge static neighbours that continue one another."""
    out: list[Mode] = []
    for extent, stride in modes:
        if isinstance(extent, int):
            if extent == 1:
                continue
            if out and continues(*out[-1], stride):
                before, first = out[-1]
                out[-1] = (leaf.mul(before, extent), first)
                continue
        out.append((extent, stride))
    return out


def extended_modes(modes: list[Mode], *, trim: bool = False) -> tuple[list[Mode], Stride]:
    """Return the layout over all integers: leading modes, and the stride of what is left over.

    Args:
        modes: At least one mode.
        trim: Let the last mode of another extent than 1 take the rest instead of the very last one;
            equal for coordinates within the size of the layout, simpler beyond.
    """
    end = len(modes)
    if trim:
        while end > 1 and isinstance(modes[end - 1][0], int) and modes[end - 1][0] == 1:
            end -= 1
    lead = merge_modes(modes[: end - 1])
    last = modes[end - 1][1]
    if lead and continues(*lead[-1], last):
        last = lead.pop()[1]
    return lead, last


def split_index(index: Leaf, lead: list[Mode], last: Stride) -> list[Term]:
    """Return the (coordinate, stride) terms of an integer coordinate in an extended layout."""
    terms: list[Term] = []
    for extent, stride in lead:
        terms.append((leaf.mod(index, extent), stride))
        index = leaf.floordiv(index, extent)
    terms.append((index, last))
    return terms


def _collect(coord: IntTuple, shape: IntTuple, stride: IntTuple, terms: list[Term]) -> None:
    if not isinstance(shape, tuple):
        if coord is not None:
            terms.append((coord, stride))
    elif isinstance(coord, tuple):
        for c, s, d in zip(coord, shape, stride, strict=True):
            _collect(c, s, d, terms)
    elif coord is not None and not (isinstance(coord, int) and coord == 0):
        terms.extend(split_index(coord, *extended_modes(flat_modes(shape, stride))))


def check_coord(coord: IntTuple, shape: IntTuple) -> None:
    """Raise UserError unless the nesting of `coord` is a prefix of that of `shape`."""
    if not weakly_congruent(coord, shape):
        raise UserValueError(
            "profile mismatch: the coordinate does not fit the shape",
            code="FLY-U103",
            value=format_tuple(coord),
            hint=f"the shape is {format_tuple(shape)}",
        )


def evaluate(
    coord: IntTuple,
    shape: IntTuple,
    stride: IntTuple,
    *,
    profile: IntTuple | None = None,
    offset: IntTuple = 0,
) -> IntTuple:
    """Return what the layout maps `coord` to; None entries count as 0.

    The result is an index, or a coordinate when strides are basis strides. An index is computed in
    64 bits unless extents and strides show that it fits 32 for every coordinate in range.

    Args:
        coord: Checked against `shape` already.
        shape: Extents.
        stride: Strides, congruent with `shape`.
        profile: What the result is nested like, if more than the strides show.
        offset: What the caller adds to the result; a static one counts towards its range.
    """
    terms: list[Term] = []
    _collect(coord, shape, stride, terms)
    if any(isinstance(c, DynamicLeaf) or not isinstance(d, int) for c, d in terms):
        room = _I32_MAX - (abs(offset) if isinstance(offset, int) else 0)
        if offset_exceeds(shape, stride, room) and not any(isinstance(d, Basis) for _, d in terms):
            terms = [(leaf.widen(c), leaf.widen(d)) for c, d in terms if not isinstance(d, Basis)]
    if profile is None:
        profile = codomain_profile(flatten(stride))
    return sum_terms(terms, profile)


def _bound(x: Leaf) -> int:
    return abs(x) if isinstance(x, int) else _I32_MAX


def offset_exceeds(shape: IntTuple, stride: IntTuple, limit: int) -> bool:
    """Return whether a coordinate in range may map beyond `limit`, as far as is known."""
    total = 0
    for extent, step in flat_modes(shape, stride):
        d = step.value if isinstance(step, Basis) else step
        total += max(_bound(extent) - 1, 0) * _bound(d)
    return total > limit


def codomain_profile(strides: Iterable[Stride]) -> IntTuple:
    """Return zeros nested like what the layout maps to: 0, or a tuple for basis strides.

    Raises:
        UserError: Basis strides are mixed with other strides than 0, or a path ends inside another.
    """
    paths: list[tuple[int, ...]] = []
    plain: Stride | None = None
    for d in strides:
        if isinstance(d, Basis):
            paths.append(d.modes)
        elif not (isinstance(d, int) and d == 0):
            plain = d
    if not paths:
        return 0
    if plain is not None:
        raise UserValueError(
            "basis strides are mixed with plain strides",
            code="FLY-U112",
            value=plain,
            allowed="next to a basis stride only basis strides and 0",
        )
    return _profile_of(paths)


def _profile_of(paths: list[tuple[int, ...]]) -> IntTuple:
    ends = sum(1 for path in paths if not path)
    if ends == len(paths):
        return 0
    if ends:
        raise UserValueError(
            "a basis stride addresses a coordinate and another one a part of it", code="FLY-U112"
        )
    out = []
    for mode in range(max(path[0] for path in paths) + 1):
        below = [path[1:] for path in paths if path[0] == mode]
        out.append(_profile_of(below) if below else 0)
    return tuple(out)


def fits_profile(strides: Iterable[Stride], profile: IntTuple) -> bool:
    """Return whether values of these strides can be added to a tuple nested like `profile`."""
    for d in strides:
        at = profile
        if isinstance(d, Basis):
            for mode in d.modes:
                if not isinstance(at, tuple) or mode >= len(at):
                    return False
                at = at[mode]
        elif isinstance(d, int) and d == 0:
            continue
        if isinstance(at, tuple):
            return False
    return True


def sum_terms(terms: Iterable[Term], profile: IntTuple) -> IntTuple:
    """Return the sum of coordinate * stride over `terms`, nested like `profile`."""
    if not isinstance(profile, tuple):
        total: Leaf = 0
        for c, d in terms:
            total = leaf.add(total, leaf.mul(c, d))  # type: ignore[arg-type]
        return total
    sums: dict[tuple[int, ...], Leaf] = {}
    for c, d in terms:
        step = scale(d, c)
        if isinstance(step, Basis):
            sums[step.modes] = leaf.add(sums.get(step.modes, 0), step.value)
    return _place(sums, profile, ())


def _place(sums: dict[tuple[int, ...], Leaf], profile: IntTuple, path: tuple[int, ...]) -> IntTuple:
    if isinstance(profile, tuple):
        return tuple(_place(sums, p, (*path, i)) for i, p in enumerate(profile))
    return sums.get(path, 0)


def index_to_coord(index: Leaf, shape: IntTuple, stride: IntTuple) -> IntTuple:
    """Return per leaf (index / stride) % extent; 0 where the extent is 1 or the stride 0."""
    if isinstance(shape, tuple):
        return tuple(index_to_coord(index, s, d) for s, d in zip(shape, stride, strict=True))
    if isinstance(stride, Basis):
        raise UserTypeError(
            "the layout maps to coordinates, so it has no indices to convert",
            code="FLY-U112",
            value=str(stride),
        )
    if isinstance(shape, int) and shape == 1:
        return 0
    if isinstance(stride, int) and stride == 0:
        return 0
    return leaf.mod(leaf.floordiv(index, stride), shape)


def slice_tuple(x: IntTuple, coord: IntTuple) -> tuple[IntTuple, ...]:
    """Return the modes of `x` that face None in `coord`, those of nested coordinates in line."""
    if not isinstance(coord, tuple):
        return (x,) if coord is None else ()
    return tuple(mode for e, c in zip(x, coord, strict=True) for mode in slice_tuple(e, c))


def dice_tuple(x: IntTuple, coord: IntTuple) -> tuple[IntTuple, ...]:
    """Return the modes of `x` that face an integer in `coord`, those of nested ones in line."""
    if not isinstance(coord, tuple):
        return () if coord is None else (x,)
    return tuple(mode for e, c in zip(x, coord, strict=True) for mode in dice_tuple(e, c))


def selection_error(what: str, coord: IntTuple) -> UserError:
    """Return the error for a slice that keeps nothing."""
    fixed = what == "slice"
    return UserValueError(
        f"{what} keeps no mode: " + ("every mode is fixed" if fixed else "no mode is fixed"),
        code="FLY-U114",
        value=format_tuple(coord),
        allowed="at least one None in the coordinate" if fixed else "at least one integer",
        hint="use crd2idx, or call the layout, for the value at a coordinate" if fixed else "",
    )


def mode_sizes(shape: IntTuple) -> tuple[Leaf, ...]:
    """Return the size of each top-level mode."""
    return tuple(int_tuple_product(s) for s in shape) if isinstance(shape, tuple) else (shape,)
