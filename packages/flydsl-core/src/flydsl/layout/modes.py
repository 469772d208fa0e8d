"""Mode surgery on tuples and layouts: get, take, select, group, append, prepend, slice, dice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flydsl.errors import UserError, UserTypeError, UserValueError
from flydsl.layout import evaluate as ev
from flydsl.layout.composed import ComposedLayout, CoordTensor, Tile
from flydsl.layout.layouts import Layout, check_mode, tuple_depth, unchecked_layout
from flydsl.layout.swizzle import CoordSwizzle, Swizzle
from flydsl.layout.tuples import IntTuple, format_tuple, has_none, normalize

__all__ = [
    "append",
    "as_layout_like",
    "depth",
    "dice",
    "get",
    "get_",
    "group",
    "prepend",
    "rank",
    "select",
    "slice",
    "slice_and_offset",
    "take",
]

_MAX_RANK = 4096


def as_layout_like(x: object, what: str) -> Layout | ComposedLayout | CoordTensor:
    """Return `x`, checked to be a layout, composed layout or coordinate tensor.

    Raises:
        UserError: It is something else.
    """
    if isinstance(x, Layout | ComposedLayout | CoordTensor):
        return x
    raise UserTypeError(
        f"{what} needs a layout", code="FLY-U116", value=x, hint="make one with make_layout"
    )


def _tuple_or_layout(x: object, what: str) -> Any:
    if isinstance(x, Layout | ComposedLayout | CoordTensor):
        return x
    if isinstance(x, Tile | Swizzle | CoordSwizzle):
        raise UserTypeError(
            f"{what} needs a layout or an integer tuple", code="FLY-U116", value=str(x)
        )
    return normalize(x, "the tuple", none=True, basis=True)


def _as_modes(x: IntTuple) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def _single(modes: tuple[Any, ...]) -> IntTuple:
    return modes[0] if len(modes) == 1 else modes


def _rebuild(x: Any, fn: Callable[[tuple[Any, ...]], IntTuple]) -> Any:
    """Apply `fn` to the modes of a tuple, or of shape and stride alike."""
    if isinstance(x, Layout):
        return unchecked_layout(fn(_as_modes(x.shape)), fn(_as_modes(x.stride)))
    if isinstance(x, ComposedLayout):
        return x.with_outer(_rebuild(x.outer, fn))
    if isinstance(x, CoordTensor):
        return CoordTensor(x.base, _rebuild(x.layout, fn))
    return fn(_as_modes(x))


def rank(x: object) -> int:
    """Return the number of top-level modes; 1 for a leaf."""
    if isinstance(x, Layout | ComposedLayout | CoordTensor | Tile):
        return x.rank
    return len(x) if isinstance(x, tuple | list) else len(_as_modes(_tuple_or_layout(x, "rank")))


def depth(x: object) -> int:
    """Return the depth of nesting; 0 for a leaf."""
    if isinstance(x, Layout | ComposedLayout | CoordTensor):
        return x.depth
    if isinstance(x, tuple) and not x:
        return 1
    return tuple_depth(_tuple_or_layout(x, "depth"))


def get_(x: object, mode: int | Sequence[int] = ()) -> Any:
    """Return the sub-mode of a tuple or layout at `mode`, an index or a path of indices.

    Raises:
        UserError: An index is out of range.
    """
    out = x if isinstance(x, Tile) else _tuple_or_layout(x, "get_")
    path = tuple(mode) if isinstance(mode, tuple | list) else (mode,)
    for step in path:
        index = check_mode(step, rank(out))
        if isinstance(out, CoordTensor):
            out = CoordTensor(out.base, out.layout[index])
        else:
            out = (
                out
                if out is None or not isinstance(out, tuple | Layout | ComposedLayout | Tile)
                else out[index]
            )
    return out


def get(x: object, mode: int) -> Any:
    """Return one top-level mode.

    Raises:
        UserError: `mode` is out of range.
    """
    return get_(x, mode)


def _check_range(what: str, begin: object, end: object, size: int) -> tuple[int, int]:
    for bound in (begin, end):
        if isinstance(bound, bool) or not isinstance(bound, int):
            raise UserTypeError(f"{what}: a bound is not an int", code="FLY-U104", value=bound)
    assert isinstance(begin, int)
    assert isinstance(end, int)
    if not 0 <= begin < end <= size:
        raise UserValueError(
            f"{what}: the range of modes is empty or out of range",
            code="FLY-U104",
            value=(begin, end),
            allowed=f"0 <= begin < end <= {size}",
        )
    return begin, end


def take(x: object, begin: int, end: int) -> Any:
    """Return modes begin..end-1; a single one is unwrapped.

    Raises:
        UserError: The range is empty or out of range.
    """
    obj = _tuple_or_layout(x, "take")
    b, e = _check_range("take", begin, end, rank(obj))
    return _rebuild(obj, lambda modes: _single(modes[b:e]))


def select(x: object, indices: Sequence[int]) -> Any:
    """Return the modes at `indices`, in that order; a single one is unwrapped.

    Raises:
        UserError: There are no indices, or one is out of range.
    """
    obj = _tuple_or_layout(x, "select")
    if not isinstance(indices, tuple | list) or not indices or len(indices) > _MAX_RANK:
        raise UserTypeError(
            "select needs a non-empty list of modes", code="FLY-U104", value=indices
        )
    chosen = [check_mode(i, rank(obj)) for i in indices]
    return _rebuild(obj, lambda modes: _single(tuple(modes[i] for i in chosen)))


def group(x: object, begin: int, end: int) -> Any:
    """Return `x` with modes begin..end-1 nested as one mode.

    Raises:
        UserError: The range is empty or out of range.
    """
    obj = _tuple_or_layout(x, "group")
    b, e = _check_range("group", begin, end, rank(obj))
    return _rebuild(obj, lambda modes: (*modes[:b], modes[b:e], *modes[e:]))


def _padding(what: str, have: int, n: object) -> int:
    """Return how many copies of the element reach rank `n`."""
    if n is None:
        return 1
    if isinstance(n, bool) or not isinstance(n, int):
        raise UserTypeError(f"{what}: n is not an int", code="FLY-U104", value=n)
    if not have <= n <= _MAX_RANK:
        raise UserValueError(
            f"{what}: n is less than the rank or too large",
            code="FLY-U104",
            value=n,
            allowed=f"{have} to {_MAX_RANK}",
        )
    return n - have


def _extend(what: str, x: object, elem: object, n: object, front: bool) -> Any:
    obj = _tuple_or_layout(x, what)
    copies = _padding(what, rank(obj), n)
    if copies == 0:
        return obj
    if isinstance(obj, ComposedLayout):
        return obj.with_outer(_extend(what, obj.outer, elem, n, front))
    if isinstance(obj, CoordTensor):
        return CoordTensor(obj.base, _extend(what, obj.layout, elem, n, front))
    if isinstance(obj, Layout):
        if not isinstance(elem, Layout):
            raise UserTypeError(
                f"{what}: the element of a layout is a layout", code="FLY-U116", value=elem
            )
        shape = _joined(obj.shape, elem.shape, copies, front)
        return Layout(shape, _joined(obj.stride, elem.stride, copies, front))
    if isinstance(elem, Layout | ComposedLayout | CoordTensor | Tile):
        raise UserTypeError(
            f"{what}: the element of a tuple is a tuple or integer", code="FLY-U116", value=elem
        )
    return _joined(obj, normalize(elem, "the element", none=True, basis=True), copies, front)


def _joined(x: IntTuple, elem: IntTuple, copies: int, front: bool) -> tuple[Any, ...]:
    more = (elem,) * copies
    return more + _as_modes(x) if front else _as_modes(x) + more


def append(x: object, elem: object, n: int | None = None) -> Any:
    """Return `x` with `elem` as its last mode, or repeated until the rank is `n`.

    Raises:
        UserError: `elem` is of another kind than `x`, or `n` is less than the rank.
    """
    return _extend("append", x, elem, n, front=False)


def prepend(x: object, elem: object, n: int | None = None) -> Any:
    """Return `x` with `elem` as its first mode, or repeated until the rank is `n`.

    Raises:
        UserError: `elem` is of another kind than `x`, or `n` is less than the rank.
    """
    return _extend("prepend", x, elem, n, front=True)


def _coordinate(x: Any, coord: object) -> IntTuple:
    crd = normalize(coord, "the coordinate", none=True) if coord is not None else None
    ev.check_coord(crd, x if isinstance(x, tuple) or not hasattr(x, "shape") else x.shape)
    return crd


def slice(x: object, coord: object) -> Any:  # noqa: A001
    """Return the modes of `x` where `coord` is None; a single one is unwrapped.

    The fixed part of the coordinate moves the offset of a composed layout and the base of a
    coordinate tensor; of a plain layout or tuple it is dropped (see `slice_and_offset`).

    Raises:
        UserError: `coord` does not fit `x`, or fixes every mode.
    """
    obj = _tuple_or_layout(x, "slice")
    crd = _coordinate(obj, coord)
    if crd is None:
        return obj
    if isinstance(obj, Layout | ComposedLayout | CoordTensor):
        return obj.sliced(crd)
    modes = ev.slice_tuple(obj, crd)
    if not modes:
        raise ev.selection_error("slice", crd)
    return _single(modes)


def slice_and_offset(layout: Layout, coord: object) -> tuple[Layout, IntTuple]:
    """Return the sliced layout and what the fixed part of `coord` maps to.

    The offset is computed in 64 bits unless it provably fits 32.

    Raises:
        UserError: As for `slice`.
    """
    if not isinstance(layout, Layout):
        raise _not_plain("slice_and_offset", layout)
    crd = _coordinate(layout, coord)
    if crd is None:
        return layout, ev.evaluate(None, layout.shape, layout.stride)
    offset = ev.evaluate(crd, layout.shape, layout.stride)
    return layout.sliced(crd), offset


def dice(x: object, coord: object) -> Any:
    """Return the modes of `x` where `coord` holds an integer; a single one is unwrapped.

    Raises:
        UserError: `coord` does not fit `x`, or fixes no mode.
    """
    obj = _tuple_or_layout(x, "dice")
    crd = _coordinate(obj, coord)
    if crd is None or not ev.dice_tuple(crd, crd):
        raise ev.selection_error("dice", crd)
    if not isinstance(crd, tuple):
        return obj
    if isinstance(obj, ComposedLayout):
        return obj.with_outer(dice(obj.outer, crd))
    if isinstance(obj, CoordTensor):
        return CoordTensor(obj.base, dice(obj.layout, crd))
    if isinstance(obj, Layout):
        return unchecked_layout(
            _single(ev.dice_tuple(obj.shape, crd)), _single(ev.dice_tuple(obj.stride, crd))
        )
    return _single(ev.dice_tuple(obj, crd))


def _not_plain(what: str, x: object) -> UserError:
    return UserTypeError(f"{what} needs a plain layout", code="FLY-U116", value=x)


def require_integers(x: IntTuple, what: str) -> IntTuple:
    """Return `x` unless it holds None.

    Raises:
        UserError: A leaf is None.
    """
    if has_none(x):
        raise UserValueError(f"{what} holds None", code="FLY-U114", value=format_tuple(x))
    return x
