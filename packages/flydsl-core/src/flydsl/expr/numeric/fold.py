"""Folding of static operands: the value that the operation would compute at run time."""

from __future__ import annotations

import math
from typing import Any

from flydsl.expr.numeric.base import Numeric
from flydsl.expr.numeric.convert import fold_integer

__all__ = ["all_ones", "binary", "compare"]


def binary(op: str, kind: type[Numeric], a: Any, b: Any) -> Any:
    """Return ``a op b`` in class `kind`; both operands are values of that class.

    Raises:
        ZeroDivisionError: Integer division by zero.
    """
    if kind.format is not None:
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
    if op == "floordiv":
        return a // b
    if op == "mod":
        return a % b
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


def _shifted_out(count: int) -> int:
    if count < 0:
        raise ValueError("negative shift count")  # as Python
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
    if op == "floordiv":
        quotient = _quotient(a, b)
        return (
            quotient
            if math.isnan(quotient) or math.isinf(quotient)
            else float(math.floor(quotient))
        )
    return _modulo(a, b)


def _quotient(a: float, b: float) -> float:
    if b != 0.0:
        return a / b
    if a == 0.0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _modulo(a: float, b: float) -> float:
    """Return the remainder with the divisor's sign; NaN where C's fmod is."""
    if math.isinf(a) or b == 0.0 or math.isnan(a) or math.isnan(b):
        return math.nan
    rest = math.fmod(a, b)
    if rest != 0.0 and (rest < 0.0) != (b < 0.0):
        return rest + b
    return math.copysign(0.0, b) if rest == 0.0 else rest
