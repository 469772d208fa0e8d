"""Brings the arguments of attention into the forms that kernels take."""

from __future__ import annotations

import sys
from functools import lru_cache
from itertools import accumulate
from operator import mul
from typing import Any, NamedTuple

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
    "layout_of",
    "scales",
    "written_in_place",
]

_FURTHEST = 1 << 22
"""Elements between rows at most, so that offsets within a block of rows fit 32 bits."""
_CHUNK = 8


class Layout(NamedTuple):
    """What shape and strides of a tensor say, whatever it holds and wherever it is.

    Attributes:
        loaded: Whether kernels can load its rows in chunks, at an address that is aligned to them.
        stored: Whether they can store them in chunks of 4 elements likewise.
        spaced: Whether elements of rows are adjacent, and rows multiples of 8 elements apart.
        standard: Whether there are elements, and strides are those of a new tensor.
    """

    loaded: bool
    stored: bool
    spaced: bool
    standard: bool


@lru_cache(maxsize=1024)
def _layout(shape: tuple[int, ...], steps: tuple[int, ...]) -> Layout:
    usual = tuple(accumulate(shape[:0:-1], mul, initial=1))[::-1]
    return Layout(
        _loaded(shape, steps),
        _stored(steps),
        steps[-1] == 1 and all(s % _CHUNK == 0 for s in steps[:-1]),
        0 not in shape and steps == usual,
    )


def _loaded(shape: tuple[int, ...], steps: tuple[int, ...]) -> bool:
    return (
        steps[-1] == 1
        and all(s >= 0 and s % _CHUNK == 0 for s in steps[:-1])
        and all(int(shape[-1]) <= s <= _FURTHEST for s in steps[1:-1])
    )


def _stored(steps: tuple[int, ...]) -> bool:
    return steps[-1] == 1 and all(s >= 0 and s % 4 == 0 for s in steps[:-1])


def layout_of(array: Any) -> Layout | None:
    """Return the layout of a plain tensor that needs no gradient; None of others.

    A call that has been made before looks it up.
    """
    torch = sys.modules.get("torch")
    if torch is None or type(array) is not torch.Tensor or array.requires_grad:
        return None
    return _layout(array.shape, array.stride()) if array.shape else None


def address(array: Any) -> int:
    """Return the address of an array's first element."""
    if is_torch(array):
        return int(array.data_ptr())
    return int(array.__array_interface__["data"][0])


def as_rows(array: Any) -> Any:
    """Return q, k or v as kernels read it, copied if its rows cannot be loaded in chunks.

    Rows are contiguous, and chunks of 8 elements of them aligned. Elements of 8 bits are bytes.
    """
    known, size = layout_of(array), array.itemsize
    if known is not None and known.loaded and size > 1 and array.data_ptr() % (_CHUNK * size) == 0:
        return array
    if is_torch(array):
        array = array.detach()
    good = _loaded(array.shape, strides(array)) and address(array) % (_CHUNK * size) == 0
    if not good:
        array = contiguous(array)
        if array.shape[-1] and address(array) % (_CHUNK * size):
            array = array.clone() if is_torch(array) else array.copy()
    return as_bytes(array) if dtype_name(array).startswith("float8") else array


def written_in_place(array: Any) -> bool:
    """Return whether kernels can write rows of an array in chunks of 4 elements."""
    known = layout_of(array)
    stored = _stored(strides(array)) if known is None else known.stored
    return stored and address(array) % (4 * array.itemsize) == 0


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


@lru_cache(maxsize=1024)
def _fits(have: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether a shape is another one, in which -1 is any extent."""
    return len(have) == len(shape) and all(
        s < 0 or s == h for h, s in zip(have, shape, strict=True)
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
    torch = sys.modules.get("torch")
    if (
        torch is not None
        and type(array) is torch.Tensor
        and isinstance(like, torch.Tensor)
        and array.dtype is torch.int32
        and array.device == like.device
        and array.is_contiguous()
        and _fits(array.shape, shape)
    ):
        return array
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
