"""Checks and launches of rotations, without PyTorch's knowledge."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from flydsl.errors import UserValueError
from flydsl.ext import arrays
from flydsl.ext.arguments import as_integer
from flydsl_kernels.attention.arrays import layout_of
from flydsl_kernels.attention.rotary import RotationPlan, plan_rotation

__all__ = [
    "FLOATS",
    "POSITIONS",
    "address_of",
    "checked_tables",
    "planned",
    "rotated",
    "run_rope",
    "token_heads",
]

__flydsl_internal__ = True  # errors are at the line of the caller

FLOATS = ("float32", "float16", "bfloat16")
POSITIONS = ("int32", "int64")
_WIDEST = 16
"""Elements of the widest vector: larger powers of two that divide distances do not count."""


def token_heads(x: Any, what: str, *, written: bool = False) -> Any:
    """Return heads of tokens as an array [tokens, heads, head_dim] with contiguous heads.

    Args:
        x: Array [..., heads, head_dim].
        what: Its name in errors.
        written: A kernel writes to it: then it has to be a view.

    Raises:
        UserValueError: Too few axes, another element type, or no view.
    """
    arrays.is_torch(x)
    if len(x.shape) < 2:
        raise UserValueError(
            f"{what} has too few axes",
            code="FLY-U955",
            value=tuple(x.shape),
            allowed="[..., heads, head_dim]",
        )
    arrays.check_dtype(x, FLOATS, what)
    known = layout_of(x)
    if known is not None and known.standard:
        return x if len(x.shape) == 3 else x.reshape(-1, *x.shape[-2:])
    if written:
        arrays.check_writable(x, what)
    if arrays.is_torch(x):
        x = x.detach()
    tokens = 1
    for extent in x.shape[:-2]:
        tokens *= int(extent)
    merged = x.reshape(tokens, *x.shape[-2:])
    empty = 0 in merged.shape
    adjacent = arrays.strides(merged)[-1] == 1 or merged.shape[-1] == 1 or empty
    viewed = empty or arrays.shares_memory(x, merged)
    if written and not (adjacent and viewed):
        raise UserValueError(
            f"{what} cannot be written in place",
            code="FLY-U956",
            value=arrays.strides(x),
            allowed="contiguous heads, and leading axes that merge into one",
        )
    return merged if adjacent else arrays.contiguous(merged)


def rotated(cos: Any, rotary_dim: int | None) -> int | None:
    """Return how many elements of a head are rotated: as given, or twice the table's columns.

    Raises:
        UserTypeError: It is given, and no integer.
    """
    if rotary_dim is not None:
        return as_integer(rotary_dim, "rotary_dim")
    return 2 * int(cos.shape[1]) if len(cos.shape) == 2 else None


def checked_tables(
    cos: Any, sin: Any, positions: Any, like: Any, tokens: int, rotary_dim: int | None
) -> tuple[Any, Any, Any, int, bool]:
    """Check the tables of angles and the positions.

    Returns:
        Cosines, sines, positions as a vector or None, `rotary_dim`, and whether the tables have a
        column per element instead of one per pair.

    Raises:
        UserTypeError: Another library or device than `like`.
        UserValueError: Shapes or types that do not fit.
    """
    for table, what in ((cos, "cos"), (sin, "sin")):
        arrays.check_same_library(table, like, what)
        arrays.check_dtype(table, FLOATS, what)
    columns = int(cos.shape[-1]) if len(cos.shape) == 2 else 0
    if rotary_dim is None:
        rotary_dim = 2 * columns
    if columns not in {rotary_dim, rotary_dim // 2} or not columns:
        raise UserValueError(
            "the table of cosines has another shape than the rotation needs",
            code="FLY-U957",
            value=tuple(cos.shape),
            allowed=f"[positions, {rotary_dim // 2}] or [positions, {rotary_dim}]",
        )
    arrays.check_shape(sin, cos.shape, "sin")
    if sin.dtype is not cos.dtype:
        arrays.check_dtype(sin, (arrays.dtype_name(cos),), "sin")
    if positions is not None:
        arrays.check_same_library(positions, like, "positions")
        arrays.check_dtype(positions, POSITIONS, "positions")
        positions = positions.reshape(-1)
        arrays.check_shape(positions, (tokens,), "positions")
    elif int(cos.shape[0]) < tokens:
        raise UserValueError(
            "the tables have fewer positions than there are tokens",
            code="FLY-U958",
            value=int(cos.shape[0]),
            allowed=f"at least {tokens}, or positions=",
        )
    return _packed(cos), _packed(sin), positions, rotary_dim, columns == rotary_dim


def _packed(table: Any) -> Any:
    known = layout_of(table)
    return table if known is not None and known.standard else arrays.contiguous(table)


@lru_cache(maxsize=512, typed=True)
def _plan(
    head_dim: int, rotary_dim: int, style: str, distance: int, itemsize: int, whole_table: bool,
    positions: bool,
) -> RotationPlan:  # fmt: skip
    """Return the plan of a rotation, of equal ones the same object."""
    return plan_rotation(
        head_dim, rotary_dim, style, distances=(distance,), itemsize=itemsize,
        whole_table=whole_table, positions=positions,
    )  # fmt: skip


def planned(
    operands: tuple[Any, ...], tables: tuple[Any, ...], style: str, extra: tuple[Any, ...] = ()
) -> RotationPlan:
    """Return the plan for heads of several arrays.

    Args:
        operands: Arrays [tokens, heads, head_dim], sources and results.
        tables: What `checked_tables` returned.
        style: ``"neox"`` or ``"gptj"``.
        extra: Other arrays that vectors are stored to, with contiguous last axes.
    """
    cos, sin, positions, rotary_dim, whole = tables
    distance = _WIDEST
    for array in (*operands, *extra, cos, sin):
        place = address_of(array) // array.itemsize
        distance = math.gcd(distance, place, *arrays.strides(array)[:-1])
    itemsize = max([array.itemsize for array in (*operands, *extra)])
    return _plan(
        int(operands[0].shape[-1]), rotary_dim, style, distance, itemsize, whole,
        positions is not None,
    )  # fmt: skip


def address_of(array: Any) -> int:
    """Return where an array begins, in bytes."""
    if arrays.is_torch(array):
        return int(array.data_ptr())
    return int(array.__array_interface__["data"][0])


def run_rope(
    x: Any,
    cos: Any,
    sin: Any,
    positions: Any,
    *,
    style: str,
    rotary_dim: int | None,
    out: Any = None,
    stream: Any = None,
) -> Any:
    """Rotate without PyTorch's knowledge; arguments and result as of `rope`."""
    from flydsl_kernels.attention.device.rope import launch_rope

    if out is not None:
        (x,) = arrays.apart_from((out,), x, in_place=True)
        cos, sin, positions = arrays.apart_from((out,), cos, sin, positions)
    source = token_heads(x, "x")
    tables = checked_tables(cos, sin, positions, x, int(source.shape[0]), rotary_dim)
    if out is None:
        out = arrays.empty(x.shape, arrays.dtype_name(x), x)
    else:
        arrays.check_same_library(out, x, "out")
        arrays.check_shape(out, x.shape, "out")
        arrays.check_dtype(out, (arrays.dtype_name(x),), "out")
    result = token_heads(out, "out", written=True)
    plan = planned((source, result), tables, style)
    if 0 not in source.shape:
        given = tables[2] if plan.positions else tables[0][:, 0]
        launch_rope(source, tables[0], tables[1], given, result, plan, stream)
    return out
