"""Operations by their MLIR names on numbers, vectors and IR values (``fx.arith``).

They are for code that thinks in operations; ordinary code uses operators. Operands must have the
class that the operation needs: nothing is promoted beyond Python numbers.
"""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr import lanes
from flydsl.expr.ambient import IRValue
from flydsl.expr.emit import emit
from flydsl.expr.extremes import maximumf, maxnumf, minimumf, minnumf
from flydsl.expr.fast import FastMathFlags, fastmath, flags
from flydsl.expr.numeric import BY_TEXT, Boolean, Index, Numeric, as_numeric
from flydsl.expr.numeric.base import laned
from flydsl.expr.numeric.operators import arithmetic, compare, select
from flydsl.expr.vector import Vector

__all__ = [
    "FastMathFlags", "addf", "addi", "andi", "ceildiv", "cmpf", "cmpi", "divf", "divsi",
    "divui", "extf", "extsi", "extui", "fastmath", "fptosi", "fptoui", "index_conversion",
    "ir_value_of", "maximumf", "maxnumf", "minimumf", "minnumf", "mulf", "muli", "ori", "remf",
    "remsi", "remui", "scalar_class", "select", "shli", "shrsi", "shrui", "sitofp", "subf",
    "subi", "truncf", "trunci", "typed_constant", "uitofp", "xori",
]  # fmt: skip


def ir_value_of(value: Any) -> IRValue:
    """Return the IR value of a number, vector or other DSL value; IR values pass through."""
    if hasattr(value, "ir_value"):
        return value.ir_value()
    number = as_numeric(value)
    return value if number is None else number.ir_value()


def typed_constant(value: int | float, dtype: type[Numeric] | Any = None) -> Any:
    """Return a constant of a numeric class or builtin IR type; default `Int32` or `Float32`."""
    number = as_numeric(value)
    if number is None:
        raise UserTypeError("a constant is a Python number", code="FLY-U260", value=value)
    if dtype is None:
        return number
    kind = dtype if isinstance(dtype, type) else BY_TEXT.get(str(dtype))
    if kind is None:
        raise UserTypeError("this is no scalar type", code="FLY-U260", value=dtype)
    return kind(value)


def _matched(name: str, a: Any, b: Any, wanted: str) -> tuple[Any, Any]:
    """Return both operands, Python numbers in the other operand's class.

    Raises:
        UserTypeError: The classes differ, or are not what the operation takes.
    """
    a, b = _vector_of(a), _vector_of(b)
    kinds: list[type[Numeric] | None] = []
    literals: list[type[Numeric]] = []
    for value in (a, b):
        if isinstance(value, Vector):
            kinds.append(value.dtype)
            continue
        number = as_numeric(value)
        if number is None:
            raise UserTypeError(f"{name} needs numbers", code="FLY-U260", value=value)
        literals.append(type(number))
        kinds.append(None if isinstance(value, (int, float)) else type(number))
    kind: type[Numeric] = kinds[0] or kinds[1] or literals[0]
    for value, own in zip((a, b), kinds, strict=True):
        if own is not None and own.ir_text != kind.ir_text:
            raise UserTypeError(
                f"{name} needs operands of one type",
                code="FLY-U260",
                value=(kinds[0], kinds[1]),
                hint="convert one with .to(...)" if value is not None else "",
            )
    if (wanted == "float") != kind.is_float:
        raise UserTypeError(f"{name} needs {wanted} operands", code="FLY-U260", value=kind)
    out = [
        value if isinstance(value, (Vector, Numeric)) else _literal(kind, value) for value in (a, b)
    ]
    return out[0], out[1]


def _vector_of(value: Any) -> Any:
    """Return an IR vector as a `Vector`, anything else as it is."""
    if isinstance(value, Vector) or not str(getattr(value, "type", "")).startswith("vector<"):
        return value
    return Vector(value)


def _literal(kind: type[Numeric], value: Any) -> Any:
    number = as_numeric(value)
    assert number is not None
    return kind(value) if number.is_static() else kind.wrap(number.value)


def _operator(op: str, name: str, a: Any, b: Any, wanted: str, fast: Any = None) -> Any:
    x, y = _matched(name, a, b, wanted)
    with flags(fast):
        if isinstance(x, Vector) or isinstance(y, Vector):
            return lanes.binary(op, x, y)
        y = y if type(y) is type(x) else y.bitcast(type(x))
        return arithmetic(op, x, y)


def addf(a: Any, b: Any, *, fastmath: Any = None) -> Any:
    """Add floats."""
    return _operator("add", "addf", a, b, "float", fastmath)


def subf(a: Any, b: Any, *, fastmath: Any = None) -> Any:
    """Subtract floats."""
    return _operator("sub", "subf", a, b, "float", fastmath)


