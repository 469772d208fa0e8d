"""Pointers into device memory, and the functions that make and move them."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.ambient import IRValue, require
from flydsl.expr.annotations import AnnotationObject
from flydsl.expr.emit import located
from flydsl.expr.enums import AddressSpace, space_name
from flydsl.expr.layouts import apply
from flydsl.expr.numeric import BY_TEXT, Numeric, as_numeric
from flydsl.expr.stored import loaded, stored
from flydsl.expr.unbounded import Unbounded
from flydsl.expr.wrapping import FlyValue, as_operand, register_wrapper, wrap

__all__ = [
    "Pointer",
    "PointerType",
    "add_offset",
    "apply_swizzle",
    "get_dyn_shared",
    "inttoptr",
    "make_ptr",
    "make_view",
    "ptr_load",
    "ptr_store",
    "ptrtoint",
    "recast_iter",
    "to_llvm_ptr",
]


class PointerType(AnnotationObject):
    """A pointer type, for `inttoptr`, `recast_iter` and annotations.

    Attributes:
        element: Numeric class of the elements.
        space: Address space by name.
        alignment: Bytes.
        swizzle: Swizzle applied to addresses, or None.
    """

    __slots__ = ("alignment", "element", "space", "swizzle")

    def __init__(self, element: type[Numeric], space: str, alignment: int, swizzle: Any) -> None:
        self.element = element
        self.space = space
        self.alignment = alignment
        self.swizzle = swizzle

    @classmethod
    def get(
        cls,
        element: Any,
        address_space: AddressSpace | str | int | None = None,
        alignment: Any = None,
        swizzle: Any = None,
    ) -> PointerType:
        """Return a pointer type.

        Args:
            element: Numeric class or IR type of the elements.
            address_space: Default: generic.
            alignment: Bytes; default: the element's size.
            swizzle: Swizzle applied to addresses.

        Raises:
            UserTypeError: The element or space is of a wrong kind.
            UserValueError: The alignment is not a positive multiple of the element's size.
        """
        kind = element_class(element)
        space = space_name(AddressSpace.Generic if address_space is None else address_space)
        size = max(1, kind.width // 8)
        wanted = size if alignment is None else alignment
        if not isinstance(wanted, int) or wanted <= 0 or wanted % size or wanted & (wanted - 1):
            raise UserValueError(
                "a pointer's alignment is a power of two and a multiple of the element's bytes",
                code="FLY-U239",
                value=alignment,
                allowed=f"{size}, {2 * size}, {4 * size}, …",
            )
        return cls(kind, space, wanted, swizzle)

    @property
    def fly(self) -> Any:
        """The type's wrapper in `flydsl.dialects.fly_types`."""
        from flydsl.dialects.fly_types import PtrType

        return PtrType(self.element.ir_text, self.space, self.alignment, self.swizzle)

    def __repr__(self) -> str:
        return f"Pointer[{self.element.__name__}, {self.space}, {self.alignment}]"


def element_class(element: Any) -> type[Numeric]:
    """Return the numeric class that an element type stands for.

    Raises:
        UserTypeError: It is neither a numeric class nor a builtin IR type.
    """
    if isinstance(element, type) and issubclass(element, Numeric) and element.ir_text:
        return element
    found = BY_TEXT.get(str(element)) if not isinstance(element, str) else None
    if found is None:
        raise UserTypeError(
            "an element type is a numeric class",
            code="FLY-U240",
            value=element,
            allowed="fx.Float32, fx.Int32, …",
        )
    return found


class Pointer(Unbounded, FlyValue):
    """An address of elements of one type; offsets count elements.

    Attributes:
        element: Numeric class of the elements.
    """

    __slots__ = ("element",)

    def __init__(
        self, value: IRValue, kind: Any = None, element: type[Numeric] | None = None
    ) -> None:
        super().__init__(value, kind)
        self.element = BY_TEXT[self.kind.element] if element is None else element

    def __class_getitem__(cls, parameters: Any) -> PointerType:
        """Return the type ``Pointer[element, space(, alignment)]``."""
        items = parameters if isinstance(parameters, tuple) else (parameters,)
        return PointerType.get(*items)

    @property
    def dtype(self) -> type[Numeric]:
        """Numeric class of the elements."""
        return self.element

    element_type = value_type = dtype

    @property
    def address_space(self) -> AddressSpace | str:
        """The address space; a target's own space by its name."""
        return AddressSpace.named(self.kind.space)

    memspace = address_space

    @property
    def alignment(self) -> int:
        """Bytes that the address is a multiple of."""
        return int(self.kind.alignment)

    @property
    def llvm_ptr(self) -> IRValue:
        """The pointer as an LLVM pointer value."""
        return to_llvm_ptr(self)

    def load(self, dtype: Any = None) -> Any:
        """Load one element, or a value of `dtype` from the address."""
        return ptr_load(self, dtype)

    def store(self, value: Any) -> None:
        """Store an element or a vector of elements at the address."""
        ptr_store(value, self)

    def view(self, layout: Any) -> Any:
        """Return the tensor with this pointer and `layout`."""
        return make_view(self, layout)

    def __add__(self, offset: Any) -> Pointer:
        moved: Pointer = add_offset(self, offset)
        return moved

    __radd__ = __add__

    def __sub__(self, offset: Any) -> Pointer:
        moved: Pointer = add_offset(self, -offset)
        return moved

    def __getitem__(self, index: Any) -> Any:
        return add_offset(self, index).load()

    def __setitem__(self, index: Any, value: Any) -> None:
        add_offset(self, index).store(value)

    def __fly_rebuild__(self, values: list[IRValue]) -> Pointer:
        return Pointer(values[0], None, self.element)

    def __fly_key__(self) -> object:
        return ("Pointer", self.element.__name__, str(self.kind))


