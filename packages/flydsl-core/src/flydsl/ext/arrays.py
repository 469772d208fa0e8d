"""NumPy arrays and PyTorch tensors through one set of functions, for families of ready kernels.

Neither library is imported to look at an argument: a module is looked at only if the caller has
loaded it. Types have the names that both libraries (and ``ml_dtypes``) use, such as ``bfloat16`` or
``float8_e4m3fn``. Every check raises at the line of the user who passed the argument.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import Any

from flydsl.axes import repeats_elements
from flydsl.errors import UserTypeError, UserValueError

__all__ = [
    "apart",
    "apart_from",
    "as_bytes",
    "check_dtype",
    "check_same_library",
    "check_shape",
    "check_writable",
    "contiguous",
    "differentiable",
    "dtype_name",
    "empty",
    "is_torch",
    "overlap",
    "shares_memory",
    "strides",
    "target_of",
    "zeros",
]


def is_torch(array: Any, what: str = "this") -> bool:
    """Return whether `array` is a PyTorch tensor; else it has to be a NumPy array.

    Args:
        array: The argument.
        what: Its name in the error.

    Raises:
        UserTypeError: It is neither.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return True
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(array, numpy.ndarray):
        return False
    raise UserTypeError(
        f"{what} is neither a NumPy array nor a PyTorch tensor",
        code="FLY-U540",
        value=type(array).__name__,
        allowed="numpy.ndarray, torch.Tensor",
        hint="convert it, for example with numpy.asarray or torch.as_tensor",
    )


def dtype_name(array: Any) -> str:
    """Return the element type's name, such as ``bfloat16``."""
    return str(array.dtype).rpartition(".")[2]


