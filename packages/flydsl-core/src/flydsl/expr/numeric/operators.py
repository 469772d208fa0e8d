"""Operators of numeric classes: promotion, folding of static operands, and the operation emitted.

Integer ``//`` and ``%`` floor, as in Python, for static and dynamic operands alike; unsigned forms
are used for unsigned classes. Float ``//`` is ``floor(a / b)`` and ``%`` has the divisor's sign.
Integer ``/`` computes in `Float32` (`Float64` above 32 bits). Shifts by the width or more give what
Python's would in this width: zero, or copies of the sign; a run-time count that is negative counts
as a large one, a static one raises. Floats of less than 16 bits compute in `Float32` and round.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar

from flydsl.errors import UserTypeError
from flydsl.expr.ambient import require
from flydsl.expr.emit import emit
from flydsl.expr.numeric import divide, fold
from flydsl.expr.numeric.attributes import float_attributes, predicate
from flydsl.expr.numeric.base import Numeric, like, literal, named
from flydsl.expr.numeric.convert import bitcast, convert, initial_value, narrowed, widened
from flydsl.expr.numeric.promote import as_operand, common_type

__all__ = ["Arithmetic", "arithmetic", "compare", "emit_arithmetic", "emit_comparison", "select"]

N = TypeVar("N", bound=Numeric)

# (signed integer, unsigned integer, float)
_NAMES: dict[str, tuple[str, str, str]] = {
    "add": ("arith.addi", "arith.addi", "arith.addf"),
    "sub": ("arith.subi", "arith.subi", "arith.subf"),
    "mul": ("arith.muli", "arith.muli", "arith.mulf"),
    "div": ("", "", "arith.divf"),
    "and": ("arith.andi", "arith.andi", ""),
    "or": ("arith.ori", "arith.ori", ""),
    "xor": ("arith.xori", "arith.xori", ""),
    "shl": ("arith.shli", "arith.shli", ""),
    "shr": ("arith.shrsi", "arith.shrui", ""),
}
_WIDEN_BOOL = frozenset({"add", "sub", "mul", "div", "floordiv", "mod"})
_SYMBOLS = {"and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>"}
# Predicate numbers of arith.cmpi (signed, unsigned) and arith.cmpf (ordered; unordered for `!=`).
_PREDICATES: dict[str, tuple[int, int, int]] = {
    "eq": (0, 0, 1),
    "ne": (1, 1, 13),
    "lt": (2, 6, 4),
    "le": (3, 7, 5),
    "gt": (4, 8, 2),
    "ge": (5, 9, 3),
}

_ULT = _PREDICATES["lt"][1]


def arithmetic(op: str, a: Numeric, b: Numeric) -> Numeric:
    """Apply the binary operator `op` (``"add"``, ``"floordiv"``, ``"shl"``, …) to two numerics.

    Raises:
        UserTypeError: A bitwise operator on floats.
        UserZeroDivisionError: Static integer division by zero.
        UserValueError: A static, negative shift count.
    """
    cls = type(a)
    if cls is type(b) and cls.width > 1:
        common: type[Numeric] = cls
    else:
        common = common_type(cls, type(b), op in _WIDEN_BOOL)
    if op == "div" and common.is_integer:
        common = divide.quotient_type(common)
    if common.is_float and op in _SYMBOLS:
        raise UserTypeError(
            f"operator {_SYMBOLS[op]} needs integers",
            code="FLY-U208",
            value=(type(a), type(b)),
            hint="bitcast floats to an unsigned type of the same width first",
        )
    if op == "div" and common.is_integer:  # Index / Index
        op = "floordiv"
    if a.is_static() and b.is_static():
        x, y = convert(a, common).value, convert(b, common).value
        return common.static(fold.binary(op, common, x, y))
    return emit_arithmetic(op, convert(a, common), convert(b, common))


def emit_arithmetic(op: str, a: Numeric, b: Numeric) -> Numeric:
    """Emit a binary operation on two numerics of one class (scalars or lanes)."""
    common = type(a)
    if common.is_float and common.width < 16:
        # Computed in Float32 and rounded once more, which never changes a result this narrow.
        return narrowed(common, emit_arithmetic(op, widened(a), widened(b)))
    if op in ("floordiv", "mod"):
        return divide.floor_divide(op, a, b)
    if op in ("shl", "shr") and b.is_static():
        if b.value >= common.width:
            return _shifted_out(op, a)
        if b.value < 0:
            raise fold.negative_shift(int(b.value))
    elif op in ("shl", "shr"):
        return _shifted(op, a, b)
    names = _NAMES[op]
    if common.is_float:
        result = emit(names[2], common.ir_type, (a.ir_value(), b.ir_value()), float_attributes())
    else:
        name = names[0] if common.signed and common.width > 1 else names[1]
        result = emit(name, common.ir_type, (a.ir_value(), b.ir_value()))
    return common.wrap(result)


def _shifted(op: str, a: Numeric, b: Numeric) -> Numeric:
    """Shift by a run-time count, which may be the width or more."""
    kind = type(a)
    count, signed = b.ir_value(), kind.signed and kind.width > 1
    if op == "shr" and signed:
        last = literal(kind, kind.width - 1)
        count = emit("arith.minui", kind.ir_type, (count, last))
        return kind.wrap(emit("arith.shrsi", kind.ir_type, (a.ir_value(), count)))
    moved = emit(_NAMES[op][1], kind.ir_type, (a.ir_value(), count))
    width = literal(kind, kind.width) if kind.width > 1 else literal(kind, True)
    flag = require("a shift").type(like(kind, "i1"))
    inside = emit("arith.cmpi", flag, (count, width), {"predicate": predicate(_ULT)})
    zero = literal(kind, 0)
    return kind.wrap(emit("arith.select", kind.ir_type, (inside, moved, zero)))


def _shifted_out(op: str, a: Numeric) -> Numeric:
    """Shift by the width or more: zero, or copies of the sign."""
    kind = type(a)
    if op == "shl" or not kind.signed or kind.width == 1:
        return kind.wrap(literal(kind, 0))
    return emit_arithmetic("shr", a, kind.static(kind.width - 1))


def compare(op: str, a: Numeric, b: Numeric) -> Numeric:
    """Apply a comparison (``"eq"``, ``"lt"``, …) and return a `Boolean`."""
    boolean = named("Boolean")
    ordering = op not in ("eq", "ne")
    common = common_type(type(a), type(b), ordering)
    if a.is_static() and b.is_static():
        return boolean.static(fold.compare(op, convert(a, common).value, convert(b, common).value))
    return boolean.wrap(emit_comparison(op, convert(a, common), convert(b, common)))


def emit_comparison(op: str, a: Numeric, b: Numeric) -> Any:
    """Emit a comparison of two numerics of one class (scalars or lanes); return the IR value."""
    common = type(a)
    if common.is_float and common.width < 16:
        return emit_comparison(op, widened(a), widened(b))
    signed, unsigned, real = _PREDICATES[op]
    if common.is_float:
        attributes = {"predicate": predicate(real), **(float_attributes() or {})}
        name = "arith.cmpf"
    else:
        attributes = {"predicate": predicate(signed if common.signed else unsigned)}
        name = "arith.cmpi"
    result = require("a comparison").type(like(common, "i1"))
    return emit(name, result, (a.ir_value(), b.ir_value()), attributes)


def select(condition: object, yes: object, no: object) -> Any:
    """Return `yes` where `condition` is true, else `no`; both are evaluated.

    The branches are promoted to their common type. A static condition, which a Python bool or
    number is, returns one of them. A vector chooses lane by lane.

    Raises:
        UserTypeError: The branches have no common type, or the condition is no number.
    """
    number, a, b = as_operand(condition), as_operand(yes), as_operand(no)
    if number is None or a is None or b is None:
        for value in (condition, yes, no):
            other = getattr(value, "__fly_select__", None)
            if other is not None:
                return other(condition, yes, no)
        if number is None:
            raise UserTypeError("this is not a condition", code="FLY-U209", value=condition)
        raise UserTypeError(
            "select needs two numbers or two vectors",
            code="FLY-U209",
            value=(type(yes).__name__, type(no).__name__),
        )
    common = common_type(type(a), type(b))
    flag = convert(number, named("Boolean"))
    a, b = convert(a, common), convert(b, common)
    if flag.is_static():
        return a if flag.value else b
    operands = (flag.value, a.ir_value(), b.ir_value())
    return common.wrap(emit("arith.select", common.ir_type, operands))


class Arithmetic(Numeric):
    """A `Numeric` with its conversions and operators.

    Args:
        value: A Python number (must fit an integer class; is rounded to a float class), another
            numeric (converted as `to` does), or an IR value of a builtin scalar type.
    """

    __slots__ = ()

    def __init__(self, value: object) -> None:
        self.value = initial_value(type(self), value)

    def to(self, dtype: type[N], rounding_mode: object = None) -> N:
        """Convert to another numeric class (rules in `flydsl.expr.numeric.convert`)."""
        return convert(self, dtype, rounding_mode)

    def bitcast(self, dtype: type[N]) -> N:
        """Reinterpret the bits as another class of the same width.

        Raises:
            UserTypeError: The widths differ.
        """
        return bitcast(self, dtype)

    def _binary(self, op: str, other: object, swap: bool = False) -> Any:
        right = other if isinstance(other, Numeric) else as_operand(other)
        if right is None:
            return NotImplemented
        return arithmetic(op, right, self) if swap else arithmetic(op, self, right)

    def _compare(self, op: str, other: object) -> Any:
        right = other if isinstance(other, Numeric) else as_operand(other)
        return NotImplemented if right is None else compare(op, self, right)

    def __add__(self, other: object) -> Any:
        return self._binary("add", other)

    def __radd__(self, other: object) -> Any:
        return self._binary("add", other, True)

    def __sub__(self, other: object) -> Any:
        return self._binary("sub", other)

    def __rsub__(self, other: object) -> Any:
        return self._binary("sub", other, True)

    def __mul__(self, other: object) -> Any:
        return self._binary("mul", other)

    def __rmul__(self, other: object) -> Any:
        return self._binary("mul", other, True)

    def __truediv__(self, other: object) -> Any:
        return self._binary("div", other)

    def __rtruediv__(self, other: object) -> Any:
        return self._binary("div", other, True)

    def __floordiv__(self, other: object) -> Any:
        return self._binary("floordiv", other)

    def __rfloordiv__(self, other: object) -> Any:
        return self._binary("floordiv", other, True)

    def __mod__(self, other: object) -> Any:
        return self._binary("mod", other)

    def __rmod__(self, other: object) -> Any:
        return self._binary("mod", other, True)

    def __divmod__(self, other: object) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: object) -> Any:
        return other // self, other % self

    def __and__(self, other: object) -> Any:
        return self._binary("and", other)

    def __rand__(self, other: object) -> Any:
        return self._binary("and", other, True)

    def __or__(self, other: object) -> Any:
        return self._binary("or", other)

    def __ror__(self, other: object) -> Any:
        return self._binary("or", other, True)

    def __xor__(self, other: object) -> Any:
        return self._binary("xor", other)

    def __rxor__(self, other: object) -> Any:
        return self._binary("xor", other, True)

    def __lshift__(self, other: object) -> Any:
        return self._binary("shl", other)

    def __rlshift__(self, other: object) -> Any:
        return self._binary("shl", other, True)

    def __rshift__(self, other: object) -> Any:
        return self._binary("shr", other)

    def __rrshift__(self, other: object) -> Any:
        return self._binary("shr", other, True)

    def __pow__(self, other: object) -> Any:
        right = as_operand(other)
        return NotImplemented if right is None else divide.power(self, right)

    def __rpow__(self, other: object) -> Any:
        left = as_operand(other)
        return NotImplemented if left is None else divide.power(left, self)

    def __eq__(self, other: object) -> Any:
        return self._compare("eq", other)

    def __ne__(self, other: object) -> Any:
        return self._compare("ne", other)

    def __lt__(self, other: object) -> Any:
        return self._compare("lt", other)

    def __le__(self, other: object) -> Any:
        return self._compare("le", other)

    def __gt__(self, other: object) -> Any:
        return self._compare("gt", other)

    def __ge__(self, other: object) -> Any:
        return self._compare("ge", other)

    __hash__ = Numeric.__hash__

    def __neg__(self) -> Any:
        return divide.negate(self)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Any:
        return divide.absolute(self)

    def __invert__(self) -> Any:
        if self.is_float:
            raise UserTypeError("operator ~ needs an integer", code="FLY-U208", value=type(self))
        minus_one = type(self).static(fold.all_ones(type(self)))
        return arithmetic("xor", self, minus_one)

    def select(self, yes: object, no: object) -> Any:
        """Return `yes` where this is true (non-zero), else `no` (see `operators.select`)."""
        return select(self, yes, no)
