"""Folding of static operands: the value that the operation would compute at run time."""

from __future__ import annotations

import math
from typing import Any

from flydsl.errors import UserValueError, UserZeroDivisionError
from flydsl.expr.numeric.base import Numeric
from flydsl.expr.numeric.convert import fold_integer
from flydsl.expr.numeric.formats import FORMATS, FloatFormat

__all__ = ["all_ones", "binary", "by_zero", "compare", "negative_shift"]


def binary(op: str, kind: type[Numeric], a: Any, b: Any) -> Any:
    """Return ``a op b`` in class `kind`; both operands are values of that class.

    Raises:
        UserZeroDivisionError: Integer division by zero.
        UserValueError: A negative shift count.
    """
    if kind.format is not None:
        if op == "floordiv":
            return kind.format.round(_floor_quotient(kind.format, a, b))
        return kind.format.round(_float(op, a, b))
    return fold_integer(kind, _integer(op, kind, int(a), int(b)))


def compare(op: str, a: Any, b: Any) -> bool:
    """Return the truth value of a comparison."""
    if op == "eq":
        return bool(a == b)
    if op == "ne":
        return bool(a != b)
    if op == "lt":
        return bool(a < b)
    if op == "le":
        return bool(a <= b)
    return bool(a > b) if op == "gt" else bool(a >= b)


def all_ones(kind: type[Numeric]) -> int:
    """Return the value of an integer class with all bits set."""
    return fold_integer(kind, -1)


def _integer(op: str, kind: type[Numeric], a: int, b: int) -> int:
    if op == "add":
        return a + b
    if op == "sub":
        return a - b
    if op == "mul":
        return a * b
    if op in ("floordiv", "mod"):
        if b == 0:
            raise by_zero(a)
        return a // b if op == "floordiv" else a % b
    if op == "and":
        return a & b
    if op == "or":
        return a | b
    if op == "xor":
        return a ^ b
    if op == "shl":
        return a << b if 0 <= b < kind.width else _shifted_out(b)
    if 0 <= b < kind.width:
        return a >> b
    return -1 if a < 0 and b > 0 else _shifted_out(b)


def by_zero(dividend: object) -> UserZeroDivisionError:
    """Return the error for an integer that is divided by a static zero."""
    return UserZeroDivisionError(
        "an integer is divided by zero", code="FLY-U278", value=f"{dividend} divided by 0"
    )


def negative_shift(count: int) -> UserValueError:
    """Return the error for a shift by a static, negative count."""
    return UserValueError(
        "a shift count is negative", code="FLY-U279", value=count, allowed="0 and above"
    )


def _shifted_out(count: int) -> int:
    if count < 0:
        raise negative_shift(count)
    return 0


def _float(op: str, a: float, b: float) -> float:
    if op == "add":
        return a + b
    if op == "sub":
        return a - b
    if op == "mul":
        return a * b
    if op == "div":
        return _quotient(a, b)
    return _modulo(a, b)


def _quotient(a: float, b: float) -> float:
    if b != 0.0:
        return a / b
    if a == 0.0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _floor_quotient(form: FloatFormat, a: float, b: float) -> float:
    """Return ``a // b`` by the steps that a device takes, each rounded as it rounds."""
    scale = form.specials == "scale"
    step = (FORMATS["f64" if scale else "f32"] if form.width < 32 else form).round
    plain = step(_quotient(a, b))
    if b == 0.0 or math.isnan(plain) or math.isinf(a):
        return plain if b == 0.0 else math.nan
    rest = math.fmod(a, b)
    whole = step(_quotient(step(a - rest), b))
    if rest != 0.0 and (rest < 0.0) != (b < 0.0):
        whole = step(whole - 1.0)
    if math.isinf(whole):
        return whole
    found = float(math.floor(whole))
    if whole - found > 0.5:
        found = step(found + 1.0)
    return found if found != 0.0 else math.copysign(0.0, plain)


def _modulo(a: float, b: float) -> float:
    """Return the remainder with the divisor's sign; NaN where C's fmod is."""
    if math.isinf(a) or b == 0.0 or math.isnan(a) or math.isnan(b):
        return math.nan
    rest = math.fmod(a, b)
    if rest != 0.0 and (rest < 0.0) != (b < 0.0):
        return rest + b
    return math.copysign(0.0, b) if rest == 0.0 else rest
