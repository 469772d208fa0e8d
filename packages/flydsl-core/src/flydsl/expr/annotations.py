"""Annotations of kernel and launcher parameters that are not value classes themselves."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, Union, get_args, get_origin

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.ambient import IRValue, current, require
from flydsl.expr.emit import constant

__all__ = [
    "AnnotationObject",
    "Constexpr",
    "ConstexprKind",
    "Stream",
    "is_constexpr",
    "python_integer",
    "without_none",
]

T = TypeVar("T")


class AnnotationObject:
    """Base of objects, not classes, that stand for a type: lets them be written ``X | None``."""

    __slots__ = ()

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007 - the operator is what is defined here

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007


class ConstexprKind:
    """``fx.Constexpr[T]``: a compile-time parameter of Python type `T`."""

    __slots__ = ("kind",)

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __repr__(self) -> str:
        return f"fx.Constexpr[{getattr(self.kind, '__name__', self.kind)}]"

    def taken(self, value: Any) -> Any:
        """Return what the parameter takes for a value: Python's integers for NumPy's."""
        return python_integer(value) if self.kind is int else value

    def check(self, name: str, value: object) -> None:
        """Check a value passed for the parameter.

        Raises:
            UserTypeError: It is not of the declared type, or of a mutable one.
        """
        kind = self.kind
        wanted = getattr(kind, "__origin__", kind)
        if wanted is Callable or getattr(wanted, "__name__", "") == "Callable":
            fits = callable(value)
        elif isinstance(wanted, type):
            fits = isinstance(value, wanted) and not (wanted is int and isinstance(value, bool))
        else:
            fits = True
        if not fits:
            raise UserTypeError(
                f"{name!r} is declared {self!r}",
                code="FLY-U220",
                value=value,
                allowed=f"a compile-time {getattr(wanted, '__name__', wanted)}",
            )
        if isinstance(value, (list, set, dict, bytearray)):
            raise UserTypeError(
                f"{name!r}: a compile-time value must not be mutable",
                code="FLY-U220",
                value=value,
                hint="pass a tuple",
            )


if TYPE_CHECKING:
    Constexpr: TypeAlias = T
else:

    class Constexpr(Generic[T]):
        """Marks a parameter as compile-time: its value is part of the compiled code.

        ``fx.Constexpr`` accepts any immutable value, ``fx.Constexpr[int]`` ints only.
        """

        def __class_getitem__(cls, kind: Any) -> ConstexprKind:
            return ConstexprKind(kind)


def python_integer(value: Any) -> Any:
    """Return an integer of another library, such as NumPy's, as an int; other values unchanged."""
    if type(value) in (int, bool) or not isinstance(value, Integral):
        return value
    return int(value)


def is_constexpr(annotation: object) -> bool:
    """Return whether an annotation means compile-time (``Constexpr`` or ``type[T]``)."""
    if annotation is Constexpr or isinstance(annotation, ConstexprKind) or annotation is type:
        return True
    return getattr(annotation, "__origin__", None) is type


def device_of(stream: object) -> int:
    """Return the index of the device that a library's stream tells; -1 if it tells none."""
    index = getattr(stream, "device_index", None)
    if index is None:
        index = getattr(getattr(stream, "device", None), "index", None)
    return index if type(index) is int and index >= 0 else -1


class Stream:
    """An execution stream of the device.

    Args:
        value: None (the device's current stream), an integer handle, an object with a
            ``cuda_stream`` attribute, or (while tracing) an IR value of type i64.

    Attributes:
        value: The handle.
        place: 1 + the index of the stream's device; 0 where that is not known.
    """

    __slots__ = ("place", "value")

    def __init__(self, value: object = None) -> None:
        handle = getattr(value, "cuda_stream", value)
        session = current()
        if session is not None and isinstance(handle, session.value_class):
            if str(handle.type) != "i64":  # type: ignore[attr-defined]
                raise UserTypeError("a stream handle is an i64", code="FLY-U221", value=handle)
        elif isinstance(handle, bool) or not isinstance(handle, (int, type(None))):
            raise UserTypeError(
                "this is not a stream",
                code="FLY-U221",
                value=value,
                allowed="None, an int handle, or an object with .cuda_stream",
            )
        elif handle is not None and not 0 <= handle < 1 << 64:
            raise UserValueError("this is not a stream handle", code="FLY-U221", value=handle)
        self.value: Any = handle
        self.place: int = 1 + device_of(value)

    def ir_value(self) -> IRValue:
        """Return the handle as an IR value of type i64."""
        if self.value is None or isinstance(self.value, int):
            return constant(require("a stream"), "i64", self.value or 0)
        return self.value

    def __fly_values__(self) -> list[IRValue]:
        return [self.ir_value()]

    def __fly_rebuild__(self, values: list[IRValue]) -> Stream:
        return Stream(values[0])

    def __fly_key__(self) -> object:
        return "Stream"

    def __repr__(self) -> str:
        return f"Stream({self.value!r})"


def without_none(annotation: Any) -> Any:
    """Return X of an annotation ``X | None``, and any other annotation as it is."""
    if get_origin(annotation) in (Union, UnionType):
        others = [kind for kind in get_args(annotation) if kind is not NoneType]
        if len(others) == 1 and len(get_args(annotation)) == 2:
            return others[0]
    return annotation
