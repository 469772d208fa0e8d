"""Legacy scalar builders of ``fx.arith`` and ``fx.gpu``, on the operators of today's numbers."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError
from flydsl.expr import arith, extremes, gpu
from flydsl.expr.ambient import IRValue, current
from flydsl.expr.numeric import BY_TEXT, Boolean, Index, Numeric, as_numeric
from flydsl.expr.numeric.base import is_numeric_class
from flydsl.expr.vector import Vector

__all__ = [
    "ArithValue",
    "ShuffleOp",
    "as_value",
    "bitcast",
    "ceildivsi",
    "constant",
    "ext_f",
    "floordivsi",
    "index_cast",
    "maxsi",
    "maxui",
    "minsi",
    "minui",
    "negf",
    "numeric_class",
    "trunc_f",
    "unwrap",
]


def as_value(value: Any) -> Any:
    """Return an IR value, Python number or DSL value as a `Numeric` or a `Vector`.

    Raises:
        UserTypeError: It is neither a number nor a vector.
    """
    if isinstance(value, Vector):
        return value
    number = as_numeric(value)
    if number is not None:
        return number
    if str(getattr(value, "type", "")).startswith("vector<"):
        return Vector(value)
    raise UserTypeError("this is neither a number nor a vector", code="FLY-U260", value=value)


def numeric_class(dtype: Any) -> type[Numeric]:
    """Return the numeric class that a class or builtin IR type stands for.

    Raises:
        UserTypeError: It is no scalar type.
    """
    return dtype if is_numeric_class(dtype) else arith.scalar_class(dtype)


class _ArithValueMeta(type):
    """Makes every dynamic number, vector and IR value an instance of `ArithValue`."""

    def __instancecheck__(cls, instance: object) -> bool:
        if isinstance(instance, Numeric):
            return not instance.is_static()
        session = current()
        return isinstance(instance, Vector) or (
            session is not None and isinstance(instance, session.value_class)
        )


class ArithValue(metaclass=_ArithValueMeta):
    """``ArithValue(x)``: the number or vector that an IR value holds.

    Args:
        value: An IR value, a DSL value or a Python number.
        signed: Whether an integer is signed; default: as it is.
    """

    def __new__(cls, value: Any, signed: bool | None = None) -> Any:  # noqa: D102
        found = as_value(value)
        if signed is False and isinstance(found, Numeric) and found.is_integer and found.signed:
            return found.bitcast(BY_TEXT[f"u{found.ir_text}"])
        return found


def unwrap(value: Any) -> IRValue:
    """Return the IR value of a number, vector or other DSL value; IR values pass through."""
    return arith.ir_value_of(value)


def constant(
    value: int | float, dtype: Any = None, *, type: Any = None, index: bool = False
) -> Any:
    """Return a constant of a numeric class or builtin IR type; default `Int32` or `Float32`.

    Args:
        value: A Python number.
        dtype: The type.
        type: The same by its other name.
        index: Whether the type is ``index``.
    """
    return arith.typed_constant(value, Index if index else dtype if type is None else type)


def index_cast(dtype: Any, value: Any = None) -> Any:
    """Convert between `Index` and another integer class; with one argument to `Index`."""
    return arith.index_conversion(dtype, value)


def bitcast(dtype: Any, value: Any) -> Any:
    """Reinterpret the bits of a number or a vector as another type."""
    kind, found = numeric_class(dtype), as_value(value)
    return found.bitcast(kind)


def ext_f(value: Any, dtype: Any) -> Any:
    """Widen a float."""
    return as_value(value).to(numeric_class(dtype))


def trunc_f(value: Any, dtype: Any) -> Any:
    """Narrow a float, to nearest even."""
    return as_value(value).to(numeric_class(dtype))


def negf(value: Any) -> Any:
    """Negate a float."""
    return -as_value(value)


def ceildivsi(a: Any, b: Any) -> Any:
    """Divide signed integers, rounding up."""
    return arith.ceildiv(as_value(a), as_value(b))


def floordivsi(a: Any, b: Any) -> Any:
    """Divide signed integers, rounding down."""
    return as_value(a) // as_value(b)


def _compared(pick: Any, sign: str, a: Any, b: Any) -> Any:
    """Pick one of two integers, compared as signed or unsigned; the result keeps their class."""
    x, y = as_value(a), as_value(b)
    kind = type(y) if isinstance(a, int) else type(x)
    wanted = BY_TEXT[sign + kind.ir_text]
    return pick(x.to(kind).bitcast(wanted), y.to(kind).bitcast(wanted)).bitcast(kind)


def maxsi(a: Any, b: Any) -> Any:
    """Return the larger of two integers compared as signed, in their own class."""
    return _compared(extremes.max, "", a, b)


def minsi(a: Any, b: Any) -> Any:
    """Return the smaller of two integers compared as signed, in their own class."""
    return _compared(extremes.min, "", a, b)


def maxui(a: Any, b: Any) -> Any:
    """Return the larger of two integers compared as unsigned, in their own class."""
    return _compared(extremes.max, "u", a, b)


def minui(a: Any, b: Any) -> Any:
    """Return the smaller of two integers compared as unsigned, in their own class."""
    return _compared(extremes.min, "u", a, b)


class ShuffleOp:
    """``gpu.ShuffleOp(value, offset, width, mode)``: a shuffle with its two results.

    Attributes:
        shuffleResult: The value of the other lane.
        valid: Always true: lanes outside the group give their own value.
    """

    __slots__ = ("shuffleResult", "valid")

    def __init__(self, value: Any, offset: Any, width: Any, mode: Any = "xor") -> None:
        name = str(mode).rpartition(" ")[2].rstrip(">").lower()
        found = gpu.shuffle(as_value(value), as_value(offset), as_value(width), name)
        self.shuffleResult = found
        self.valid = Boolean(True)

    @property
    def result(self) -> Any:
        """The value of the other lane."""
        return self.shuffleResult

    @property
    def results(self) -> tuple[Any, Any]:
        """Both results."""
        return self.shuffleResult, self.valid
