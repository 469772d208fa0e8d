"""Checks of arguments beyond those that all families share (`flydsl.ext.arrays`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from flydsl.errors import UserValueError
from flydsl.ext import arrays

__all__ = ["check_array", "check_rank", "check_written", "padded", "raw_bytes", "written"]


def check_rank(array: Any, rank: int, what: str) -> None:
    """Check the number of axes of an argument.

    Raises:
        UserValueError: It has another one.
    """
    if len(array.shape) != rank:
        raise UserValueError(
            f"{what} has another number of axes than the operation needs",
            code="FLY-U970",
            value=tuple(array.shape),
            allowed=f"{rank} axes",
        )


def check_array(
    array: Any, shape: Sequence[int], dtypes: Collection[str], like: Any, what: str
) -> Any:
    """Check library, device, shape and element type of an argument.

    Returns:
        The argument, its elements adjacent in row-major order; a copy if they are not.

    Raises:
        UserError: One of these is not as the operation needs it.
    """
    arrays.check_same_library(array, like, what)
    arrays.check_shape(array, shape, what)
    arrays.check_dtype(array, dtypes, what)
    return arrays.contiguous(array)


def check_written(
    array: Any, shape: Sequence[int], dtypes: Collection[str], like: Any, what: str
) -> Any:
    """Check an argument that is written to, and return it; see `check_array`.

    Raises:
        UserError: Also if its elements are not adjacent in row-major order.
    """
    found = check_array(array, shape, dtypes, like, what)
    arrays.check_writable(array, what)
    if not arrays.shares_memory(found, array):
        raise UserValueError(
            f"{what} cannot be written in place",
            code="FLY-U971",
            value=arrays.strides(array),
            allowed="elements adjacent in row-major order",
        )
    return found


def written(
    out: Any, shape: Sequence[int], dtype: str, like: Any, *, dtypes: Collection[str] = ()
) -> Any:
    """Return where a result is written: a new array, or `out`, checked as `check_written` does.

    Args:
        out: What was given for it; None makes a new array.
        shape: Its extents.
        dtype: Element type of a new array.
        like: Says which library and device.
        dtypes: Element types that it may have; default: `dtype`.

    Raises:
        UserError: `out` is not as the operation needs it, or `dtype` no such type.
    """
    if out is not None:
        return check_written(out, shape, dtypes or (dtype,), like, "out")
    new = arrays.empty(shape, dtype, like)
    arrays.check_dtype(new, dtypes or (dtype,), "out")
    return new


def raw_bytes(array: Any, rows: int) -> Any:
    """Return the bytes of a contiguous array as a matrix of `rows` rows.

    Args:
        array: NumPy array or PyTorch tensor.
        rows: Rows of the result; divide the number of bytes.
    """
    if arrays.is_torch(array):
        import torch

        return array.detach().view(torch.uint8).reshape(rows, array.nbytes // max(1, rows))
    import numpy as np

    flat = array.reshape(rows, array.size // max(1, rows))
    return flat.view(np.uint8)


def padded(array: Any, extents: Sequence[int]) -> Any:
    """Return an array with zeros appended along its last axes up to `extents`."""
    lead = tuple(int(extent) for extent in array.shape[: array.ndim - len(extents)])
    if tuple(array.shape[len(lead) :]) == tuple(extents):
        return array
    out = arrays.zeros((*lead, *extents), arrays.dtype_name(array), array)
    place = (..., *(slice(0, int(extent)) for extent in array.shape[len(lead) :]))
    out[place] = array
    return out
