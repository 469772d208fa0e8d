"""Checks of coordinates that index a tensor: kinds, ranks and constants against the shape."""

from __future__ import annotations

import builtins
from typing import Any

from flydsl.errors import UserIndexError, UserTypeError
from flydsl.expr.layouts import IntTupleValue, tuple_value
from flydsl.expr.numeric import Numeric

__all__ = ["checked_coordinate"]

_LINEAR = frozenset({"register"})
"""Spaces where one integer may number the elements of a tensor of several modes: fragments, whose
elements have an order but whose modes are the tiling's."""
_NEUTRAL = frozenset({"generic", "global", "shared", "register"})
"""Spaces whose accesses nothing bounds; a target's own may be checked by the hardware."""


def checked_coordinate(coordinate: Any, tensor: Any) -> Any:
    """Return a coordinate with tuples for lists, checked against the shape of a tensor.

    Args:
        coordinate: Nested integers and None.
        tensor: Tensor or coordinate tensor that it indexes.

    Raises:
        UserTypeError: An entry is no integer.
        UserIndexError: A Python slice; one integer for several modes of memory; a constant that is
            negative or past the extent.
    """
    kind = tensor.kind
    space = getattr(kind, "space", None)
    layout = kind.tensor.layout if space is None else kind.layout
    shape = layout.shape
    if space is not None and _is_plain(coordinate, shape):
        return coordinate
    point = tuple_value(coordinate)
    _refuse_slices(point)
    modes = len(shape) if isinstance(shape, tuple) else 1
    if modes > 1 and space is not None and space not in _LINEAR and _is_number(point):
        names = ", ".join("ijklmnpq"[:modes]) if modes <= 8 else "…"
        raise UserIndexError(
            f"one integer indexes a tensor of {modes} modes",
            code="FLY-U250",
            value=point,
            allowed=f"one coordinate per mode: t[{names}]",
            hint="use None for a whole mode; for the element of a linear position (first mode "
            "fastest) use t[fx.idx2crd(position, compact)] with a compact layout of the shape",
        )
    if space is not None:  # coordinates past the end are what predicates are made of
        _check_constants(point, shape, bounded=space not in _NEUTRAL)
    return point


def _is_plain(coordinate: Any, shape: Any) -> bool:
    """Return whether one run-time integer or constant in range is given for each mode.

    It spares the frequent case the other checks; what it is unsure of is no plain coordinate.
    """
    if type(coordinate) is not tuple or type(shape) is not tuple or len(coordinate) != len(shape):
        return False
    for item, extent in zip(coordinate, shape, strict=True):
        if type(item) is int:
            if item < 0 or (item and not (type(extent) is int and item < extent)):
                return False
        elif not isinstance(item, Numeric) or not item.is_integer or item.is_static():
            return False
    return True


def _is_number(point: Any) -> bool:
    if isinstance(point, IntTupleValue):
        return point.is_leaf
    return point is not None and not isinstance(point, tuple)


def _constant(item: Any) -> Any:
    """Return an int that is known while tracing, the entries of a traced tuple, or None."""
    if isinstance(item, Numeric):
        return int(item) if item.is_static() and item.is_integer else None
    if isinstance(item, IntTupleValue):
        return item.kind.value
    return item if isinstance(item, (int, tuple)) and not isinstance(item, bool) else None


def _check_constants(point: Any, shape: Any, *, bounded: bool) -> None:
    number = _constant(point)
    if isinstance(number, tuple):
        if isinstance(shape, tuple) and len(number) == len(shape):
            for item, extent in zip(number, shape, strict=True):
                _check_constants(item, extent, bounded=bounded)
        return
    if not isinstance(number, int):
        return
    from flydsl import layout as algebra

    extent = algebra.int_tuple_product(shape)
    past = isinstance(extent, int) and number >= extent and not bounded
    if number < 0 or past:
        raise UserIndexError(
            "a constant index is outside the tensor",
            code="FLY-U250",
            value=number,
            allowed=f"0 to {extent - 1}" if isinstance(extent, int) else "0 and above",
            hint="negative indices do not count from the end" if number < 0 else "",
        )


def _refuse_slices(point: Any) -> None:
    if isinstance(point, tuple):
        for item in point:
            _refuse_slices(item)
    elif isinstance(point, builtins.slice):
        if point == builtins.slice(None):
            hint = "use None for a whole mode"
        else:
            hint = "tile the tensor with logical_divide or zipped_divide and pick a tile"
        raise UserIndexError(
            "tensors take no Python slices", code="FLY-U250", value=point, hint=hint
        )
    elif isinstance(point, (float, str)):
        raise UserTypeError("a coordinate is made of integers", code="FLY-U250", value=point)
