"""Attributes of arithmetic operations, made once per trace."""

from __future__ import annotations

from typing import Any

from flydsl.expr.ambient import current, require

__all__ = ["float_attributes", "predicate"]


def predicate(code: int) -> Any:
    """Return the predicate attribute number `code` of ``arith.cmpi`` or ``arith.cmpf``."""
    session = require("a comparison")
    found = session.attributes.get(("predicate", code))
    if found is None:
        found = session.ir.Attribute.parse(f"{code} : i64")
        session.attributes["predicate", code] = found
    return found


def float_attributes() -> dict[str, Any] | None:
    """Return the ambient fast-math attribute for a floating-point operation, or None."""
    session = current()
    if session is None or session.fastmath is None:
        return None
    return {"fastmath": session.fastmath}
