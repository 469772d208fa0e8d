"""Integer operations that have no LLVM counterpart: rounding divisions.

Python's ``//`` and ``%`` round towards minus infinity (DESIGN §11.11), LLVM's towards zero.
"""

from __future__ import annotations

from typing import Any

from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.lowering import Lowering, rule

__all__: list[str] = []

_EQ, _NE, _SLT = 0, 1, 2


def _constant(low: Lowering, like: Value, number: int) -> Value:
    text = str(like.type)
    value = f"dense<{number}> : {text}" if text.startswith("vector<") else f"{number} : {text}"
    return low.b.value("arith.constant", like.type, (), {"value": value})


def _compare(low: Lowering, predicate: int, a: Value, b: Value) -> Value:
    text = str(a.type)
    kind = "i1"
    if text.startswith("vector<"):
        kind = text[: text.rindex("x") + 1] + "i1>"
    return low.b.value("arith.cmpi", low.b.type(kind), (a, b), {"predicate": f"{predicate} : i64"})


def _inexact(low: Lowering, a: Value, b: Value, same_sign: bool) -> tuple[Value, Value]:
    """Return (truncated quotient, whether it must be stepped for signs equal or unequal)."""
    quotient = low.b.binary("arith.divsi", a, b)
    zero = _constant(low, a, 0)
    remainder = low.b.binary("arith.subi", a, low.b.binary("arith.muli", quotient, b))
    inexact = _compare(low, _NE, remainder, zero)
    negative = [_compare(low, _SLT, v, zero) for v in (a, b)]
    signs = _compare(low, _EQ if same_sign else _NE, *negative)
    return quotient, low.b.binary("arith.andi", inexact, signs)


@rule("arith.floordivsi")
def floor_divide(low: Lowering, op: Any) -> list[Value]:
    """Signed division rounded towards minus infinity."""
    quotient, step = _inexact(low, op.operands[0], op.operands[1], same_sign=False)
    less = low.b.binary("arith.subi", quotient, _constant(low, quotient, 1))
    return [low.b.value("arith.select", quotient.type, (step, less, quotient))]


@rule("arith.ceildivsi")
def ceil_divide(low: Lowering, op: Any) -> list[Value]:
    """Signed division rounded towards plus infinity."""
    quotient, step = _inexact(low, op.operands[0], op.operands[1], same_sign=True)
    more = low.b.binary("arith.addi", quotient, _constant(low, quotient, 1))
    return [low.b.value("arith.select", quotient.type, (step, more, quotient))]


@rule("arith.ceildivui")
def ceil_divide_unsigned(low: Lowering, op: Any) -> list[Value]:
    """Unsigned division rounded up, without overflow: 0 or (a - 1) / b + 1."""
    a, b = op.operands
    zero, one = _constant(low, a, 0), _constant(low, a, 1)
    less = low.b.binary("arith.subi", a, one)
    more = low.b.binary("arith.addi", low.b.binary("arith.divui", less, b), one)
    empty = _compare(low, _EQ, a, zero)
    return [low.b.value("arith.select", a.type, (empty, zero, more))]
