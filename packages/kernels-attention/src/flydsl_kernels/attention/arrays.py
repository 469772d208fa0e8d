"""Brings the arguments of attention into the forms that kernels take."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserValueError
from flydsl.ext.arguments import as_number, is_number
from flydsl.ext.arrays import (
    as_bytes,
    check_dtype,
    check_same_library,
    check_shape,
    contiguous,
    dtype_name,
    is_torch,
    strides,
)

__all__ = [
    "address",
    "as_rows",
    "broadcast",
    "check_some_page",
    "indices",
    "scales",
    "written_in_place",
]

_FURTHEST = 1 << 22
"""Elements between rows at most, so that offsets within a block of rows fit 32 bits."""
_CHUNK = 8


def address(array: Any) -> int:
    """Return the address of an array's first element."""
    if is_torch(array):
        return int(array.data_ptr())
    return int(array.__array_interface__["data"][0])


def as_rows(array: Any) -> Any:
    """Return q, k or v as kernels read it, copied if its rows cannot be loaded in chunks.

    Rows are contiguous, and chunks of 8 elements of them aligned. Elements of 8 bits are bytes.
    """
    if is_torch(array):
        array = array.detach()
    step = strides(array)
    good = (
        step[-1] == 1
        and all(s >= 0 and s % _CHUNK == 0 for s in step[:-1])
        and all(int(array.shape[-1]) <= s <= _FURTHEST for s in step[1:-1])
        and address(array) % (_CHUNK * array.itemsize) == 0
    )
    if not good:
        array = contiguous(array)
        if array.shape[-1] and address(array) % (_CHUNK * array.itemsize):
            array = array.clone() if is_torch(array) else array.copy()
    return as_bytes(array) if dtype_name(array).startswith("float8") else array


def written_in_place(array: Any) -> bool:
    """Return whether kernels can write rows of an array in chunks of 4 elements."""
    step = strides(array)
    return (
        step[-1] == 1
        and all(s >= 0 and s % 4 == 0 for s in step[:-1])
        and address(array) % (4 * array.itemsize) == 0
    )


def check_some_page(table: Any, pages: int) -> None:
    """Check that a kernel has a page to read, whatever the table and the lengths on a device say.

    Raises:
        UserValueError: The table or the cache has none.
    """
    if int(table.shape[0]) and not (pages and int(table.shape[1])):
        raise UserValueError(
            "there are no pages",
            code="FLY-U949",
            value=f"block_table {tuple(table.shape)}, cache of {pages} pages",
            allowed="at least one column, and one page",
        )


def indices(array: Any, shape: tuple[int, ...], like: Any, what: str) -> Any:
    """Return an int32 array of indices, contiguous.

    Args:
        array: The array.
        shape: Extents that it must have; -1 is any.
        like: An array whose library and device it must have.
        what: Its name in errors.

    Raises:
        UserError: It is of another library, type or shape.
    """
    check_same_library(array, like, what)
    check_dtype(array, ("int32",), what)
    have = tuple(int(extent) for extent in array.shape)
    if len(have) == len(shape):
        shape = tuple(h if s < 0 else s for h, s in zip(have, shape, strict=True))
    check_shape(array, shape, what)
    return contiguous(array)


def broadcast(array: Any, shape: tuple[int, ...], what: str) -> Any:
    """Return a view of an array repeated to a shape, leading axes of one added.

    Raises:
        UserValueError: The shapes do not fit.
    """
    have = (1,) * (len(shape) - len(array.shape)) + tuple(int(n) for n in array.shape)
    fits = len(have) == len(shape) and all(n in (1, m) for n, m in zip(have, shape, strict=True))
    if not fits:
        raise UserValueError(
            f"{what} does not fit the scores",
            code="FLY-U940",
            value=tuple(array.shape),
            allowed=f"{shape}, where any extent may be 1 and leading ones absent",
        )
    if is_torch(array):
        return array.detach().reshape(have).expand(shape)
    import numpy as np

    return np.broadcast_to(array.reshape(have), shape)


def scales(value: Any, shape: tuple[int, ...], like: Any, what: str) -> Any:
    """Return f32 units per batch and head from a number or an array that is broadcast.

    Raises:
        UserError: It is of another library, type or shape.
    """
    if value is None or is_number(value):
        number = 1.0 if value is None else as_number(value, what)
        if is_torch(like):
            import torch

            value = torch.full((1,), number, dtype=torch.float32, device=like.device)
        else:
            import numpy as np

            value = np.full((1,), number, np.float32)
    check_same_library(value, like, what)
    check_dtype(value, ("float32",), what)
    return broadcast(value, shape, what)
