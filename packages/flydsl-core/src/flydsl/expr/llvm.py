"""``fx.llvm``: calls of LLVM intrinsics and inline assembly, for what has no operation of its own.

Nothing here is checked before LLVM sees it, except that types can be written down: an unknown
intrinsic, a wrong signature, or a run-time value where the instruction holds an immediate is a
`TargetError` when compiling.
"""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.ambient import IRType, IRValue, require
from flydsl.expr.emit import emit_op, located
from flydsl.expr.numeric import Numeric, as_numeric
from flydsl.expr.pointers import Pointer, to_llvm_ptr
from flydsl.expr.stored import loaded
from flydsl.expr.vector import Vector, VectorAlias

__all__ = ["CALLED", "call_intrinsic", "inline_asm"]

CALLED = "fly_called"
"""Attribute of intrinsic calls that LLVM, not MLIR, is to check."""


def _operand(value: Any) -> IRValue:
    """Return the IR value of an operand: a number, vector, pointer or IR value."""
    if isinstance(value, Pointer):
        return to_llvm_ptr(value)
    if isinstance(value, Vector):
        return value.value
    number = as_numeric(value)
    if number is not None:
        return number.ir_value()
    if isinstance(value, require("an LLVM operation").ir.Value):
        return value
    raise UserTypeError(
        "an LLVM operation takes numbers, vectors, pointers and IR values",
        code="FLY-U291",
        value=value,
    )


def _result(kind: Any) -> tuple[tuple[IRType, ...], Any]:
    """Return the result types of an operation, and how to wrap the result (None: as it is)."""
    if kind is None:
        return (), None
    session = require("an LLVM operation")
    if isinstance(kind, str):
        return (session.ir.Type.parse(kind),), None
    if isinstance(kind, session.ir.Type):
        return (kind,), None
    if isinstance(kind, VectorAlias) or (isinstance(kind, type) and issubclass(kind, Numeric)):
        return (kind.ir_type,), kind
    raise UserTypeError(
        "the result of an LLVM operation is a numeric class, a vector type, an IR type, MLIR text"
        " or None",
        code="FLY-U291",
        value=kind,
    )


def call_intrinsic(name: str, result: Any, *operands: Any) -> Any:
    """Call an LLVM intrinsic.

    Args:
        name: Full name without the suffix of overloads, for example ``"llvm.ctpop"``.
        result: Numeric class, vector type (``fx.Float32x4``), IR type, its MLIR text, or None.
        *operands: Numbers (a Python int is an Int32; write ``fx.Int16(1)`` for another width),
            vectors, pointers, or IR values.

    Returns:
        The result as `result` says, an IR value for IR types, or None.

    Raises:
        UserValueError: The name does not begin with ``llvm.``.
        UserTypeError: An operand or the result type cannot be used.
        TargetError: When compiling: LLVM has no such intrinsic, or not with these types.
    """
    if not name.startswith("llvm."):
        raise UserValueError(
            "the name of an intrinsic begins with llvm.", code="FLY-U291", value=name
        )
    session = require("call_intrinsic")
    with located():
        values = [_operand(value) for value in operands]
        types, kind = _result(result)
        ir = session.ir
        attributes = {
            "intrin": ir.StringAttr.get(name),
            "fastmathFlags": ir.Attribute.parse("#llvm.fastmath<none>"),
            "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(values), 0]),
            CALLED: ir.UnitAttr.get(),
        }
        op = emit_op("llvm.call_intrinsic", types, values, attributes)
    return _wrapped(op, types, kind)


def inline_asm(
    text: str, constraints: str, result: Any, *operands: Any, side_effects: bool = True
) -> Any:
    """Place assembly text in the kernel.

    Args:
        text: Instructions; ``$0`` is the result or the first operand, and so on.
        constraints: LLVM's constraint text, results first, for example ``"=v,v,v"``.
        result: As of `call_intrinsic`.
        *operands: As of `call_intrinsic`.
        side_effects: Keep it where it is even if the result is not used.

    Returns:
        As `call_intrinsic`.

    Raises:
        UserTypeError: An operand or the result type cannot be used.
        TargetError: When compiling: no assembler is found, or it rejects the text.
    """
    session = require("inline_asm")
    with located():
        values = [_operand(value) for value in operands]
        types, kind = _result(result)
        ir = session.ir
        attributes = {
            "asm_string": ir.StringAttr.get(text),
            "constraints": ir.StringAttr.get(constraints),
        }
        if side_effects:
            attributes["has_side_effects"] = ir.UnitAttr.get()
        op = emit_op("llvm.inline_asm", types, values, attributes)
    return _wrapped(op, types, kind)


def _wrapped(op: Any, types: tuple[IRType, ...], kind: Any) -> Any:
    if not types:
        return None
    return op.results[0] if kind is None else loaded(op.results[0], kind)
