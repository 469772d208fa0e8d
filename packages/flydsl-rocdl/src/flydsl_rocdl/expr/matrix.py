"""Matrix operations by shape and element types."""

from __future__ import annotations

from typing import Any

from flydsl.errors import TargetError
from flydsl.expr.ambient import in_trace
from flydsl.expr.pointers import element_class
from flydsl_rocdl.arch import INSTRUCTION_TYPES, MatrixShape
from flydsl_rocdl.atoms import mfma
from flydsl_rocdl.expr.access import amd_facts

__all__ = ["MFMA"]


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
    pair = elem_ab if isinstance(elem_ab, tuple) else (elem_ab, elem_ab)
    a, b = (element_class(e) for e in pair)
    if acc is None:
        accumulator = "i32" if a.is_integer else "f32"
    else:
        accumulator = element_class(acc).ir_text
    made = mfma.MFMA(m, n, k, a.ir_text, b.ir_text, accumulator)
    if in_trace():
        _check(made)
    return made


def _check(operation: mfma.MFMA) -> None:
    facts = amd_facts("MFMA")
    a, b = (INSTRUCTION_TYPES.get(e, e) for e in (operation.a, operation.b))
    wanted = MatrixShape(operation.m, operation.n, operation.k, a, b, operation.acc, "")
    known = [str(shape) for shape in facts.matrix if shape.family == "mfma"]
    if str(wanted) not in known:
        raise TargetError(
            f"{facts.name} has no matrix instruction {wanted} for MFMA",
            code="FLY-T634",
            allowed=", ".join(known) or "none: this architecture has no MFMA",
        )
