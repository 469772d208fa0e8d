"""Buffer tensors: tensors whose accesses the hardware checks against their extent.

A load outside gives zero and a store outside is dropped, without a branch. Offsets from a buffer
pointer have 32 bits, so at most 4 GiB can be reached from one base; tensors that may be longer have
their base moved (`make_buffer_tensor`).
"""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.layout_functions import cosize, get_iter, get_layout
from flydsl.expr.numeric import Int64, as_numeric
from flydsl.expr.pointers import Pointer, PointerType, make_ptr, make_view
from flydsl_rocdl.atoms.buffers import BufferCopy
from flydsl_rocdl.expr.access import amd_facts

__all__ = [
    "BufferCopy",
    "BufferCopy8b",
    "BufferCopy16b",
    "BufferCopy32b",
    "BufferCopy64b",
    "BufferCopy128b",
    "make_buffer_ptr",
    "make_buffer_tensor",
]


def BufferCopy8b(cache_modifier: int = 0) -> BufferCopy:  # noqa: N802
    """Return the copy of 8 bits per lane."""
    return BufferCopy(8, cache_modifier)


def BufferCopy16b(cache_modifier: int = 0) -> BufferCopy:  # noqa: N802
    """Return the copy of 16 bits per lane."""
    return BufferCopy(16, cache_modifier)


def BufferCopy32b(cache_modifier: int = 0) -> BufferCopy:  # noqa: N802
    """Return the copy of 32 bits per lane."""
    return BufferCopy(32, cache_modifier)


def BufferCopy64b(cache_modifier: int = 0) -> BufferCopy:  # noqa: N802
    """Return the copy of 64 bits per lane."""
    return BufferCopy(64, cache_modifier)


def BufferCopy128b(cache_modifier: int = 0) -> BufferCopy:  # noqa: N802
    """Return the copy of 128 bits per lane."""
    return BufferCopy(128, cache_modifier)


def make_buffer_ptr(ptr: Any, num_records_bytes: Any = None) -> Pointer:
    """Return a buffer pointer to the same memory.

    Args:
        ptr: A pointer to global memory.
        num_records_bytes: Bytes from the pointer that may be accessed; None is unbounded.

    Raises:
        UserValueError: The pointer is in another space, or the extent does not fit 32 bits.
        UserTypeError: The extent is no integer.
    """
    limit = amd_facts("make_buffer_ptr").buffer.max_records
    if not isinstance(ptr, Pointer) or ptr.kind.space != "global":
        raise UserValueError(
            "a buffer pointer is made from a pointer to global memory", code="FLY-U633", value=ptr
        )
    kind = PointerType.get(ptr.element, "buffer", ptr.alignment)
    if num_records_bytes is None:
        return make_ptr(kind, (ptr,))
    number = as_numeric(num_records_bytes)
    if number is None or not number.is_integer:
        raise UserTypeError(
            "the extent of a buffer is an integer number of bytes",
            code="FLY-U634",
            value=num_records_bytes,
        )
    if number.is_static() and not 0 <= int(number) <= limit:
        raise UserValueError(
            "a buffer cannot have this many bytes",
            code="FLY-U635",
            value=int(number),
            allowed=f"0 to {limit}",
        )
    return make_ptr(kind, (ptr, Int64(number).ir_value()))


def make_buffer_tensor(
    tensor: Any, max_size: bool | None = None, *, num_records_bytes: Any = None
) -> Any:
    """Return the tensor with the same layout on a buffer pointer.

    Args:
        tensor: A tensor in global memory.
        max_size: None and False bound the buffer by the layout, True leaves it unbounded.
        num_records_bytes: Explicit bound in bytes, which wins; offsets then have 32 bits.

    A tensor bounded by a layout that is not known to end within 4 GiB is addressed with 64 bits:
    the wave-uniform part of an offset moves the descriptor's base, and where the rest may leave the
    descriptor's reach, the access becomes a compared global one. Both are exact for any size.

    Raises:
        UserError: The tensor is not in global memory, or the explicit bound does not fit 32 bits.
    """
    limit = amd_facts("make_buffer_tensor").buffer.max_records
    layout, pointer = get_layout(tensor), get_iter(tensor)
    if num_records_bytes is not None or max_size:
        return make_view(make_buffer_ptr(pointer, num_records_bytes), layout)
    size = cosize(layout)
    scalar = size.__fly_scalar__() if hasattr(size, "__fly_scalar__") else size
    width = pointer.element.width
    extent = (Int64(scalar) * width + 7) // 8 if width < 8 else Int64(scalar) * (width // 8)
    if extent.is_static() and int(extent) <= limit:
        return make_view(make_buffer_ptr(pointer, extent), layout)
    return make_view(_wide_ptr(pointer, extent), layout)


def _wide_ptr(pointer: Any, extent: Int64) -> Pointer:
    """Return a pointer whose accesses are checked against `extent` bytes of any number."""
    if not isinstance(pointer, Pointer) or pointer.kind.space != "global":
        raise UserValueError(
            "a buffer pointer is made from a pointer to global memory",
            code="FLY-U633",
            value=pointer,
        )
    kind = PointerType.get(pointer.element, "wide_buffer", pointer.alignment)
    return make_ptr(kind, (pointer, extent.ir_value()))
