"""``flydsl.utils.smem_allocator``: shared memory by offsets that the kernel keeps itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flydsl.compat.device import check_smem_capacity
from flydsl.compat.operations import as_value, numeric_class
from flydsl.errors import UserIndexError, UserRuntimeError, UserTypeError, UserValueError
from flydsl.expr.ambient import KernelScope, require
from flydsl.expr.numeric import Int8, Numeric
from flydsl.expr.pointers import Pointer, add_offset, recast_iter
from flydsl.expr.shared import scratch
from flydsl.expr.storage import ArrayType
from flydsl.layout import Layout

__all__ = ["SmemAllocator", "SmemPtr"]

_ALIGNMENT = 128


def _static(value: Any) -> int | None:
    number = as_value(value)
    return int(number.value) if isinstance(number, Numeric) and number.is_static() else None


class SmemPtr:
    """Elements of one type at a byte offset of an allocator's block.

    Args:
        base: What `SmemAllocator.get_base` returned.
        byte_offset: Offset in bytes; an integer.
        element_type: Numeric class or IR type of the elements.
        shape: Extents, row-major; default: one element.
    """

    __slots__ = ("base", "byte_offset", "dtype", "shape")

    def __init__(
        self, base: Pointer, byte_offset: Any, element_type: Any, shape: Any = None
    ) -> None:
        self.base = base
        self.byte_offset = byte_offset
        self.dtype = numeric_class(element_type)
        extents = (1,) if shape is None else shape
        self.shape = tuple(extents) if isinstance(extents, (tuple, list)) else (extents,)
        offset = _static(byte_offset)
        if offset is not None and (offset < 0 or offset % max(1, self.dtype.width // 8)):
            raise UserValueError(
                "the offset is no multiple of the element's bytes",
                code="FLY-U259",
                value=offset,
                allowed=f"multiples of {self.dtype.width // 8}",
            )

    def pointer(self) -> Pointer:
        """Return the pointer to the first element.

        It is made anew every time: one that was kept from inside a loop or a branch would not be
        there after it.
        """
        typed: Pointer = add_offset(self.base, self.byte_offset)
        bits = max(8, self.dtype.width)
        if typed.alignment % (bits // 8):
            # The offset is known only at run time: count elements, whose alignment is provable.
            offset = as_value(self.byte_offset) // (bits // 8)
            return add_offset(recast_iter(self.dtype, self.base), offset)  # type: ignore[no-any-return]
        return recast_iter(self.dtype, typed)

    def get(self) -> Any:
        """Return the elements as a tensor."""
        strides = [1]
        for extent in reversed(self.shape[1:]):
            strides.insert(0, strides[0] * int(extent))
        return self.pointer().view(Layout(self.shape, tuple(strides)))

    def _at(self, indices: Any) -> Any:
        given: Sequence[Any] = () if indices is None else indices
        if not isinstance(given, (tuple, list)):
            given = (given,)
        items = list(given) or [0] * len(self.shape)
        if len(items) != len(self.shape):
            raise UserIndexError(
                "the index has another rank than the shape", code="FLY-U245", value=indices,
                allowed=f"{len(self.shape)} entries",
            )  # fmt: skip
        known = [_static(item) for item in items]
        return tuple(
            as_value(item) if static is None else static
            for item, static in zip(items, known, strict=True)
        )

    def load(self, indices: Any = None) -> Any:
        """Load one element; default: the first."""
        return self.get()[self._at(indices)]

    def store(self, value: Any, indices: Any = None) -> None:
        """Store one element; default: the first."""
        self.get()[self._at(indices)] = as_value(value).to(self.dtype)


class SmemAllocator:
    """Counts bytes of one block of shared memory before the kernel is traced.

    Args:
        ctx: Ignored.
        arch: Architecture whose capacity bounds the block; default: that of the trace.
        global_sym_name: Name for messages.

    Attributes:
        ptr: Bytes counted so far; kernels may advance it themselves.
    """

    def __init__(
        self, ctx: Any = None, arch: str | None = None, global_sym_name: str = "smem"
    ) -> None:
        del ctx
        self.arch = arch
        self.name = global_sym_name
        self.ptr = 0
        self._made: tuple[KernelScope, Pointer, int] | None = None

    @staticmethod
    def _align(offset: int, alignment: int) -> int:
        return -(-offset // alignment) * alignment

    def allocate(self, size: Any, alignment: int = 16) -> int:
        """Count `size` bytes, or those of a numeric class; return their offset."""
        if not isinstance(size, int):
            size = numeric_class(size).width // 8
        if size <= 0:
            raise UserValueError("an allocation has at least one byte", code="FLY-U259", value=size)
        offset = self._align(self.ptr, alignment)
        self.ptr = offset + size
        return offset

    def allocate_array(self, dtype: Any, count: int) -> Callable[[Pointer], SmemPtr]:
        """Count an array; return what makes its `SmemPtr` of the base, in the kernel."""
        kind = numeric_class(dtype)
        offset = self.allocate(count * kind.width // 8, max(16, kind.width // 8))
        return lambda base: SmemPtr(base, offset, kind, (count,))

    def get_base(self) -> Pointer:
        """Return the block of the kernel being traced.

        Raises:
            UserRuntimeError: Outside a kernel.
            UserValueError: Nothing was counted, or more was since the block was made.
        """
        session = require("SmemAllocator.get_base")
        scope = session.kernel
        if scope is None:
            raise UserRuntimeError("shared memory is allocated inside a kernel", code="FLY-U253")
        if self._made is not None and self._made[0] is scope:
            if self.ptr > self._made[2]:
                raise UserValueError(
                    f"{self.name} grew after get_base()", code="FLY-U259", value=self.ptr,
                    allowed=f"{self._made[2]} bytes", hint="allocate everything first",
                )  # fmt: skip
            return self._made[1]
        if self.ptr <= 0:
            raise UserValueError(f"nothing was allocated in {self.name}", code="FLY-U259")
        if self.arch is not None:
            check_smem_capacity(self.ptr, self.arch)
        # It is made at the kernel's beginning, so that it is there wherever the base is used.
        # Loads of neighbours may be joined up to the alignment.
        size = self._align(self.ptr, _ALIGNMENT)
        base: Pointer = scratch(self, ArrayType(Int8, size, _ALIGNMENT)).ptr
        self._made = scope, base, self.ptr
        return base

    def finalize(self) -> None:
        """Check that the kernel's block holds what was counted.

        Raises:
            UserValueError: It does not.
        """
        if self._made is not None and self.ptr > self._made[2]:
            raise UserTypeError(
                f"{self.name} grew after get_base()", code="FLY-U259", value=self.ptr,
                allowed=f"{self._made[2]} bytes", hint="allocate everything first",
            )  # fmt: skip
