"""NumPy arrays and PyTorch tensors as matrices of rows, by means of `flydsl.ext.arrays`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any

from flydsl.axes import repeats_elements
from flydsl.errors import ConfigError, UserValueError
from flydsl.ext.arrays import (
    apart_from,
    check_dtype,
    check_same_library,
    check_shape,
    check_writable,
    contiguous,
    dtype_name,
    empty,
    is_torch,
    shares_memory,
    strides,
)
from flydsl_kernels.norm.problem import ELEMENT_BYTES, RowProblem
from flydsl_kernels.norm.selection import RowPlan

__all__ = [
    "allocate_like",
    "allocate_rows",
    "apart_rows",
    "as_vector",
    "partial_of",
    "problem_of",
    "rows_of",
]


@dataclass(frozen=True, slots=True)
class Layout:
    """What shape, strides and element type of a tensor of rows say, whatever it holds.

    Attributes:
        shape: Its extents.
        dtype: Element type's name.
        rows: Rows.
        columns: Elements of a row.
        bytes: Bytes of all elements.
        packed: There are elements, and they are adjacent in row-major order.
        standard: They are, and strides are those of a new tensor, of axes with one element too.
        matrix: The tensor is what a view of it as a matrix with contiguous rows would be.
        distinct: No two elements are the same memory.
    """

    shape: tuple[int, ...]
    dtype: str
    rows: int
    columns: int
    bytes: int
    packed: bool
    standard: bool
    matrix: bool
    distinct: bool


@lru_cache(maxsize=1024)
def _layout(shape: tuple[int, ...], steps: tuple[int, ...], dtype: Any) -> Layout | None:
    if not shape:
        return None
    usual = tuple(accumulate(shape[:0:-1], mul, initial=1))[::-1]
    filled = 0 not in shape
    packed = filled and all(
        extent == 1 or step == other
        for extent, step, other in zip(shape, steps, usual, strict=True)
    )
    # A view has the usual stride of an axis with one row.
    matrix = filled and len(shape) == 2 and steps[1] == 1 and (shape[0] > 1 or steps == usual)
    return Layout(
        tuple(shape), str(dtype).removeprefix("torch."), prod(shape[:-1]), shape[-1],
        prod(shape) * dtype.itemsize, packed, packed and steps == usual, matrix,
        packed or not repeats_elements(shape, steps),
    )  # fmt: skip


_problem = lru_cache(maxsize=1024)(RowProblem)


def _known(array: Any) -> Layout | None:
    """Return the layout of a plain tensor that needs no gradient; None of others.

    A call that has been made before looks it up, and has nothing to view, check or copy then.
    """
    torch = sys.modules.get("torch")
    if torch is None or type(array) is not torch.Tensor or array.requires_grad:
        return None
    return _layout(array.shape, array.stride(), array.dtype)


def problem_of(array: Any, operands: int = 1) -> RowProblem:
    """Return the problem that an array of rows along its last axis states.

    Raises:
        UserTypeError: It is no array.
        UserValueError: It has no axis.
        ConfigError: The rows are too long, too many, or of an unsupported type.
    """
    known = _known(array)
    if known is not None:
        return _problem(known.rows, known.columns, known.dtype, operands)
    is_torch(array)
    if not array.shape:
        raise UserValueError("rows need an array with an axis", code="FLY-U900", value=())
    return RowProblem(_rows(array), int(array.shape[-1]), dtype_name(array), operands)


def _rows(array: Any) -> int:
    rows = 1
    for extent in array.shape[:-1]:
        rows *= int(extent)
    return rows


def rows_of(array: Any, *, written: bool = False, like: Any = None, what: str = "x") -> Any:
    """Return an array as a matrix whose rows are its last axis.

    It is a view where the other axes can be merged and the last one is contiguous, so rows may be
    any distance apart; otherwise a copy.

    Args:
        array: Array or tensor of at least one axis.
        written: A kernel writes to it: then it has to be a view.
        like: An array whose library, device, shape and element type it must have.
        what: Its name in errors.

    Raises:
        UserTypeError: It is not of `like`'s library or device.
        UserValueError: It cannot be viewed, or differs from `like` in shape or element type.
    """
    known = _known(array)
    if (
        known is not None
        and (known.distinct or not written)
        and (like is None or _same_kind(array, like))
    ):
        if known.matrix:
            return array
        if known.packed:
            return array.reshape(known.rows, known.columns)
    torch = is_torch(array)
    if like is not None:
        check_same_library(array, like, what)
        check_shape(array, like.shape, what)
        check_dtype(array, (dtype_name(like),), what)
    if written:
        check_writable(array, what)
    if torch and array.requires_grad:
        array = array.detach()
    columns, count = int(array.shape[-1]), _rows(array)
    merged = array.reshape(count, columns)
    if columns == 1 or strides(array)[-1] == 1 or count == 0:
        copied = count > 0 and not shares_memory(array, merged)
    else:
        merged, copied = contiguous(merged), True
    if written and copied:
        raise UserValueError(
            f"the rows of {what} cannot be written in place",
            code="FLY-U903",
            value=strides(array),
            allowed="a contiguous last axis, and other axes that merge into one",
        )
    return merged


def _same_kind(tensor: Any, like: Any) -> bool:
    """Return whether a tensor is of another one's class, device, shape and element type."""
    return tensor is like or (
        type(tensor) is type(like)
        and tensor.shape == like.shape
        and tensor.dtype is like.dtype
        and tensor.device == like.device
    )