def mulf(a: Any, b: Any, *, fastmath: Any = None) -> Any:
    """Multiply floats."""
    return _operator("mul", "mulf", a, b, "float", fastmath)


def divf(a: Any, b: Any, *, fastmath: Any = None) -> Any:
    """Divide floats."""
    return _operator("div", "divf", a, b, "float", fastmath)


def addi(a: Any, b: Any) -> Any:
    """Add integers."""
    return _operator("add", "addi", a, b, "integer")


def subi(a: Any, b: Any) -> Any:
    """Subtract integers."""
    return _operator("sub", "subi", a, b, "integer")


def muli(a: Any, b: Any) -> Any:
    """Multiply integers."""
    return _operator("mul", "muli", a, b, "integer")


def andi(a: Any, b: Any) -> Any:
    """Combine bits with AND."""
    return _operator("and", "andi", a, b, "integer")


def ori(a: Any, b: Any) -> Any:
    """Combine bits with OR."""
    return _operator("or", "ori", a, b, "integer")


def xori(a: Any, b: Any) -> Any:
    """Combine bits with XOR."""
    return _operator("xor", "xori", a, b, "integer")


def shli(a: Any, b: Any) -> Any:
    """Shift bits to the left."""
    return _operator("shl", "shli", a, b, "integer")


def _raw(name: str, a: Any, b: Any, wanted: str, fast: Any = None) -> Any:
    """Emit ``arith.<name>`` as it is; the result has the left operand's class."""
    from flydsl.expr.numeric.attributes import float_attributes

    x, y = _matched(name, a, b, wanted)
    with flags(fast):
        attributes = float_attributes() if wanted == "float" else None
        if isinstance(x, Vector) or isinstance(y, Vector):
            template = x if isinstance(x, Vector) else y
            kind, shape = template.dtype, template.shape
            values = [
                item.value if isinstance(item, Vector) else Vector.filled(shape, item, kind).value
                for item in (x, y)
            ]
            result = laned(kind, template.numel).ir_type
            return Vector(emit(f"arith.{name}", result, values, attributes), shape, kind)
        operands = (x.ir_value(), y.ir_value())
        return type(x).wrap(emit(f"arith.{name}", type(x).ir_type, operands, attributes))


def divsi(a: Any, b: Any) -> Any:
    """Divide signed integers towards zero (as in C)."""
    return _raw("divsi", a, b, "integer")


def divui(a: Any, b: Any) -> Any:
    """Divide integers as unsigned."""
    return _raw("divui", a, b, "integer")


def remsi(a: Any, b: Any) -> Any:
    """Return the remainder with the dividend's sign (as in C)."""
    return _raw("remsi", a, b, "integer")


def remui(a: Any, b: Any) -> Any:
    """Return the remainder of unsigned division."""
    return _raw("remui", a, b, "integer")


def remf(a: Any, b: Any, *, fastmath: Any = None) -> Any:
    """Return the float remainder with the dividend's sign (as in C)."""
    return _raw("remf", a, b, "float", fastmath)


def shrsi(a: Any, b: Any) -> Any:
    """Shift bits to the right, copying the sign bit."""
    return _raw("shrsi", a, b, "integer")


def shrui(a: Any, b: Any) -> Any:
    """Shift bits to the right, filling with zeros."""
    return _raw("shrui", a, b, "integer")


