"""What the functions of ``fx.rocdl`` share: the AMD target of the trace and raw operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from flydsl.errors import TargetError, UserTypeError, UserValueError
from flydsl.expr.ambient import IRType, IRValue, Session, require
from flydsl.expr.emit import emit, emit_op
from flydsl.expr.numeric import Int32, Numeric, as_numeric
from flydsl_rocdl.arch import ArchFacts
from flydsl_rocdl.target import RocdlTarget

__all__ = [
    "amd_facts",
    "effect",
    "immediate",
    "intrinsic",
    "ir_i32",
    "operation",
    "when",
    "word",
]


def amd_facts(what: str) -> ArchFacts:
    """Return the facts of the architecture being compiled for.

    Args:
        what: The caller, for the message.

    Raises:
        UserRuntimeError: Nothing is being traced.
        TargetError: The trace is not for an AMD target.
    """
    target = require(what).target
    if not isinstance(target, RocdlTarget):
        name = getattr(target, "name", "no target")
        raise TargetError(f"{what} needs an AMD target", code="FLY-T640", value=name)
    return target.facts


def immediate(what: str, value: object, low: int, high: int) -> int:
    """Return a compile-time integer operand.

    Args:
        what: The operand, for the message.
        value: A Python int or a static integer.
        low: Smallest allowed value.
        high: Largest allowed value.

    Raises:
        UserTypeError: Not a compile-time integer.
        UserValueError: Out of range.
    """
    number = value
    if isinstance(value, Numeric) and value.is_static() and value.is_integer:
        number = int(value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise UserTypeError(
            f"{what} must be a compile-time integer",
            code="FLY-U612",
            value=value,
            hint="it is an immediate of the instruction; use a Constexpr",
        )
    if not low <= number <= high:
        raise UserValueError(
            f"{what} is out of range", code="FLY-U613", value=number, allowed=f"{low} to {high}"
        )
    return number


def operation(name: str, **attributes: str) -> None:
    """Create an operation without operands or results; attributes are given as MLIR text."""
    session = require(name)
    key = ("operation", *sorted(attributes.items()))
    found = session.attributes.get(key)
    if found is None:
        parse = session.ir.Attribute.parse
        found = session.attributes[key] = {k: parse(v) for k, v in attributes.items()}
    emit_op(name, (), (), found)


def _call(session: Session, name: str, operands: int) -> Mapping[str, Any]:
    """Return the attributes of a call of ``llvm.<name>``, made once per session."""
    key = ("intrinsic", name, operands)
    found: Mapping[str, Any] | None = session.attributes.get(key)
    if found is None:
        found = session.attributes[key] = {
            "intrin": session.ir.StringAttr.get(f"llvm.{name}"),
            "fastmathFlags": session.ir.Attribute.parse("#llvm.fastmath<none>"),
            "op_bundle_sizes": session.ir.DenseI32ArrayAttr.get([]),
            "operandSegmentSizes": session.ir.DenseI32ArrayAttr.get([operands, 0]),
        }
    return found


def intrinsic(name: str, result: IRType, operands: Sequence[IRValue]) -> IRValue:
    """Call ``llvm.<name>`` and return its value."""
    session = require(name)
    return emit("llvm.call_intrinsic", result, operands, _call(session, name, len(operands)))


def effect(
    name: str, operands: Sequence[IRValue], attributes: Mapping[str, str] | None = None
) -> None:
    """Call ``llvm.<name>`` for its effect; attributes are given as MLIR text."""
    session = require(name)
    found = dict(_call(session, name, len(operands)))
    found.update({k: session.ir.Attribute.parse(v) for k, v in (attributes or {}).items()})
    emit_op("llvm.call_intrinsic", (), operands, found)


def ir_i32(what: str, value: object) -> IRValue:
    """Return an i32 IR value of a number.

    Raises:
        UserTypeError: Not a number of 32-bit integer type.
    """
    number = as_numeric(value)
    if number is None or not number.is_integer or number.width != 32:
        raise UserTypeError(f"{what} must be a 32-bit integer", code="FLY-U614", value=value)
    return number.ir_value()


def word(what: str, value: object) -> tuple[IRValue, type[Numeric]]:
    """Return (bits of a 32-bit number as i32, its class).

    Raises:
        UserTypeError: Not a number of 32 bits.
    """
    number = as_numeric(value)
    if number is None or number.width != 32:
        raise UserTypeError(
            f"{what} takes a 32-bit number", code="FLY-U614", value=value,
            allowed="Int32, Uint32 or Float32",
        )  # fmt: skip
    bits = number.ir_value()
    if number.is_float:
        bits = emit("arith.bitcast", Int32.ir_type, (bits,))
    return bits, type(number)


@contextmanager
def when(condition: IRValue) -> Iterator[None]:
    """Put what is traced inside the block under a condition (an i1)."""
    session = require("when")
    here = session.locations.here
    guard = session.create("scf.if", (), (condition,), None, None, 2, here())
    for number, region in enumerate(guard.regions):
        with session.ir.InsertionPoint(region.blocks.append()):
            if number == 0:
                yield
            session.create("scf.yield", (), (), None, None, 0, here())
