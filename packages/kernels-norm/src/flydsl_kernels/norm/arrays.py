"""NumPy arrays and PyTorch tensors as matrices of rows.

Neither library is imported here: a module is looked at only if the caller has loaded it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from flydsl.errors import ConfigError, UserTypeError, UserValueError
from flydsl_kernels.norm.problem import ELEMENT_BYTES, RowProblem

__all__ = [
    "allocate_like",
    "allocate_rows",
    "allocate_small",
    "as_vector",
    "check_shape",
    "dtype_name",
    "is_torch",
    "problem_of",
    "rows_of",
]


def is_torch(array: Any) -> bool:
    """Return whether `array` is a PyTorch tensor; else it has to be a NumPy array.

    Raises:
        UserTypeError: It is neither.
    """
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(array, torch.Tensor):
        return True
    if numpy is not None and isinstance(array, numpy.ndarray):
        return False
    raise UserTypeError(
        "this is neither a NumPy array nor a PyTorch tensor",
        code="FLY-U900",
        value=type(array).__name__,
    )


def dtype_name(array: Any) -> str:
    """Return the element type's name, such as ``bfloat16``."""
    return str(array.dtype).rpartition(".")[2]


def _same_kind(array: Any, like: Any, what: str) -> None:
    if is_torch(array) != is_torch(like) or (is_torch(like) and array.device != like.device):
        raise UserTypeError(
            f"{what} is of another array library, or on another device, than the input",
            code="FLY-U904",
            value=f"{type(array).__name__} on {getattr(array, 'device', 'cpu')}",
        )


def check_shape(array: Any, shape: Sequence[int], what: str) -> None:
    """Check the shape of an argument.

    Raises:
        UserValueError: It has another one.
    """
    if tuple(array.shape) != tuple(shape):
        raise UserValueError(
            f"{what} has another shape than the operation needs",
            code="FLY-U901",
            value=tuple(array.shape),
            allowed=str(tuple(shape)),
        )


def problem_of(array: Any, operands: int = 1) -> RowProblem:
    """Return the problem that an array of rows along its last axis states.

    Raises:
        UserValueError: It has no axis.
        ConfigError: The rows are too long, too many, or of an unsupported type.
    """
    is_torch(array)
    if not array.shape:
        raise UserValueError("rows need an array with an axis", code="FLY-U901", value=())
    rows = 1
    for extent in array.shape[:-1]:
        rows *= int(extent)
    return RowProblem(rows, int(array.shape[-1]), dtype_name(array), operands)


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
    torch = is_torch(array)
    if like is not None:
        _same_kind(array, like, what)
        check_shape(array, like.shape, what)
        if array.dtype != like.dtype:
            raise UserValueError(
                f"{what} has another element type than the input",
                code="FLY-U902",
                value=dtype_name(array),
                allowed=dtype_name(like),
            )
    if torch and array.requires_grad:
        array = array.detach()
    columns = int(array.shape[-1])
    count = 1
    for extent in array.shape[:-1]:
        count *= int(extent)
    step = array.stride(-1) if torch else array.strides[-1] // array.itemsize
    merged = array.reshape(count, columns)
    if columns == 1 or step == 1 or count == 0:
        copied = not _shares(array, merged, torch) and count > 0
    else:
        merged, copied = _contiguous(merged, torch), True
    if written and copied:
        raise UserValueError(
            f"the rows of {what} cannot be written in place",
            code="FLY-U903",
            value=tuple(array.stride()) if torch else array.strides,
            allowed="a contiguous last axis, and other axes that merge into one",
        )
    return merged


def _contiguous(array: Any, torch: bool) -> Any:
    if torch:
        return array.contiguous()
    import numpy as np

    return np.ascontiguousarray(array)


def _shares(array: Any, view: Any, torch: bool) -> bool:
    if torch:
        return bool(array.data_ptr() == view.data_ptr())
    return bool(array.__array_interface__["data"][0] == view.__array_interface__["data"][0])


def as_vector(array: Any, columns: int, like: Any, what: str) -> Any:
    """Return a weight or bias as a contiguous vector.

    Raises:
        ConfigError: Its element type is unsupported.
        UserTypeError: It is not of `like`'s library or device.
        UserValueError: It does not have one element per column.
    """
    _same_kind(array, like, what)
    check_shape(array, (columns,), what)
    if dtype_name(array) not in ELEMENT_BYTES:
        raise ConfigError(
            f"{what} has an element type that the row kernels do not take",
            code="FLY-C902",
            value=dtype_name(array),
            allowed=", ".join(ELEMENT_BYTES),
        )
    torch = is_torch(array)
    return _contiguous(array.detach() if torch else array, torch)


def allocate_like(array: Any) -> Any:
    """Return a new contiguous array of the same shape, type and device."""
    if is_torch(array):
        import torch

        return torch.empty(array.shape, dtype=array.dtype, device=array.device)
    import numpy as np

    return np.empty(array.shape, array.dtype)


def allocate_rows(like: Any, rows: int, columns: int) -> Any:
    """Return a new f32 matrix of `like`'s library and device."""
    if is_torch(like):
        import torch

        return torch.empty((rows, columns), dtype=torch.float32, device=like.device)
    import numpy as np

    return np.empty((rows, columns), np.float32)


def allocate_small(like: Any, dtype: str) -> Any:
    """Return a new array of `like`'s library, shape and device, of an 8-bit type."""
    if is_torch(like):
        import torch

        return torch.empty(like.shape, dtype=getattr(torch, dtype), device=like.device)
    import numpy as np

    if dtype == "int8":
        return np.empty(like.shape, np.int8)
    import ml_dtypes

    return np.empty(like.shape, getattr(ml_dtypes, dtype))
