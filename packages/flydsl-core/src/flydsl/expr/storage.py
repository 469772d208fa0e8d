"""Typed storage in memory: `Array`, `Storage`, and how many bytes a type takes."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.layouts import scalar_result
from flydsl.expr.numeric import Numeric, as_numeric
from flydsl.expr.pointers import Pointer, make_view, recast_iter
from flydsl.expr.stored import loaded
from flydsl.expr.vector import VectorAlias

__all__ = [
    "Align",
    "AlignedType",
    "Array",
    "ArrayType",
    "Storage",
    "open_storage",
    "size_and_align",
]


class ArrayType:
    """``fx.Array[T, n]`` or ``fx.Array[T, n, alignment]``: `n` elements of type `T` in memory.

    Attributes:
        element: Numeric class, vector type or another array type.
        length: Number of elements.
        alignment: Bytes.
    """

    __slots__ = ("alignment", "element", "length")

    def __init__(self, element: Any, length: Any, alignment: Any = None) -> None:
        _, natural = size_and_align(element)
        if not isinstance(length, int) or isinstance(length, bool) or length < 1:
            raise UserValueError(
                "an array has a positive, compile-time length", code="FLY-U257", value=length
            )
        self.element = element
        self.length = length
        self.alignment = natural if alignment is None else checked_alignment(alignment, natural)

    def __repr__(self) -> str:
        return f"fx.Array[{self.element!r}, {self.length}, {self.alignment}]"


class AlignedType:
    """``fx.Align[T, n]``: the type `T` placed at a multiple of `n` bytes."""

    __slots__ = ("alignment", "inner")

    def __init__(self, inner: Any, alignment: Any) -> None:
        _, natural = size_and_align(inner)
        self.inner = inner
        self.alignment = checked_alignment(alignment, natural)

    def __repr__(self) -> str:
        return f"fx.Align[{self.inner!r}, {self.alignment}]"


class Align:
    """``fx.Align[T, n]`` raises the alignment of a type to `n` bytes, a power of two."""

    def __class_getitem__(cls, parameters: Any) -> AlignedType:
        return AlignedType(*parameters)


def checked_alignment(alignment: Any, natural: int) -> int:
    """Return an alignment in bytes.

    Raises:
        UserTypeError: It is no int.
        UserValueError: It is no power of two, or less than the natural one.
    """
    if not isinstance(alignment, int) or isinstance(alignment, bool):
        raise UserTypeError("an alignment is an int", code="FLY-U257", value=alignment)
    if alignment < natural or alignment & (alignment - 1):
        raise UserValueError(
            "an alignment is a power of two, not below that of the type",
            code="FLY-U257",
            value=alignment,
            allowed=f"{natural}, {2 * natural}, {4 * natural}, …",
        )
    return alignment


def size_and_align(kind: Any) -> tuple[int, int]:
    """Return the bytes that a type takes in memory, and its alignment in bytes.

    Raises:
        UserTypeError: The type cannot be stored (it does not fill whole bytes, or is no type).
    """
    if isinstance(kind, type) and issubclass(kind, Numeric) and kind.ir_text:
        if not kind.storable:
            raise UserTypeError(
                f"{kind!r} does not fill whole bytes, so single ones cannot be stored",
                code="FLY-U257",
                hint="store a packed vector of it, or convert to a wider class",
            )
        return kind.width // 8, kind.width // 8
    if isinstance(kind, VectorAlias):
        if kind.width % 8 or kind.dtype.is_index:
            raise UserTypeError(f"{kind!r} does not fill whole bytes", code="FLY-U257")
        return kind.width // 8, max(1, kind.dtype.width // 8)
    if isinstance(kind, ArrayType):
        return kind.length * size_and_align(kind.element)[0], kind.alignment
    if isinstance(kind, AlignedType):
        return size_and_align(kind.inner)[0], kind.alignment
    raise UserTypeError(
        "this type cannot be stored in memory",
        code="FLY-U257",
        value=kind,
        allowed="numeric classes of whole bytes, vector types, fx.Array, fx.Align",
    )


class Array:
    """Elements in memory, indexed from zero; run-time indices are not checked.

    ``fx.Array[T, n]`` is the type; allocators return handles of this class.

    Attributes:
        ptr: Pointer to the first element.
        kind: The array type.
    """

    __slots__ = ("kind", "ptr")

    def __init__(self, ptr: Pointer, kind: ArrayType) -> None:
        self.ptr = ptr
        self.kind = kind

    def __class_getitem__(cls, parameters: Any) -> ArrayType:
        return ArrayType(*(parameters if isinstance(parameters, tuple) else (parameters,)))

    def __len__(self) -> int:
        return self.kind.length

    def _place(self, index: Any) -> Any:
        number = as_numeric(index)
        if number is None or not number.is_integer:
            raise UserTypeError("an array is indexed by integers", code="FLY-U258", value=index)
        if number.is_static() and not 0 <= number.value < self.kind.length:
            raise UserValueError(
                "the index is outside the array",
                code="FLY-U258",
                value=int(number.value),
                allowed=f"0 to {self.kind.length - 1}",
            )
        element = self.kind.element
        if isinstance(element, type) and issubclass(element, Numeric):
            return self.ptr + scalar_result(index)
        size, _ = size_and_align(element)
        step = size // max(1, self.ptr.element.width // 8)
        return open_storage(self.ptr + number * step, element)

    def peek(self) -> Array:
        """Return the array itself, whose value is its place: `Storage.peek` of an array type."""
        return self

    def __getitem__(self, index: Any) -> Any:
        """Load an element; of an array of arrays, return the inner array."""
        place = self._place(index)
        if isinstance(place, Pointer):
            return place.load()
        return place.peek() if isinstance(place, Storage) else place

    def __setitem__(self, index: Any, value: Any) -> None:
        """Store an element.

        Raises:
            UserTypeError: The value is not of the element type.
        """
        place = self._place(index)
        if isinstance(place, Array):
            raise UserTypeError("an array is not assigned as a whole", code="FLY-U258")
        place.store(value) if isinstance(place, Pointer) else place.poke(value)

    def view(self, layout: Any) -> Any:
        """Return the tensor over the array's elements with `layout`.

        Raises:
            UserTypeError: The elements are no numbers.
        """
        element = self.kind.element
        if not (isinstance(element, type) and issubclass(element, Numeric)):
            raise UserTypeError(
                "only arrays of numbers can be viewed", code="FLY-U258", value=element
            )
        return make_view(self.ptr, layout)

    def __fly_values__(self) -> list[Any]:
        return self.ptr.__fly_values__()

    def __fly_rebuild__(self, values: list[Any]) -> Array:
        return Array(self.ptr.__fly_rebuild__(values), self.kind)

    def __fly_key__(self) -> object:
        return (repr(self.kind), str(self.ptr.kind))


class Storage:
    """One value in memory.

    Attributes:
        ptr: Its address.
        kind: Numeric class or vector type.
    """

    __slots__ = ("kind", "ptr")

    def __init__(self, ptr: Pointer, kind: Any) -> None:
        self.ptr = ptr
        self.kind = kind

    def peek(self) -> Any:
        """Load the value."""
        if isinstance(self.kind, VectorAlias):
            from flydsl.dialects import fly
            from flydsl.expr.emit import located

            with located():
                return loaded(fly.ptr_load(self.ptr.value, self.kind.ir_type), self.kind)
        return self.ptr.load()

    def poke(self, value: Any) -> None:
        """Store a value.

        Raises:
            UserTypeError: It has another type.
        """
        if isinstance(self.kind, VectorAlias):
            value = self.kind(value) if isinstance(value, (list, tuple, int, float)) else value
        self.ptr.store(value)


def open_storage(ptr: Pointer, kind: Any) -> Any:
    """Return the handle of a type at an address: `Array` or `Storage`."""
    while isinstance(kind, AlignedType):
        kind = kind.inner
    scalar: Any = kind
    while not (isinstance(scalar, type) and issubclass(scalar, Numeric)):
        scalar = scalar.dtype if isinstance(scalar, VectorAlias) else scalar.element
    typed = ptr if ptr.element is scalar else recast_iter(scalar, ptr)
    return Array(typed, kind) if isinstance(kind, ArrayType) else Storage(typed, kind)
