"""Arguments of kernels: Python and DSL values brought to the parameter's declared type."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError
from flydsl.expr.annotations import ConstexprKind, Stream
from flydsl.expr.layouts import is_static_object
from flydsl.expr.numeric import Numeric, as_numeric
from flydsl.expr.storage import is_struct_type
from flydsl.frontend.signature import Parameter

__all__ = ["argument"]


def argument(parameter: Parameter, value: Any) -> Any:
    """Return the value that a kernel parameter takes.

    Compile-time parameters take it as it is. Numbers become the declared numeric class if that
    loses nothing, or by default `Int32`, `Float32` or `Boolean`.

    Raises:
        UserTypeError: The value does not fit the parameter or has no run-time form.
    """
    annotation = parameter.annotation
    if parameter.constexpr:
        if isinstance(annotation, ConstexprKind):
            value = annotation.taken(value)
            annotation.check(parameter.name, value)
        if isinstance(value, Numeric) and value.is_static():
            return value.value
        if hasattr(type(value), "__fly_values__"):
            raise UserTypeError(
                f"{parameter.name!r} is compile-time, but a run-time value is passed",
                code="FLY-U220",
                value=value,
            )
        return value
    if value is None and parameter.optional:
        return None
    if annotation is Stream:
        return value if isinstance(value, Stream) else Stream(value)
    wanted: Any = parameter.dsl_type
    number = as_numeric(value)
    if number is not None:
        return _number(parameter, wanted, number, value)
    if is_struct_type(wanted) and not isinstance(value, wanted.base):
        raise UserTypeError(
            f"{parameter.name!r} is declared {wanted.__name__}",
            code="FLY-U233",
            value=type(value).__name__,
        )
    if hasattr(type(value), "__fly_values__"):
        return value
    if isinstance(value, type) or is_static_object(value):
        return value
    raise UserTypeError(
        f"{parameter.name!r} cannot be passed to a kernel",
        code="FLY-U233",
        value=value,
        allowed="tensors, pointers, numbers, vectors, layouts",
        hint="declare it fx.Constexpr if it is known while tracing",
    )


def _number(parameter: Parameter, wanted: Any, number: Numeric, value: Any) -> Any:
    if wanted is None or not issubclass(wanted, Numeric):
        if wanted is not None:
            raise UserTypeError(
                f"{parameter.name!r} is declared {wanted.__name__}, but a number is passed",
                code="FLY-U233",
                value=number,
            )
        return number
    source = type(number)
    if source is wanted:
        return number
    if isinstance(value, (bool, int, float)):
        return wanted(value)
    fits = (
        (source.is_integer and wanted.is_integer and _holds(source, wanted))
        or (source.is_float and wanted.is_float and source.width < wanted.width)
        or (number.is_static() and source.is_integer and wanted.is_integer)
    )
    if not fits:
        raise UserTypeError(
            f"{parameter.name!r} is declared {wanted.__name__}, but a {source.__name__} is passed",
            code="FLY-U233",
            hint=f"convert it with .to(fx.{wanted.__name__})",
        )
    if number.is_static():
        return wanted(number.value)
    return number.to(wanted)


def _holds(source: type[Numeric], wanted: type[Numeric]) -> bool:
    """Return whether an integer class holds every value of another; equal widths reinterpret."""
    if source.width == wanted.width:
        return True
    return source.width < wanted.width and (wanted.signed or not source.signed)
