"""NumPy arrays and PyTorch tensors as operands: batches of matrices with one contiguous axis.

Neither library is imported here: a module is looked at only if the caller has loaded it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from flydsl.errors import UserValueError
from flydsl.ext import arrays
from flydsl_kernels.gemm.problem import Operand, operand_of
from flydsl_rocdl.kernels.preshuffle import PreshuffledWeight

__all__ = [
    "Matrix",
    "aligned",
    "as_matrix",
    "as_output",
    "as_stack",
    "as_weights",
    "broadcast",
    "stacked",
]

__flydsl_internal__ = True  # errors are at the line of the caller

_WIDEST = 16


@dataclass(frozen=True, slots=True)
class Matrix:
    """An operand as a kernel takes it.

    Attributes:
        array: (batch, rows, k) with contiguous k, or (batch, k, rows) with contiguous rows.
        batch: Matrices in memory; 1 fits every number.
        stacked: Matrices of the array as passed, also where all of them are the same memory.
        rows: Rows of A, or columns of B.
        k: Columns of A, or rows of B.
        where: How it lies in memory.
    """

    array: Any
    batch: int
    stacked: int
    rows: int
    k: int
    where: Operand


def address(array: Any) -> int:
    """Return the address of the first element."""
    if arrays.is_torch(array):
        return int(array.data_ptr())
    return int(array.__array_interface__["data"][0])


def aligned(array: Any) -> Any:
    """Return a contiguous array whose address is a multiple of 4: itself, or a copy."""
    found = arrays.contiguous(array)
    if address(found) % 4:
        found = found.clone() if arrays.is_torch(found) else found.copy()
    return found


def _bits(steps: Sequence[int], size: int) -> int:
    """Return the bits that are set in 16 or in one of the steps, in bytes."""
    every = _WIDEST
    for step in steps:
        every |= step * size
    return every


def _power(start: int, bits: int) -> int:
    """Return the largest power of two up to 16 that divides an address and all of some steps."""
    every = start | bits
    return every & -every


def as_stack(array: Any, what: str) -> Any:
    """Return an array of two or more axes as one of three.

    Raises:
        UserTypeError: It is no array.
        UserValueError: It has fewer axes, or leading ones that cannot be merged without a copy.
    """
    torch = arrays.is_torch(array)
    if array.ndim < 2:
        raise UserValueError(
            f"{what} is no matrix", code="FLY-U911", value=tuple(array.shape),
            allowed="(rows, columns), or a batch of these",
        )  # fmt: skip
    found = array.detach() if torch else array
    if array.ndim == 2:
        return found[None]
    if array.ndim == 3:
        return found
    count = 1
    for extent in array.shape[:-2]:
        count *= int(extent)
    return found.reshape(count, array.shape[-2], array.shape[-1])


def _swapped(array: Any) -> Any:
    return array.transpose(1, 2) if arrays.is_torch(array) else array.transpose(0, 2, 1)


def as_matrix(array: Any, transposed: bool, what: str) -> Matrix:
    """Return an operand: rows of A or columns of B, and k.

    Args:
        array: The array as passed.
        transposed: Whether its last axis is not k.
        what: Its name in errors.
    """
    stack = as_stack(array, what)
    if transposed:
        stack = _swapped(stack)
    count, rows, k = stack.shape
    repeated, loose, *form = _form(tuple(stack.shape), arrays.strides(stack), stack.itemsize)
    if repeated:
        stack = stack[:1]
    if loose:
        stack = arrays.contiguous(stack)
        _, _, *form = _form(tuple(stack.shape), arrays.strides(stack), stack.itemsize)
    k_major, leading, steps = form
    found = stack if k_major else _swapped(stack)
    where = operand_of(k_major, leading, _power(address(found), steps))
    if found.itemsize == 1:
        found = arrays.as_bytes(found)
    return Matrix(found, 1 if repeated else count, count, rows, k, where)


@lru_cache(maxsize=4096)
def _form(
    shape: tuple[int, int, int], strides: tuple[int, int, int], size: int
) -> tuple[bool, bool, bool, int, int]:
    """Return how a stack (batch, rows, k) becomes an operand.

    Args:
        shape: Its extents.
        strides: Distances between neighbours, in elements.
        size: Bytes of an element.

    Returns:
        Whether all matrices are the same memory; whether no axis is contiguous, so that it is
        copied first; then as the operand has it, or its copy: whether k is contiguous, elements
        from one row, or one k, to the next, and what `_bits` returns for the distances.
    """
    batch, rows, k = shape
    by_batch, by_row, by_k = strides
    repeated = batch > 1 and by_batch == 0
    k_major = by_k == 1 or k <= 1
    if k_major and rows > 1 and by_row < k:
        k_major = False
    loose = not k_major and not (by_row == 1 and by_k >= rows)
    if k_major or loose:
        leading = by_row if rows > 1 else k
    else:
        leading = by_k if k > 1 else rows
    steps = [leading] if repeated or batch <= 1 else [leading, by_batch]
    return repeated, loose, k_major or loose, leading, _bits(steps, size)


def as_weights(weight: PreshuffledWeight) -> Matrix:
    """Return preshuffled weights as an operand (batch, N, stored k), without gaps."""
    count = 1 if weight.batch is None else weight.batch
    found = arrays.as_bytes(weight.data) if weight.data.itemsize == 1 else weight.data
    found = aligned(found)
    found = found.reshape(count, weight.n, -1)
    where = operand_of(True, 0, _power(address(found), _WIDEST), weight.layout)
    return Matrix(found, count, count, weight.n, weight.k, where)


def broadcast(array: Any, shape: Sequence[int]) -> Any:
    """Return the array repeated to a shape, without a copy."""
    if tuple(array.shape) == tuple(shape):
        return array
    if arrays.is_torch(array):
        return array.expand(tuple(shape))
    import numpy as np

    return np.broadcast_to(array, tuple(shape))


def stacked(array: Any, batch: int) -> Any:
    """Return a stack of `batch` matrices of a stack of one or as many."""
    return broadcast(array, (batch, *array.shape[1:]))


def as_output(array: Any, shape: Sequence[int], what: str) -> tuple[Any, Operand]:
    """Return an array that is written to, or read beside one, as a stack with contiguous rows.

    Args:
        array: The array.
        shape: (batch, rows, columns) that it must have.
        what: Its name in errors.

    Raises:
        UserValueError: Rows are not contiguous or overlap, or axes of the batch do not merge.
    """
    stack = as_stack(array, what)
    loose, leading, bits = _rows(tuple(shape), arrays.strides(stack), stack.itemsize)
    moved = array.ndim > 3 and 0 not in shape and not arrays.shares_memory(array, stack)
    if loose or moved:
        raise UserValueError(
            f"the rows of {what} cannot be written in place", code="FLY-U912",
            value=arrays.strides(array), allowed="contiguous rows that do not overlap",
        )  # fmt: skip
    return stack, operand_of(True, leading, _power(address(stack), bits))


@lru_cache(maxsize=4096)
def _rows(
    shape: tuple[int, ...], strides: tuple[int, int, int], size: int
) -> tuple[bool, int, int]:
    """Return whether no kernel writes to such a stack, and the last two that `_form` returns."""
    batch, rows, columns = shape
    by_batch, by_row, by_column = strides
    loose = (columns > 1 and by_column != 1) or (rows > 1 and by_row < columns)
    leading = by_row if rows > 1 else columns
    steps = [leading, by_batch] if batch > 1 else [leading]
    return loose and 0 not in shape, leading, _bits(steps, size)
