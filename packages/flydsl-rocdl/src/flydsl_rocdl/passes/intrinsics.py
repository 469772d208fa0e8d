"""Intrinsic calls that LLVM checks: `fx.llvm.call_intrinsic` and the raw builders of ``fx.rocdl``.

MLIR's translation does not survive an intrinsic that it does not know or that is called with wrong
types. Such calls therefore become calls of functions with a name of our own (`PREFIX`), and
`restored` gives them the intrinsic's name in LLVM's text, without a declaration: LLVM's parser then
finds the overload, or says what is wrong.
"""

from __future__ import annotations

import re
from typing import Any

from flydsl import mlir
from flydsl.expr.llvm import CALLED
from flydsl_rocdl.passes.lowering import Lowering

__all__ = ["PREFIX", "called", "keep_apart", "replace", "restored"]

PREFIX = "fly_intrinsic"
_APART = "fly_apart"
_CALLS = frozenset({"llvm.call", "llvm.call_intrinsic"})
_CONSTANTS = frozenset({"llvm.mlir.constant", "arith.constant"})
_DECLARATION = re.compile(rf'^declare [^\n]*@"?{PREFIX}\.\d+\.[^\n]*\n', re.MULTILINE)
_USE = re.compile(rf'@"?{PREFIX}\.\d+\.([\w.]+)"?')


def replace(low: Lowering, function: Any) -> None:
    """Turn the marked intrinsic calls of a function into calls of functions."""
    calls: list[Any] = []

    def note(op: Any) -> Any:
        if op.name == "llvm.call_intrinsic" and CALLED in op.attributes:
            calls.append(op)
        return mlir.ir.WalkResult.ADVANCE

    function.walk(note)
    for op in calls:
        low.b.at(op)
        results = [r.type for r in op.results]
        made = called(low, str(op.attributes["intrin"].value), results, list(op.operands))
        for old, new in zip(op.results, made.results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()


def called(
    low: Lowering, name: str, results: list[Any], operands: list[Any],
    flags: dict[str, str] | None = None,
) -> Any:  # fmt: skip
    """Return the call of a function that becomes one of the intrinsic `name`.

    Args:
        low: The lowering.
        name: The intrinsic, with the types it is overloaded for.
        results: Types of the results.
        operands: Operands.
        flags: More attributes of the call, such as scopes that it does not alias.
    """
    attributes = _attributes(low, name, results, operands) | (flags or {})
    return low.b.op("llvm.call", results, operands, attributes)


def _attributes(
    low: Lowering, name: str, results: list[Any], operands: list[Any]
) -> dict[str, str]:
    inputs = ", ".join(str(v.type) for v in operands)
    signature = f"!llvm.func<{results[0] if results else 'void'} ({inputs})>"
    symbol = low.intrinsics.get((name, signature))
    if symbol is None:
        symbol = f"{PREFIX}.{len(low.intrinsics)}.{name}"
        low.intrinsics[name, signature] = symbol
        low.b.declare(low.module, symbol, signature)
    return {
        "callee": f"@{symbol}",
        "CConv": "#llvm.cconv<ccc>",
        "TailCallKind": "#llvm.tailcallkind<none>",
        "fastmathFlags": "#llvm.fastmath<none>",
        "op_bundle_sizes": "array<i32>",
        "operandSegmentSizes": f"array<i32: {len(operands)}, 0>",
    }


def keep_apart(low: Lowering, function: Any) -> None:
    """Number the calls in branches of `function` that have constants as operands.

    MLIR joins blocks that differ in constants only and passes these as arguments, but an intrinsic
    may want an immediate. Blocks with numbers are not equal; LLVM does not see them.
    """
    calls: list[Any] = []
    advance = mlir.ir.WalkResult.ADVANCE

    def note(op: Any) -> Any:
        name = op.name
        called = name in _CALLS or name.startswith("rocdl.")
        if called and len(op.operands) and op.parent.name != "gpu.func" and _has_constants(op):
            calls.append(op)
        return advance

    function.walk(note)
    for number, op in enumerate(calls):
        op.attributes[_APART] = low.b.attribute(f"{number} : i64")


def _has_constants(op: Any) -> bool:
    owners = (getattr(v.owner, "name", "") for v in op.operands)
    return any(owner in _CONSTANTS for owner in owners)


def restored(text: str) -> str:
    """Return LLVM IR with the intrinsics' own names."""
    if PREFIX not in text:
        return text
    return _USE.sub(r"@\1", _DECLARATION.sub("", text))
