"""Typed storage in memory: `Array`, `Storage`, and how many bytes a type takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flydsl.errors import UserAttributeError, UserTypeError, UserValueError
from flydsl.expr.layouts import scalar_result
from flydsl.expr.numeric import BY_TEXT, Numeric, as_numeric
from flydsl.expr.pointers import Pointer, PointerType, inttoptr, make_view, ptrtoint, recast_iter
from flydsl.expr.stored import loaded
from flydsl.expr.vector import VectorAlias

__all__ = [
    "Align",
    "AlignedType",
    "Array",
    "ArrayType",
    "Storage",
    "StructStorage",
    "field_places",
    "is_struct_type",
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
        size = size_and_align(kind.inner)[0]
        # As in C, the size of a struct is a multiple of its alignment.
        padded = -(-size // kind.alignment) * kind.alignment
        return (padded if is_struct_type(kind.inner) else size), kind.alignment
    if isinstance(kind, PointerType):
        width = 4 if kind.space == "shared" else 8
        return width, width
    if is_struct_type(kind):
        end, most = 0, 1
        for field, offset in field_places(kind):
            size, alignment = size_and_align(field.kind)
            end, most = max(end, offset + size), max(most, alignment)
        return -(-end // most) * most, most
    raise UserTypeError(
        "this type cannot be stored in memory",
        code="FLY-U257",
        value=kind,
        allowed="numeric classes of whole bytes, vector types, fx.Array, fx.Align, pointer types, "
        "structs, unions",
    )


def is_struct_type(kind: Any) -> bool:
    """Return whether a type was made by `struct` or `union`."""
    return isinstance(kind, type) and hasattr(kind, "is_union")


def field_places(kind: Any) -> Iterator[tuple[Any, int]]:
    """Yield the fields of a struct or union that are in memory, and their offsets in bytes."""
    offset = 0
    for field in kind.fields:
        if field.constexpr:
            continue
        if field.optional and not isinstance(field.kind, PointerType):
            raise UserTypeError(
                f"{kind.__name__} has a field that may be None, and cannot be stored in memory",
                code="FLY-U257",
                value=str(field),
                hint="store a struct without it, and a number that tells whether there is one",
            )
        size, alignment = size_and_align(field.kind)
        offset = 0 if kind.is_union else -(-offset // alignment) * alignment
        yield field, offset
        offset += size


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
        if is_numeric(element):
            return self.ptr + scalar_result(index)
        size, alignment = size_and_align(element)
        carrier = _carrier(alignment)
        base = self.ptr if is_numeric(element) else _recast(self.ptr, carrier)
        return open_storage(base + number * (size // (carrier.width // 8)), element)

    def peek(self) -> Array:
        """Return the array itself, whose value is its place: `Storage.peek` of an array type."""
        return self

    def __getitem__(self, index: Any) -> Any:
        """Load an element; of an array of arrays, return the inner array."""
        place = self._place(index)
        if isinstance(place, Pointer):
            return place.load()
        return place.peek() if isinstance(place, Storage) else place

    def at(self, index: Any) -> Any:
        """Return the handle of an element: `Storage`, or `Array` for an array of arrays."""
        place = self._place(index)
        return Storage(place, self.kind.element) if isinstance(place, Pointer) else place

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

    def __fly_values__(self) -> list[Any]:
        return self.ptr.__fly_values__()

    def __fly_rebuild__(self, values: list[Any]) -> Any:
        return open_storage(self.ptr.__fly_rebuild__(values), self.kind)

    def __fly_key__(self) -> object:
        return (repr(self.kind), str(self.ptr.kind))


class StructStorage(Storage):
    """A struct or union in memory; attributes are the handles of its fields.

    Attributes:
        ptr: Its address, or None if its fields were allocated one by one.
        kind: The struct type.
    """

    __slots__ = ("_parts",)

    def __init__(self, ptr: Pointer | None, kind: Any, parts: Mapping[str, Any]) -> None:
        self.ptr = ptr  # type: ignore[assignment]
        self.kind = kind
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        """Return the handle of a field.

        Raises:
            UserAttributeError: There is no such field in memory.
        """
        if name in self._parts:
            return self._parts[name]
        compile_time = any(field.name == name for field in self.kind.fields)
        raise UserAttributeError(
            f"{self.kind!r} has no field {name!r} in memory",
            code="FLY-U288",
            allowed=", ".join(self._parts),
            hint="it is compile-time, and known from the type" if compile_time else "",
        )

    def peek(self) -> Any:
        """Load all fields; arrays stay handles.

        Raises:
            UserTypeError: A union, or the values of compile-time fields are not known.
        """
        if self.kind.is_union:
            raise UserTypeError(
                "a union has no value as a whole", code="FLY-U288", hint="peek one of its fields"
            )
        return self.kind(**{name: part.peek() for name, part in self._parts.items()})

    def poke(self, value: Any) -> None:
        """Store all fields of a struct.

        Raises:
            UserTypeError: It is another type, or has arrays, which are not assigned as a whole.
        """
        if self.kind.is_union or not isinstance(value, self.kind.base):
            raise UserTypeError(
                f"this is not a value of {self.kind!r}", code="FLY-U288", value=type(value).__name__
            )
        fields = value.__fly_fields__()
        for name, part in self._parts.items():
            if isinstance(part, Array):
                raise UserTypeError("an array is not assigned as a whole", code="FLY-U258")
            part.poke(fields[name])

    def __fly_values__(self) -> list[Any]:
        return [value for part in self._parts.values() for value in part.__fly_values__()]

    def __fly_rebuild__(self, values: list[Any]) -> Any:
        parts, at = {}, 0
        for name, part in self._parts.items():
            count = len(part.__fly_values__())
            parts[name] = part.__fly_rebuild__(values[at : at + count])
            at += count
        # The address of the whole is not carried on its own: that of the first field is.
        return StructStorage(None, self.kind, parts)

    def __fly_key__(self) -> object:
        return (repr(self.kind), *(part.__fly_key__() for part in self._parts.values()))


class PointerStorage(Storage):
    """A pointer in memory, held as an integer."""

    __slots__ = ()

    def peek(self) -> Any:
        """Load the pointer."""
        return inttoptr(self.kind, self.ptr.load())

    def poke(self, value: Any) -> None:
        """Store a pointer.

        Raises:
            UserTypeError: It is None, which is none in memory.
        """
        if value is None:
            raise UserTypeError(
                "None is known while tracing, and no pointer in memory",
                code="FLY-U257",
                value=value,
                allowed=repr(self.kind),
                hint="store a null pointer: fx.inttoptr(kind, 0)",
            )
        self.ptr.store(ptrtoint(value))


def is_numeric(kind: Any) -> bool:
    """Return whether a type is a numeric class."""
    return isinstance(kind, type) and issubclass(kind, Numeric)


def _carrier(alignment: int) -> type[Numeric]:
    """Return an integer class of `alignment` bytes, at most 16: offsets in it stay aligned."""
    return BY_TEXT[f"i{8 * min(alignment, 16)}"]


def _recast(ptr: Pointer, element: Any) -> Pointer:
    return ptr if ptr.element is element else recast_iter(element, ptr)


def _scalar(kind: Any) -> type[Numeric]:
    """Return the element class of the pointer that a handle of a type holds."""
    while True:
        if is_numeric(kind):
            return kind  # type: ignore[no-any-return]
        if isinstance(kind, PointerType) or is_struct_type(kind):
            return _carrier(size_and_align(kind)[1])
        if isinstance(kind, VectorAlias):
            return kind.dtype
        kind = kind.inner if isinstance(kind, AlignedType) else kind.element


def open_storage(ptr: Pointer, kind: Any) -> Any:
    """Return the handle of a type at an address: `Array` or `Storage`."""
    while isinstance(kind, AlignedType):
        kind = kind.inner
    if is_struct_type(kind):
        start = _recast(ptr, BY_TEXT["i8"])
        parts = {
            field.name: open_storage(start + offset if offset else start, field.kind)
            for field, offset in field_places(kind)
        }
        return StructStorage(start, kind, parts)
    typed = _recast(ptr, _scalar(kind))
    if isinstance(kind, ArrayType):
        return Array(typed, kind)
    return PointerStorage(typed, kind) if isinstance(kind, PointerType) else Storage(typed, kind)