def ceildiv(a: Any, b: Any) -> Any:
    """Return ``a / b`` of integers, rounded up; promotion as for operators.

    Raises:
        UserTypeError: An operand is no integer.
        UserZeroDivisionError: The static divisor is zero.
    """
    x, y = as_numeric(a), as_numeric(b)
    if x is None or y is None or not (x.is_integer and y.is_integer):
        raise UserTypeError("ceildiv needs integers", code="FLY-U260", value=(a, b))
    if isinstance(a, int) and isinstance(b, int) and b != 0:
        return -(-a // b)
    quotient = arithmetic("floordiv", x, y)
    rest = arithmetic("mod", x, y)
    return quotient + compare("ne", rest, type(rest).static(0)).to(type(quotient))


_UNSIGNED = {"ult": 6, "ule": 7, "ugt": 8, "uge": 9}
_CMPI = {"eq": 0, "ne": 1, "slt": 2, "sle": 3, "sgt": 4, "sge": 5, **_UNSIGNED}
_CMPF = {
    "false": 0, "oeq": 1, "ogt": 2, "oge": 3, "olt": 4, "ole": 5, "one": 6, "ord": 7, "ueq": 8,
    "ugt": 9, "uge": 10, "ult": 11, "ule": 12, "une": 13, "uno": 14, "true": 15,
}  # fmt: skip


def _comparison(name: str, table: dict[str, int], pred: Any, a: Any, b: Any, wanted: str) -> Any:
    from flydsl.expr.ambient import require
    from flydsl.expr.numeric.attributes import predicate
    from flydsl.expr.numeric.base import like

    code = table.get(pred) if isinstance(pred, str) else int(pred)
    if code is None or code not in table.values():
        raise UserValueError(
            "no such predicate", code="FLY-U260", value=pred, allowed=", ".join(table)
        )
    x, y = _matched(name, a, b, wanted)
    attributes = {"predicate": predicate(code)}
    session = require(name)
    if isinstance(x, Vector):
        y = y if isinstance(y, Vector) else Vector.filled(x.shape, y, x.dtype)
        result = session.type(like(laned(x.dtype, x.numel), "i1"))
        return Vector(
            emit(f"arith.{name}", result, (x.value, y.value), attributes), x.shape, Boolean
        )
    operands = (x.ir_value(), y.ir_value())
    return Boolean.wrap(emit(f"arith.{name}", session.type("i1"), operands, attributes))


def cmpi(pred: Any, a: Any, b: Any) -> Any:
    """Compare integers by a predicate name (``"slt"``, ``"ult"``, …) or number."""
    return _comparison("cmpi", _CMPI, pred, a, b, "integer")


def cmpf(pred: Any, a: Any, b: Any) -> Any:
    """Compare floats by a predicate name (``"olt"``, ``"une"``, …) or number."""
    return _comparison("cmpf", _CMPF, pred, a, b, "float")


def scalar_class(dtype: Any) -> type[Numeric]:
    """Return the numeric class that a class or builtin IR type stands for.

    Raises:
        UserTypeError: It is no scalar type.
    """
    if isinstance(dtype, type) and issubclass(dtype, Numeric):
        return dtype
    found = BY_TEXT.get(str(dtype))
    if found is None:
        raise UserTypeError("this is no scalar type", code="FLY-U260", value=dtype)
    return found


def _conversion(name: str, dtype: Any, value: Any) -> Any:
    """Emit a named conversion. The arguments may come in either order."""
    if isinstance(value, type) or (as_numeric(value) is None and not isinstance(value, Vector)):
        dtype, value = value, dtype
    kind = scalar_class(dtype)
    if isinstance(value, Vector):
        result = laned(kind, value.numel).ir_type
        return Vector(emit(f"arith.{name}", result, (value.value,)), value.shape, kind)
    number = as_numeric(value)
    if number is None:
        raise UserTypeError(f"{name} needs a number", code="FLY-U260", value=value)
    return kind.wrap(emit(f"arith.{name}", kind.ir_type, (number.ir_value(),)))


def extf(dtype: Any, value: Any) -> Any:
    """Widen a float."""
    return _conversion("extf", dtype, value)


def truncf(dtype: Any, value: Any) -> Any:
    """Narrow a float."""
    return _conversion("truncf", dtype, value)


def extsi(dtype: Any, value: Any) -> Any:
    """Widen an integer, copying the sign bit."""
    return _conversion("extsi", dtype, value)


def extui(dtype: Any, value: Any) -> Any:
    """Widen an integer, filling with zeros."""
    return _conversion("extui", dtype, value)


def trunci(dtype: Any, value: Any) -> Any:
    """Narrow an integer."""
    return _conversion("trunci", dtype, value)


def sitofp(dtype: Any, value: Any) -> Any:
    """Convert a signed integer to a float."""
    return _conversion("sitofp", dtype, value)


def uitofp(dtype: Any, value: Any) -> Any:
    """Convert an unsigned integer to a float."""
    return _conversion("uitofp", dtype, value)


def fptosi(dtype: Any, value: Any) -> Any:
    """Convert a float to a signed integer, towards zero."""
    return _conversion("fptosi", dtype, value)


def fptoui(dtype: Any, value: Any) -> Any:
    """Convert a float to an unsigned integer, towards zero."""
    return _conversion("fptoui", dtype, value)


def index_conversion(dtype: Any, value: Any = None) -> Any:
    """Convert between `Index` and another integer class; with one argument to `Index`."""
    if value is None:
        dtype, value = Index, dtype
    if isinstance(value, type):
        dtype, value = value, dtype
    number = as_numeric(value)
    if number is None:
        raise UserTypeError("an index is made of an integer", code="FLY-U260", value=value)
    return number.to(scalar_class(dtype))


def __getattr__(name: str) -> Any:
    """Return a name that only existing kernels use, with a warning (`flydsl.compat`)."""
    from flydsl.plugins.namespaces import legacy_attribute

    return legacy_attribute(__name__, name)
