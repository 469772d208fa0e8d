"""Matrix operations by shape and element types."""

from __future__ import annotations

from typing import Any

from flydsl.errors import TargetError, UserValueError
from flydsl.expr.ambient import in_trace
from flydsl.expr.pointers import element_class
from flydsl_rocdl.arch import ArchFacts, MatrixShape, instruction_type
from flydsl_rocdl.atoms import mfma, wmma
from flydsl_rocdl.expr.access import amd_facts

__all__ = ["MFMA", "WMMA"]


def MFMA(m: int, n: int, k: int, elem_ab: Any, acc: Any = None) -> mfma.MFMA:  # noqa: N802
    """Return the matrix multiply-add of one wave64.

    Args:
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A.
        elem_ab: Element type of A and B, or a pair of both.
        acc: Element type of C and D; default f32, for integers i32.

    Raises:
        UserError: No instruction has these extents.
        TargetError: The architecture being compiled for has no such instruction.
    """
    a, b, accumulator = _types(elem_ab, acc)
    made = mfma.MFMA(m, n, k, a.ir_text, b.ir_text, accumulator)
    if in_trace():
        _check(made, amd_facts("MFMA"))
    return made


def WMMA(  # noqa: N802
    m: int,
    n: int,
    k: int,
    elem_ab: Any,
    acc: Any = None,
    *,
    sign_a: bool | None = None,
    sign_b: bool | None = None,
    clamp: bool = False,
) -> wmma.WMMA:
    """Return the matrix multiply-add of one wave32, laid out as the architecture wants it.

    Args:
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A.
        elem_ab: Element type of A and B, or a pair of both.
        acc: Element type of C and D; default f32, for integers i32.
        sign_a: Whether the integers of A are signed; default as their type says.
        sign_b: The same for B.
        clamp: Whether integer results saturate.

    Raises:
        UserError: No instruction has these extents, or floats were given a keyword for integers.
        TargetError: The architecture being compiled for has no such instruction.
    """
    a, b, accumulator = _types(elem_ab, acc)
    if not a.is_integer and (sign_a is not None or sign_b is not None or clamp):
        raise UserValueError(
            "sign_a, sign_b and clamp are for integers",
            code="FLY-U630",
            value=a.__name__,
        )
    facts = amd_facts("WMMA")
    made = wmma.WMMA(
        m,
        n,
        k,
        a.ir_text,
        b.ir_text,
        accumulator,
        2 if "wmma-copies" in facts.has else 1,
        bool(a.signed if sign_a is None else sign_a),
        bool(b.signed if sign_b is None else sign_b),
        clamp,
    )
    _check(made, facts)
    return made


def _types(elem_ab: Any, acc: Any) -> tuple[Any, Any, str]:
    """Return the element classes of A and B, and the accumulator's type as MLIR text."""
    pair = elem_ab if isinstance(elem_ab, tuple) else (elem_ab, elem_ab)
    a, b = (element_class(e) for e in pair)
    if acc is None:
        return a, b, "i32" if a.is_integer else "f32"
    return a, b, element_class(acc).ir_text


def _check(operation: mfma.MFMA | wmma.WMMA, facts: ArchFacts) -> None:
    family = operation.prefix
    a, b = (instruction_type(e, family) for e in (operation.a, operation.b))
    wanted = MatrixShape(operation.m, operation.n, operation.k, a, b, operation.acc, "")
    known = [str(shape) for shape in facts.matrix if shape.family == family]
    if str(wanted) not in known:
        name = family.upper()
        raise TargetError(
            f"{facts.name} has no matrix instruction {wanted} for {name}",
            code="FLY-T634",
            allowed=", ".join(known) or f"none: this architecture has no {name}",
        )
