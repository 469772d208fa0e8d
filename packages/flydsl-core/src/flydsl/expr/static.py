"""Compile-time control: conditions and loops that must be decided while tracing."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserRuntimeError
from flydsl.expr.numeric import Numeric
from flydsl.expr.numeric.promote import as_numeric

__all__ = ["const_expr", "range_constexpr"]


def const_expr(value: Any) -> Any:
    """Check that a condition is compile-time and return it; for an ``if`` decided while tracing.

    Raises:
        UserRuntimeError: `value` is known only at run time.
    """
    number = as_numeric(value)
    if number is not None and not number.is_static():
        raise UserRuntimeError(
            "const_expr needs a value that is known while tracing",
            code="FLY-U234",
            value=value,
            hint="use a plain `if` for run-time conditions, or pass the value as fx.Constexpr",
        )
    return value if number is None else number.value


def range_constexpr(*bounds: Any) -> range:
    """Unroll a loop while tracing: return a Python range.

    Raises:
        UserRuntimeError: A bound is known only at run time.
    """
    out: list[int] = []
    for bound in bounds:
        scalar = bound.__fly_scalar__() if hasattr(bound, "__fly_scalar__") else bound
        if isinstance(scalar, Numeric) and not scalar.is_static():
            raise UserRuntimeError(
                "range_constexpr needs bounds that are known while tracing",
                code="FLY-U234",
                value=bound,
                hint="use range(...) for a run-time loop",
            )
        out.append(scalar.__index__())
    return range(*out)
