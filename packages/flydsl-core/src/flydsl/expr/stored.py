"""Values on their way to and from memory: element types are checked, Python numbers converted."""

from __future__ import annotations

import math
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.ambient import IRValue
from flydsl.expr.numeric import Numeric, as_numeric
from flydsl.expr.vector import Vector, VectorAlias

__all__ = ["loaded", "stored"]


def loaded(value: IRValue, kind: Any) -> Any:
    """Wrap a loaded value as a numeric class or vector type says."""
    if isinstance(kind, VectorAlias):
        return Vector(value, kind.shape, kind.dtype)
    return kind.wrap(value)


def stored(value: Any, element: type[Numeric], where: str) -> IRValue:
    """Return the IR value to store for `value` in memory of `element`.

    Python numbers convert to the element type and must fit it: an integer type holds no fraction
    and nothing out of range, a float type rounds but does not overflow. A numeric must have exactly
    the element type: a silent conversion would hide a mistake.

    Raises:
        UserTypeError: The type differs.
        UserValueError: A Python number does not fit.
    """
    if isinstance(value, Vector):
        if value.dtype is not element:
            raise _mismatch(value.dtype, element, where)
        return value.ir_value()
    number = as_numeric(value)
    if number is None:
        raise UserTypeError(f"this cannot be stored in {where}", code="FLY-U243", value=value)
    if isinstance(value, Numeric) and type(value) is not element:
        raise _mismatch(type(value), element, where)
    if number is not value and not number.is_static() and number.ir_text == element.ir_text:
        return number.ir_value()  # a bare IR value, whose signedness is not known
    if number is not value and not number.is_static():
        raise _mismatch(type(number), element, where)
    return (number if type(number) is element else _converted(value, element, where)).ir_value()


def _converted(value: Any, element: type[Numeric], where: str) -> Numeric:
    scalar = getattr(type(value), "__fly_scalar__", None)
    number = value if scalar is None else scalar(value)
    if isinstance(number, float) and element.is_integer and not number.is_integer():
        raise UserValueError(
            f"a number with a fraction is stored in {where}, which holds {element.__name__}",
            code="FLY-U243",
            value=number,
            hint="write an int, or round it first",
        )
    made = element(number)
    finite = isinstance(number, (int, float)) and math.isfinite(number)
    if element.is_float and finite and made.is_static() and math.isinf(made.value):
        raise UserValueError(
            f"a number beyond the range of {element.__name__} is stored in {where}",
            code="FLY-U243",
            value=number,
            hint="store float('inf') if infinity is meant",
        )
    return made


def _mismatch(given: type[Numeric], element: type[Numeric], where: str) -> UserTypeError:
    return UserTypeError(
        f"a {given.__name__} is stored in {where}, which holds {element.__name__}",
        code="FLY-U243",
        hint=f"convert it with .to(fx.{element.__name__})",
    )