register_wrapper("ptr", Pointer)


def _pointer(value: Any) -> Pointer:
    if not isinstance(value, Pointer):
        raise UserTypeError("this is not a pointer", code="FLY-U241", value=value)
    return value


def add_offset(pointer: Any, offset: Any) -> Any:
    """Return a pointer (or base coordinate) moved by `offset` elements.

    The alignment becomes what the offset's known divisor proves.
    """
    return apply("add_offset", pointer, offset)


def recast_iter(dtype: Any, pointer: Any) -> Pointer:
    """Return the same address as a pointer to elements of another type.

    Args:
        dtype: Numeric class, or a `PointerType` of the same space.
        pointer: The pointer; its alignment is kept.

    Raises:
        UserError: The pointer is not known to be aligned for the new elements.
    """
    from flydsl.dialects import fly

    source = _pointer(pointer)
    with located():
        if isinstance(dtype, PointerType):
            return Pointer(fly.recast_iter(dtype.fly, source.value), None, dtype.element)
        kind = element_class(dtype)
        return Pointer(fly.recast_iter(kind.ir_text, source.value), None, kind)


def inttoptr(kind: PointerType, address: Any) -> Pointer:
    """Return the pointer of an integer address.

    Raises:
        UserError: Registers have no addresses.
    """
    from flydsl.dialects import fly

    number = as_numeric(address)
    if number is None or not number.is_integer:
        raise UserTypeError("an address is an integer", code="FLY-U241", value=address)
    with located():
        return Pointer(fly.inttoptr(kind.fly, number.ir_value()), None, kind.element)


def ptrtoint(pointer: Any) -> Any:
    """Return a pointer's address: `Int32` in shared memory, else `Int64`."""
    from flydsl.dialects import fly

    with located():
        return wrap(fly.ptrtoint(_pointer(pointer).value))


def to_llvm_ptr(pointer: Any) -> IRValue:
    """Return the pointer as an ``!llvm.ptr`` in the target's address space.

    Raises:
        UserValueError: The target has no LLVM address space of that name.
    """
    from flydsl.dialects import fly

    source = _pointer(pointer)
    session = require("to_llvm_ptr")
    spaces = session.target.address_spaces if session.target is not None else {}
    if source.kind.space not in spaces:
        raise UserValueError(
            "this address space has no LLVM pointer",
            code="FLY-U241",
            value=source.kind.space,
            allowed=", ".join(spaces),
        )
    with located():
        return fly.to_llvm_ptr(source.value, spaces[source.kind.space])


def apply_swizzle(pointer: Any, swizzle: Any) -> Pointer:
    """Return the pointer with a swizzle applied to every address made from it."""
    swizzled: Pointer = apply("apply_swizzle", pointer, swizzle)
    return swizzled


def get_dyn_shared(dtype: Any = None) -> Pointer:
    """Return the start of the workgroup's dynamic shared memory, aligned to 1024 bytes.

    Args:
        dtype: Element class; default `Int8`.
    """
    from flydsl.dialects import fly

    kind = BY_TEXT["i8"] if dtype is None else element_class(dtype)
    with located():
        return Pointer(fly.get_dyn_shared(kind.ir_text), None, kind)


def make_ptr(
    kind: PointerType, args: Any = (), dict_attrs: dict[str, Any] | None = None
) -> Pointer:
    """Return a pointer of a target's own space made from up to four values."""
    from flydsl.dialects import fly

    with located():
        operands = [as_operand(item) for item in args]
        return Pointer(fly.make_ptr(kind.fly, operands, dict_attrs), None, kind.element)


def ptr_load(pointer: Any, result_type: Any = None) -> Any:
    """Load from a pointer.

    Args:
        pointer: The pointer.
        result_type: Numeric class or vector type to load; default: one element.
    """
    from flydsl.dialects import fly

    source = _pointer(pointer)
    with located():
        if result_type is None or result_type is source.element:
            return loaded(fly.ptr_load(source.value), source.element)
        kind = result_type.ir_type
        return loaded(fly.ptr_load(source.value, kind), result_type)


def ptr_store(value: Any, pointer: Any) -> None:
    """Store a value of the element type, or a vector of elements, through a pointer.

    Raises:
        UserTypeError: The value has another type (Python numbers are converted).
    """
    from flydsl.dialects import fly

    target = _pointer(pointer)
    with located():
        fly.ptr_store(stored(value, target.element, "the pointer"), target.value)


def make_view(iterator: Any, layout: Any) -> Any:
    """Return the tensor of a pointer (or base coordinate) and a layout."""
    return apply("make_view", iterator, layout)
