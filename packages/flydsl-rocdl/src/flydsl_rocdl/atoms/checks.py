"""What the matrix operations share: checks of their parameters and common layouts."""

from __future__ import annotations

from typing import Any

from flydsl.errors import TargetError, UserValueError
from flydsl.layout import Layout
from flydsl_rocdl.arch import INSTRUCTION_TYPES, ArchFacts, MatrixShape, instruction_type

__all__ = [
    "EIGHT_BIT",
    "HALVES",
    "SMALL_FLOATS",
    "bad_shape",
    "check_choice",
    "instruction_for",
    "rows_then_columns",
]

EIGHT_BIT = ("f8E4M3FNUZ", "f8E4M3FN", "f8E5M2FNUZ", "f8E5M2")
"""Floats of 8 bits; which two of them exist is the architecture's choice."""
HALVES = ("f16", "bf16")
SMALL_FLOATS = ("f8E4M3FN", "f8E5M2", "f6E2M3FN", "f6E3M2FN", "f4E2M1FN")
"""Floats that instructions with scales take."""


def bad_shape(name: str, value: object, allowed: str) -> UserValueError:
    """Return the error for extents or types that no instruction of any architecture has."""
    return UserValueError(
        f"no {name} has these extents or types", code="FLY-U630", value=value, allowed=allowed
    )


def check_choice(name: str, what: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise UserError unless `value` is one of `allowed` (True is not 1 here)."""
    if not any(value == item and type(value) is type(item) for item in allowed):
        raise UserValueError(
            f"{what} of {name} has no such value",
            code="FLY-U630",
            value=value,
            allowed=", ".join(map(str, allowed)),
        )


def rows_then_columns(rows: int, groups: int, columns: int) -> Layout:
    """Return the layout in which lane ``g * rows + r`` holds `columns` columns from g on of row r.

    Args:
        rows: Rows of the operand, each in its own lane.
        groups: Groups of `rows` lanes.
        columns: Neighbouring columns of one lane.
    """
    return Layout(((rows, groups), columns), ((1, rows * columns), rows))


def instruction_for(facts: ArchFacts, operation: Any) -> MatrixShape:
    """Return the instruction of an architecture that does `operation`.

    Args:
        facts: The architecture.
        operation: One of the matrix operations of this package.

    Raises:
        TargetError: There is none; the message lists what the architecture has of this kind.
    """
    family = operation.prefix
    m, n, k, blocks = operation.instruction_mnk
    a, b = (instruction_type(e, family) for e in (operation.a, operation.b))
    known = [shape for shape in facts.matrix if shape.family == family]
    suffix = getattr(operation, "intrinsic_prefix", family.replace("_", "."))
    wanted = MatrixShape(m, n, k, a, b, operation.acc, "", 0, blocks)
    for shape in known:
        if str(shape) == str(wanted) and shape.intrinsic.startswith(f"{suffix}."):
            _check_flavour(facts, operation)
            _check_options(facts, operation)
            return shape
    name = family.upper()
    listed = ", ".join(dict.fromkeys(str(shape) for shape in known))
    raise TargetError(
        f"{facts.name} has no matrix instruction {wanted} for {name}",
        code="FLY-T634",
        value=str(operation),
        allowed=listed or f"none: this architecture has no {name}",
    )


def _check_flavour(facts: ArchFacts, operation: Any) -> None:
    """Raise unless 8-bit floats are those that the architecture multiplies."""
    for element in (operation.a, operation.b):
        if INSTRUCTION_TYPES.get(element) not in ("fp8", "bf8"):
            continue
        if element.endswith("FNUZ") != (facts.fp8 == "fnuz"):
            wanted = [e for e in EIGHT_BIT if e.endswith("FNUZ") == (facts.fp8 == "fnuz")]
            raise TargetError(
                f"the matrix instructions of {facts.name} do not read {element}",
                code="FLY-T634",
                value=str(operation),
                allowed=", ".join(wanted),
                hint="the two flavours read the same bits as other values; choose by target",
            )


def _check_options(facts: ArchFacts, operation: Any) -> None:
    """Raise unless layout and modifiers of a wave matrix operation are the architecture's."""
    reuse = "wmma-reuse" in facts.has
    if operation.prefix == "wmma" and (
        (operation.copies == 2) != ("wmma-copies" in facts.has) or operation.interleaved != reuse
    ):
        raise TargetError(
            f"{facts.name} lays out the operands of WMMA in another way",
            code="FLY-T634",
            value=str(operation),
            allowed="the operation that fx.rocdl.WMMA makes for this architecture",
        )
    names = ("mod_c", "reuse_a", "reuse_b") if not reuse else ()
    for name in names:
        if getattr(operation, name, False):
            raise TargetError(
                f"the matrix instructions of {facts.name} have no {name}",
                code="FLY-T634",
                value=str(operation),
            )
