"""Fields of structs: which types they may have, and values brought to those types."""

from __future__ import annotations

import sys
from typing import Any

from flydsl.errors import UserTypeError
from flydsl.expr.ambient import in_trace
from flydsl.expr.annotations import Stream
from flydsl.expr.numeric import Numeric, as_numeric
from flydsl.expr.numeric.base import is_numeric_class
from flydsl.expr.pointers import Pointer, PointerType
from flydsl.expr.storage import AlignedType, Array, ArrayType, is_struct_type
from flydsl.expr.tensors import Tensor
from flydsl.expr.vector import Vector, VectorAlias

__all__ = ["coerced", "is_field_type", "takes_none"]


def is_field_type(kind: Any, stored: bool) -> bool:
    """Return whether a field may have a type.

    Args:
        kind: The type.
        stored: Whether it must have a form in memory.
    """
    if isinstance(kind, AlignedType):
        return is_field_type(kind.inner, stored)
    if kind is Tensor or kind is Pointer:
        return not stored
    return (
        is_numeric_class(kind)
        or isinstance(kind, (VectorAlias, ArrayType, PointerType))
        or is_struct_type(kind)
    )


def takes_none(kind: Any) -> bool:
    """Return whether fields of a type take None without being declared so, as parameters do."""
    return kind is Pointer or isinstance(kind, PointerType)


def coerced(value: Any, kind: Any, where: str) -> Any:
    """Return a value as one of a field's type.

    Python numbers become numerics, lists vectors; tuples and dicts structs. Numerics must have the
    class of the field: a silent conversion would hide a mistake.

    Raises:
        UserTypeError: It does not fit.
        UserValueError: A number is out of range.
    """
    if kind is Tensor and not in_trace():
        return value  # an array of a library, or an argument wrapper: launching checks it
    while isinstance(kind, AlignedType):
        kind = kind.inner
    if is_numeric_class(kind):
        return _number(value, kind, where)
    if isinstance(kind, VectorAlias):
        if isinstance(value, Vector):
            fits = value.dtype is kind.dtype and value.numel == kind.lanes
            return value.reshape(kind.shape) if fits else _refuse(value, kind, where)
        return kind(value)
    if is_struct_type(kind):
        return _struct(value, kind, where)
    if isinstance(kind, ArrayType):
        fits = isinstance(value, Array) and repr(value.kind) == repr(kind)
        return value if fits else _refuse(value, kind, where)
    if kind is Stream:
        return value if isinstance(value, Stream) else Stream(value)
    if not in_trace():
        return value
    wanted = Pointer if isinstance(kind, PointerType) else kind
    fits = isinstance(value, wanted)
    if fits and isinstance(kind, PointerType):
        fits = value.element is kind.element and value.kind.space == kind.space
    return value if fits else _refuse(value, kind, where)


def _number(value: Any, kind: type[Numeric], where: str) -> Any:
    if isinstance(value, kind):
        return value
    if type(value) is int or (type(value) is float and not kind.is_integer):
        return kind(value)
    number = as_numeric(value)
    if number is None or isinstance(value, Numeric):
        # NumPy's and other libraries' scalars are taken outside a trace only.
        scalar = getattr(value, "item", None) if "numpy" in sys.modules else None
        if scalar is None or isinstance(value, Numeric) or in_trace():
            return _refuse(value, kind, where)
        return kind(scalar())
    if not number.is_static():
        return number if type(number) is kind else _refuse(number, kind, where)
    if kind.is_integer and type(number).is_float:
        return _refuse(value, kind, where)
    return kind(value)


def _struct(value: Any, kind: Any, where: str) -> Any:
    if isinstance(value, kind.base):
        return value
    if isinstance(value, dict):
        return kind(**value)
    if isinstance(value, tuple):
        return kind(*value)
    return _refuse(value, kind, where)


def _refuse(value: Any, kind: Any, where: str) -> Any:
    given = type(value).__name__ if isinstance(value, Numeric) else value
    raise UserTypeError(
        f"{where} is given something of another type",
        code="FLY-U288",
        value=given,
        allowed=getattr(kind, "__name__", None) or repr(kind),
        hint=f"convert it with .to(fx.{kind.__name__})"
        if isinstance(value, Numeric) and is_numeric_class(kind)
        else "",
    )
