"""Runs straight-line arith functions in Python: what a lowering computes, without a back end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flydsl.mlir import ir


def _wrap(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


def _unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def _trunc_div(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_COMPARE = {
    0: lambda a, b: a == b,
    1: lambda a, b: a != b,
    2: lambda a, b: a < b,
    3: lambda a, b: a <= b,
}
_SIGNED = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "shli": lambda a, b: a << b,
    "shrsi": lambda a, b: a >> b,
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
    "divsi": _trunc_div,
    "remsi": lambda a, b: a - b * _trunc_div(a, b),
    "minsi": min,
    "maxsi": max,
}
_UNSIGNED = {
    "divui": lambda a, b: a // b,
    "remui": lambda a, b: a % b,
    "shrui": lambda a, b: a >> b,
}


def _bits(type_: Any) -> int:
    return 64 if str(type_) == "index" else int(str(type_)[1:])


def call(function: Any, arguments: Sequence[int]) -> list[int]:
    """Return what a func.func with one block returns for integer arguments.

    An operation marked ``overflow<nsw>`` must not overflow.
    """
    block = function.regions[0].blocks[0]
    values: dict[Any, int] = dict(zip(block.arguments, arguments, strict=True))
    for view in block.operations:
        op = view.operation
        name = op.name.removeprefix("arith.")
        operands = [values[x] for x in op.operands]
        if op.name == "func.return":
            return operands
        bits = _bits(op.result.type)
        if name == "constant":
            result = ir.IntegerAttr(op.attributes["value"]).value
        elif name in _SIGNED:
            exact = _SIGNED[name](*operands)
            result = _wrap(exact, bits)
            if "nsw" in str(op):
                assert result == exact, f"{op} overflows for {operands}"
            if "nuw" in str(op):
                unsigned = [_unsigned(x, bits) for x in operands]
                exact = _SIGNED[name](*unsigned)
                assert 0 <= exact < 1 << bits, f"{op} overflows unsigned for {operands}"
        elif name in _UNSIGNED:
            result = _wrap(_UNSIGNED[name](*(_unsigned(x, bits) for x in operands)), bits)
        elif name in ("extsi", "index_cast"):
            result = _wrap(operands[0], bits)
        elif name == "extui":
            narrow = _bits(op.operands[0].type)
            assert operands[0] >= 0 or "nonNeg" not in str(op), f"{op} of {operands[0]}"
            result = _unsigned(operands[0], narrow)
        elif name == "cmpi":
            result = int(_COMPARE[ir.IntegerAttr(op.attributes["predicate"]).value](*operands))
        else:
            raise NotImplementedError(op.name)
        values[op.result] = result
    raise AssertionError("no return")
