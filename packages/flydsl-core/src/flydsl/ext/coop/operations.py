"""Combining operations, by name or as functions of two values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.enums import ReductionOp
from flydsl.expr.extremes import extreme
from flydsl.expr.numeric import Numeric
from flydsl.expr.vector import Vector
from flydsl.ext.coop.parts import map_parts, same_kinds
from flydsl.frontend.runtime import CACHE

__all__ = ["Operation", "identity_of", "operation"]


@dataclass(frozen=True, slots=True)
class Operation:
    """An associative operation; made by `operation`, or by hand for a commutative function.

    Attributes:
        name: For messages; names with a neutral value are those of `operation`.
        function: The operation on two values of one type.
        commutative: Whether the order of the operands does not matter.
    """

    name: str
    function: Callable[[Any, Any], Any]
    commutative: bool

    def __call__(self, a: Any, b: Any) -> Any:
        """Return the combination of two values; `a` comes from the lower thread.

        Raises:
            UserTypeError: The result is of another type.
        """
        return same_kinds(a, self.function(a, b))


_SCALAR: dict[str, Callable[[Any, Any], Any]] = {
    "sum": operator.add,
    "mul": operator.mul,
    "max": lambda a, b: extreme("max", a, b),
    "min": lambda a, b: extreme("min", a, b),
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
_OTHER_NAMES = {
    "add": "sum",
    "product": "mul",
    "maximum": "max",
    "minimum": "min",
    ReductionOp.ADD: "sum",
    ReductionOp.MUL: "mul",
    ReductionOp.MAX: "max",
    ReductionOp.MIN: "min",
    operator.add: "sum",
    operator.mul: "mul",
    operator.and_: "and",
    operator.or_: "or",
    operator.xor: "xor",
}


def operation(op: Any) -> Operation:
    """Return the operation that `op` names or is.

    Args:
        op: ``"sum"``, ``"mul"``, ``"max"``, ``"min"`` (both NaN if an operand is), ``"and"``,
            ``"or"``, ``"xor"``, a `ReductionOp`, an `Operation`, or an associative function of two
            values.

    Raises:
        UserError: There is no such operation, or it is no function.
    """
    if isinstance(op, Operation):
        return op
    try:
        name = _OTHER_NAMES.get(op, op)
    except TypeError:  # unhashable
        name = op
    if isinstance(name, str):
        scalar = _SCALAR.get(name)
        if scalar is None:
            raise UserValueError(
                "no such operation", code="FLY-U280", value=name, allowed=", ".join(_SCALAR)
            )
        return Operation(name, lambda a, b: map_parts(scalar, a, b), True)
    if not callable(op):
        raise UserTypeError(
            "an operation is a name or a function of two values", code="FLY-U280", value=op
        )
    return Operation(getattr(op, "__name__", "op"), CACHE.callable_for(op), False)


def identity_of(op: Operation, value: Any) -> Any:
    """Return the neutral value of a named operation, in the types of `value`.

    Raises:
        UserTypeError: The operation is a function, whose neutral value is not known.
    """
    if op.name not in _SCALAR or not op.commutative:
        raise UserTypeError(
            "an exclusive scan with a function needs the value of the first thread",
            code="FLY-U282",
            hint="pass init=",
        )
    return map_parts(lambda part: _filled(part, _neutral(op.name, part.dtype)), value)


def _filled(part: Any, number: int | float) -> Any:
    if isinstance(part, Vector):
        return Vector.filled(part.shape, number, part.dtype)
    return type(part)(number)


def _neutral(name: str, kind: type[Numeric]) -> int | float:
    if name in ("sum", "or", "xor"):
        return kind.zero
    if name == "mul":
        return 1
    signed = kind.signed and kind.width > 1
    low, high = (-(1 << kind.width - 1), (1 << kind.width - 1) - 1)
    if not signed:
        low, high = 0, (1 << kind.width) - 1
    if name == "and":
        return -1 if signed else high
    if kind.is_float:
        return float("-inf") if name == "max" else float("inf")
    return low if name == "max" else high
