"""Division, remainder, power, negation and absolute value of numerics."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError, UserZeroDivisionError
from flydsl.expr.ambient import require
from flydsl.expr.emit import constant, emit
from flydsl.expr.numeric.attributes import float_attributes, predicate
from flydsl.expr.numeric.base import Numeric, like, named
from flydsl.expr.numeric.convert import convert, fold_integer, narrowed, widened
from flydsl.expr.numeric.fold import by_zero
from flydsl.expr.numeric.promote import common_type

__all__ = ["absolute", "floor_divide", "negate", "power", "quotient_type"]


def quotient_type(common: type[Numeric]) -> type[Numeric]:
    """Return the class in which ``/`` of two integers of class `common` computes."""
    if common is named("Index"):
        return common
    return named("Float32" if common.width <= 32 else "Float64")


def floor_divide(op: str, a: Numeric, b: Numeric) -> Numeric:
    """Emit ``a // b`` (``"floordiv"``) or ``a % b`` (``"mod"``) of two numerics of one class.

    Raises:
        UserZeroDivisionError: The divisor is a static, integer zero.
    """
    kind = type(a)
    if kind.is_float:
        return _float_floor(op, a, b)
    if b.is_static() and b.value == 0:
        raise by_zero("a run-time integer")
    if b.is_static() and b.value > 0 and b.value & (b.value - 1) == 0:
        return _by_power_of_two(op, a, int(b.value))
    x, y = a.ir_value(), b.ir_value()
    result = kind.ir_type
    if not kind.signed:
        return kind.wrap(emit("arith.divui" if op == "floordiv" else "arith.remui", result, (x, y)))
    rest = emit("arith.remsi", result, (x, y))
    adjust = _needs_adjusting(kind, rest, b)
    if op == "mod":
        moved = emit("arith.addi", result, (rest, y))
        return kind.wrap(emit("arith.select", result, (adjust, moved, rest)))
    quotient = emit("arith.divsi", result, (x, y))
    one = constant(require("//"), kind.ir_text, 1)
    lower = emit("arith.subi", result, (quotient, one))
    return kind.wrap(emit("arith.select", result, (adjust, lower, quotient)))


def _needs_adjusting(kind: type[Numeric], rest: Any, b: Numeric) -> Any:
    """Emit the condition under which truncation and flooring differ."""
    session = require("//")
    flag = session.type(like(kind, "i1"))
    zero = constant(session, kind.ir_text, 0)
    less, unequal = {"predicate": predicate(2)}, {"predicate": predicate(1)}
    negative = emit("arith.cmpi", flag, (rest, zero), less)
    if b.is_static() and b.value > 0:
        return negative
    inexact = emit("arith.cmpi", flag, (rest, zero), unequal)
    divisor = emit("arith.cmpi", flag, (b.ir_value(), zero), less)
    differ = emit("arith.xori", flag, (negative, divisor))
    return emit("arith.andi", flag, (inexact, differ))


def _by_power_of_two(op: str, a: Numeric, divisor: int) -> Numeric:
    """Emit a shift or a mask, which floor by themselves."""
    kind = type(a)
    session = require("//")
    if op == "mod":
        mask = constant(session, kind.ir_text, divisor - 1)
        return kind.wrap(emit("arith.andi", kind.ir_type, (a.ir_value(), mask)))
    if divisor == 1:
        return a
    count = constant(session, kind.ir_text, divisor.bit_length() - 1)
    name = "arith.shrsi" if kind.signed else "arith.shrui"
    return kind.wrap(emit(name, kind.ir_type, (a.ir_value(), count)))


def _float_floor(op: str, a: Numeric, b: Numeric) -> Numeric:
    kind = type(a)
    if op == "floordiv" and kind.width < 32:
        # Whole numbers of a half stop at 2048: the steps need more digits than the result.
        return narrowed(kind, _float_floor(op, widened(a), widened(b)))
    x, y, result, flags = a.ir_value(), b.ir_value(), kind.ir_type, float_attributes()
    session = require("%")
    flag = session.type(like(kind, "i1"))
    zero = constant(session, kind.ir_text, 0.0)
    rest = emit("arith.remf", result, (x, y), flags)
    inexact = emit("arith.cmpf", flag, (rest, zero), {"predicate": predicate(6)})  # one
    negative = emit("arith.cmpf", flag, (rest, zero), {"predicate": predicate(4)})  # olt
    divisor = emit("arith.cmpf", flag, (y, zero), {"predicate": predicate(4)})
    differ = emit("arith.xori", flag, (negative, divisor))
    adjust = emit("arith.andi", flag, (inexact, differ))
    if op == "floordiv":
        return kind.wrap(_float_quotient(kind, (x, y), rest, adjust, flags))
    moved = emit("arith.addf", result, (rest, y), flags)
    signed = emit("math.copysign", result, (rest, y))
    is_zero = emit("arith.cmpf", flag, (rest, zero), {"predicate": predicate(1)})  # oeq
    kept = emit("arith.select", result, (is_zero, signed, rest))
    return kind.wrap(emit("arith.select", result, (adjust, moved, kept)))


def _float_quotient(
    kind: type[Numeric], operands: tuple[Any, Any], rest: Any, adjust: Any, flags: Any
) -> Any:
    """Emit the floor of a quotient from its C remainder, as Python and NumPy do.

    Rounding x / y first could reach the next integer: 1 / 0.1 rounds to 10, but its floor is 9. So
    the remainder is taken off, which leaves a whole number up to rounding.
    """
    x, y = operands
    session = require("//")
    result, flag = kind.ir_type, session.type(like(kind, "i1"))
    zero, one, half = (constant(session, kind.ir_text, n) for n in (0.0, 1.0, 0.5))
    plain = emit("arith.divf", result, (x, y), flags)
    whole = emit("arith.divf", result, (emit("arith.subf", result, (x, rest), flags), y), flags)
    lower = emit("arith.subf", result, (whole, one), flags)
    whole = emit("arith.select", result, (adjust, lower, whole))
    floor = emit("math.floor", result, (whole,), flags)
    above = emit("arith.subf", result, (whole, floor), flags)
    short = emit("arith.cmpf", flag, (above, half), {"predicate": predicate(2)})  # ogt
    next_ = emit("arith.addf", result, (floor, one), flags)
    found = emit("arith.select", result, (short, next_, floor))
    # A zero keeps the sign of the quotient, and division by zero gives the quotient itself.
    is_zero = emit("arith.cmpf", flag, (found, zero), {"predicate": predicate(1)})  # oeq
    signed = emit("math.copysign", result, (zero, plain))
    found = emit("arith.select", result, (is_zero, signed, found))
    by_zero = emit("arith.cmpf", flag, (y, zero), {"predicate": predicate(1)})
    return emit("arith.select", result, (by_zero, plain, found))


def power(a: Numeric, b: Numeric) -> Numeric:
    """Return ``a ** b``: folded, multiplied out for small static exponents, else a math operation.

    Raises:
        UserZeroDivisionError: Static zero to a negative power.
    """
    common = common_type(type(a), type(b), True)
    if a.is_static() and b.is_static():
        return _static_power(common, a, b)
    if b.is_static() and b.is_integer and 0 < b.value <= 16:
        kind = common if a.is_integer else type(a)
        return _multiplied(convert(a, kind), int(b.value))
    if common.is_float and common.width < 16:
        return narrowed(common, power(widened(convert(a, common)), widened(convert(b, common))))
    if a.is_float and b.is_integer:
        kind = type(a)
        operands = (a.ir_value(), b.ir_value())
        return kind.wrap(emit("math.fpowi", kind.ir_type, operands))
    operands = (convert(a, common).ir_value(), convert(b, common).ir_value())
    name = "math.powf" if common.is_float else "math.ipowi"
    return common.wrap(emit(name, common.ir_type, operands))


def _static_power(common: type[Numeric], a: Numeric, b: Numeric) -> Numeric:
    if a.value == 0 and b.value < 0:
        raise UserZeroDivisionError(
            "zero is raised to a negative power", code="FLY-U278", value=f"{a.value} ** {b.value}"
        )
    result = a.value**b.value
    if isinstance(result, complex):
        raise UserTypeError("this power is not a real number", code="FLY-U208", value=(a, b))
    if common.is_integer and isinstance(result, int):
        return common.static(fold_integer(common, result))
    return (common if common.is_float else named("Float32")).rounded(float(result))


def _multiplied(a: Numeric, exponent: int) -> Numeric:
    kind = type(a)
    if kind.is_float and kind.width < 16:
        return narrowed(kind, _multiplied(widened(a), exponent))
    name = "arith.mulf" if kind.is_float else "arith.muli"
    flags = float_attributes() if kind.is_float else None

    def times(x: Numeric, y: Numeric) -> Numeric:
        return kind.wrap(emit(name, kind.ir_type, (x.ir_value(), y.ir_value()), flags))

    result: Numeric | None = None
    square = a
    while exponent:
        if exponent & 1:
            result = square if result is None else times(result, square)
        exponent >>= 1
        if exponent:
            square = times(square, square)
    assert result is not None
    return result


def negate(a: Numeric) -> Numeric:
    """Return ``-a``; unsigned values wrap.

    Raises:
        UserTypeError: `a` is a `Boolean`.
    """
    kind = type(a)
    if kind.width == 1:
        raise UserTypeError(
            "a Boolean cannot be negated",
            code="FLY-U208",
            hint="use `not x`, `~x` or x.to(fx.Int32)",
        )
    if a.is_static():
        return (
            kind.rounded(-a.value) if kind.is_float else kind.static(fold_integer(kind, -a.value))
        )
    if kind.is_integer:
        zero = constant(require("-"), kind.ir_text, 0)
        return kind.wrap(emit("arith.subi", kind.ir_type, (zero, a.value)))
    if kind.width < 16:
        return narrowed(kind, negate(widened(a)))
    return kind.wrap(emit("arith.negf", kind.ir_type, (a.value,), float_attributes()))


def absolute(a: Numeric) -> Numeric:
    """Return ``abs(a)``; the least signed integer maps to itself.

    Raises:
        UserTypeError: `a` is a `Boolean`.
    """
    kind = type(a)
    if kind.width == 1:
        raise UserTypeError("a Boolean has no absolute value", code="FLY-U208")
    if kind.is_integer and not kind.signed:
        return a
    if a.is_static():
        return kind.static(fold_integer(kind, abs(a.value)) if kind.is_integer else abs(a.value))
    if kind.is_float and kind.width < 16:
        return narrowed(kind, absolute(widened(a)))
    return kind.wrap(emit("math.absf" if kind.is_float else "math.absi", kind.ir_type, (a.value,)))