def differentiable(*arrays: Any) -> bool:
    """Return whether PyTorch has to see a call: to differentiate it, or to compile around it.

    Args:
        arrays: The call's arguments, the first of which says the library; any may be None.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(arrays[0], torch.Tensor):
        return False
    if torch.compiler.is_compiling():
        return True
    wanted = any(isinstance(a, torch.Tensor) and a.requires_grad for a in arrays)
    return bool(wanted and torch.is_grad_enabled())


def check_same_library(array: Any, like: Any, what: str) -> None:
    """Check that an argument is of another's library and device.

    Args:
        array: The argument.
        like: The one that it goes with.
        what: Its name in the error.

    Raises:
        UserTypeError: It is of another library, or on another device.
    """
    torch = is_torch(like)
    if is_torch(array, what) != torch or (torch and array.device != like.device):
        raise UserTypeError(
            f"{what} is of another array library, or on another device, than the input",
            code="FLY-U541",
            value=f"{type(array).__name__} on {getattr(array, 'device', 'cpu')}",
            allowed=f"{type(like).__name__} on {getattr(like, 'device', 'cpu')}",
        )


def check_shape(array: Any, shape: Sequence[int], what: str) -> None:
    """Check the shape of an argument.

    Raises:
        UserValueError: It has another one.
    """
    if tuple(array.shape) != tuple(shape):
        raise UserValueError(
            f"{what} has another shape than the operation needs",
            code="FLY-U542",
            value=tuple(array.shape),
            allowed=str(tuple(shape)),
        )


def check_dtype(array: Any, names: Collection[str], what: str) -> None:
    """Check the element type of an argument against the names allowed.

    Raises:
        UserValueError: It has another one.
    """
    if dtype_name(array) not in names:
        raise UserValueError(
            f"{what} has an element type that the operation does not take",
            code="FLY-U543",
            value=dtype_name(array),
            allowed=", ".join(names),
        )


def check_writable(array: Any, what: str) -> None:
    """Check that an array may be written, and that no two of its elements are the same memory.

    Raises:
        UserValueError: It is read-only, or repeats elements, as results of broadcasting do.
    """
    if not is_torch(array) and not array.flags.writeable:
        raise UserValueError(
            f"{what} is read-only",
            code="FLY-U545",
            value="writeable=False",
            allowed="arrays that may be written",
            hint="pass a writable array, or a copy",
        )
    if 0 not in array.shape and repeats_elements(array.shape, strides(array)):
        raise UserValueError(
            f"several elements of {what} are the same memory",
            code="FLY-U546",
            value=f"shape {tuple(array.shape)}, strides {strides(array)}",
            allowed="elements of their own",
            hint="pass an array that is not the result of broadcasting or expand()",
        )


def strides(array: Any) -> tuple[int, ...]:
    """Return the distances between neighbours of each axis, in elements."""
    if is_torch(array):
        return tuple(array.stride())
    return tuple(step // array.itemsize for step in array.strides)


def contiguous(array: Any) -> Any:
    """Return the array if its elements are adjacent in row-major order, else a copy that is so.

    Tensors that take part in autograd are detached.
    """
    if is_torch(array):
        return array.detach().contiguous()
    import numpy as np

    return np.ascontiguousarray(array)


def shares_memory(array: Any, view: Any) -> bool:
    """Return whether two arrays of one library begin at the same address."""
    if is_torch(array):
        return bool(array.data_ptr() == view.data_ptr())
    return bool(array.__array_interface__["data"][0] == view.__array_interface__["data"][0])


def _span(array: Any) -> tuple[int, int]:
    """Return the first address of an array and the one past its end; equal ones if it is empty."""
    if is_torch(array):
        start = int(array.data_ptr())
        if array.is_contiguous():
            # Not nbytes, which tensors of unknown extents do not have.
            return start, start + array.numel() * array.itemsize
    else:
        start = int(array.__array_interface__["data"][0])
    if 0 in array.shape:
        return start, start
    low, high = 0, 1
    for extent, step in zip(array.shape, strides(array), strict=True):
        reach = (int(extent) - 1) * step
        low, high = low + min(reach, 0), high + max(reach, 0)
    return start + low * array.itemsize, start + high * array.itemsize


_MOST_STEPS = 2000
"""Of the search for a common byte; what is not decided by then counts as common."""


def overlap(first: Any, second: Any) -> bool:
    """Return whether two arrays of one library have a byte in common.

    Interleaved arrays, such as columns of one matrix, have none: addresses are sums of multiples
    of the strides, and a search decides whether one of the first array is one of the second.
    """
    (start, end), (low, high) = _span(first), _span(second)
    if start >= high or low >= end or start == end or low == high:
        return False
    terms = [(1, int(first.itemsize) - 1), (1, int(second.itemsize) - 1)]
    for array in (first, second):
        for step, extent in zip(strides(array), array.shape, strict=True):
            if step and extent > 1:
                terms.append((abs(step) * int(array.itemsize), int(extent) - 1))
    # A byte start + x is high - 1 - y, where x and y are sums of 0 to n times each step.
    return _reaches(_merged(terms), high - 1 - start, [_MOST_STEPS])


def _merged(terms: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return fewer steps with the same sums, largest first: small ones fill gaps of large ones."""
    found: list[tuple[int, int]] = []
    for step, most in sorted(terms):
        if found and step % found[-1][0] == 0 and found[-1][1] >= step // found[-1][0] - 1:
            small, count = found[-1]
            found[-1] = small, count + most * (step // small)
        else:
            found.append((step, most))
    return found[::-1]


def _reaches(terms: Sequence[tuple[int, int]], total: int, left: list[int]) -> bool:
    """Return whether 0 to n times every step can add up to a total; True when out of patience."""
    left[0] -= 1
    if not terms or left[0] < 0:
        return left[0] < 0 or total == 0
    (step, most), rest = terms[0], terms[1:]
    others = sum(size * count for size, count in rest)
    least = max(0, -((others - total) // step))
    return any(
        _reaches(rest, total - count * step, left)
        for count in range(least, min(most, total // step) + 1)
    )


def apart(source: Any, out: Any, *, in_place: bool = False) -> Any:
    """Return an array that a kernel may read while it writes to another one.

    Args:
        source: What is read.
        out: What is written, of the same library.
        in_place: Whether the kernel reads an element before it writes the same one of `out`.

    Returns:
        `source`, or a copy of it if both have memory in common; with `in_place` not if they are
        the same elements in the same order.
    """
    if not overlap(source, out):
        return source
    same = shares_memory(source, out) and tuple(source.shape) == tuple(out.shape)
    if in_place and same and strides(source) == strides(out) and source.itemsize == out.itemsize:
        return source
    return source.detach().clone() if is_torch(source) else source.copy()


def apart_from(results: Sequence[Any], *sources: Any, in_place: bool = False) -> tuple[Any, ...]:
    """Return what is read, copied where it lies under a result in another way than in place.

    Args:
        results: What is written; None for new arrays.
        sources: What is read, or None.
        in_place: Whether an element of a result may be the same one of a source.
    """
    given = [result for result in results if result is not None]
    if not given:
        return sources
    found = []
    for source in sources:
        kept = source
        for result in given:
            if kept is not None and is_torch(kept) == is_torch(result):
                kept = apart(kept, result, in_place=in_place)
        found.append(kept)
    return tuple(found)


def as_bytes(array: Any) -> Any:
    """Return a view of an array of one-byte elements as unsigned bytes.

    Raises:
        UserValueError: Elements have more than one byte.
    """
    if array.itemsize != 1:
        raise UserValueError(
            "only elements of one byte can be viewed as bytes",
            code="FLY-U544",
            value=dtype_name(array),
            allowed="int8, uint8 and the 8-bit floats",
        )
    if is_torch(array):
        import torch

        return array.view(torch.uint8)
    import numpy as np

    return array.view(np.uint8)


def target_of(array: Any) -> Any:
    """Return the target (`flydsl.targets.Target`) that a launch with this array compiles for.

    Raises:
        TargetError: No target or device can be chosen.
    """
    from flydsl.compiler.driver import target_at

    return target_at(str(array.device) if is_torch(array) else "cpu")


def empty(shape: Sequence[int], dtype: str, like: Any) -> Any:
    """Return a new contiguous array of `like`'s library and device, its elements undefined.

    Args:
        shape: Extents, possibly zero.
        dtype: The element type's name; NumPy takes the small floats from ``ml_dtypes``.
        like: Says which library and device.
    """
    if is_torch(like):
        import torch

        return torch.empty(tuple(shape), dtype=getattr(torch, dtype), device=like.device)
    import numpy as np

    return np.empty(tuple(shape), _numpy_dtype(dtype))


def zeros(shape: Sequence[int], dtype: str, like: Any) -> Any:
    """Return a new contiguous array of zeros; arguments as `empty`."""
    if is_torch(like):
        import torch

        return torch.zeros(tuple(shape), dtype=getattr(torch, dtype), device=like.device)
    import numpy as np

    return np.zeros(tuple(shape), _numpy_dtype(dtype))


def _numpy_dtype(name: str) -> Any:
    import numpy as np

    try:
        return np.dtype(name)
    except TypeError:
        try:
            import ml_dtypes
        except ImportError:
            raise UserValueError(
                "NumPy has no such element type by itself",
                code="FLY-U543",
                value=name,
                hint="install the package that has it: pip install ml-dtypes",
            ) from None
        return np.dtype(getattr(ml_dtypes, name))