def apart_rows(results: tuple[Any, ...], *sources: Any, in_place: bool = False) -> tuple[Any, ...]:
    """Return what is read, copied where a result lies; arguments as of `arrays.apart_from`.

    Every array is looked at once: most are apart, or the same one.
    """
    written = [(result, *_span(result)) for result in results if result is not None]
    for source in sources:
        if source is None:
            continue
        low, high = _span(source)
        for result, start, end in written:
            if low < end and start < high and not (in_place and source is result):
                return apart_from(results, *sources, in_place=in_place)
    return sources


def _span(array: Any) -> tuple[int, int]:
    """Return the first address of a tensor and the one past its end; of others, all there are."""
    known = _known(array)
    if known is None or not known.packed:
        return -1, 1 << 64
    start = array.data_ptr()
    return start, start + known.bytes


def as_vector(array: Any, columns: int, like: Any, what: str) -> Any:
    """Return a weight or bias as a contiguous vector.

    Raises:
        ConfigError: Its element type is unsupported.
        UserTypeError: It is not of `like`'s library or device.
        UserValueError: It does not have one element per column.
    """
    known = _known(array)
    if (
        known is not None
        and known.packed
        and known.shape == (columns,)
        and known.dtype in ELEMENT_BYTES
        and type(like) is type(array)
        and like.device == array.device
    ):
        return array
    check_same_library(array, like, what)
    check_shape(array, (columns,), what)
    if dtype_name(array) not in ELEMENT_BYTES:
        raise ConfigError(
            f"{what} has an element type that the row kernels do not take",
            code="FLY-C902",
            value=dtype_name(array),
            allowed=", ".join(ELEMENT_BYTES),
        )
    return contiguous(array)


def allocate_like(array: Any) -> Any:
    """Return a new contiguous array of the same shape, type and device."""
    known = _known(array)
    if known is not None and known.standard:
        return sys.modules["torch"].empty_like(array)
    return empty(array.shape, dtype_name(array), array)


def allocate_rows(like: Any, rows: int, columns: int) -> Any:
    """Return a new f32 matrix of `like`'s library and device."""
    return empty((rows, columns), "float32", like)


def partial_of(source: Any, plan: RowPlan, lines: int) -> Any:
    """Return a matrix for `lines` numbers of every part of every row, if the plan splits rows.

    Otherwise some tensor in its place: `source` itself.
    """
    if plan.splits == 1:
        return source
    return allocate_rows(source, lines, int(source.shape[0]) * plan.splits)
