"""Creating operations: one function per shape of operation, all with the user's location."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from flydsl.expr.ambient import IRType, IRValue, Session, require

__all__ = ["constant", "emit", "emit_op", "index_type", "integer_attribute", "located"]


def emit(
    name: str,
    result: IRType,
    operands: Sequence[IRValue],
    attributes: Mapping[str, Any] | None = None,
) -> IRValue:
    """Create an operation with one result at the insertion point and return the result."""
    session = require(name)
    return session.create(
        name, (result,), operands, attributes, None, 0, session.locations.here()
    ).result


def emit_op(
    name: str,
    results: Sequence[IRType],
    operands: Sequence[IRValue],
    attributes: Mapping[str, Any] | None = None,
    regions: int = 0,
) -> Any:
    """Create an operation with any number of results and return the operation."""
    session = require(name)
    return session.create(
        name, results, operands, attributes, None, regions, session.locations.here()
    )


def integer_attribute(session: Session, width: int, value: int) -> Any:
    """Return the attribute ``value : i<width>``, made once per session."""
    key = (width, value)
    found = session.attributes.get(key)
    if found is None:
        kind = session.type(f"i{width}")
        found = session.attributes[key] = session.ir.IntegerAttr.get(kind, value)
    return found


def index_type(session: Session) -> IRType:
    """Return the IR type ``index``."""
    return session.type("index")


def constant(session: Session, type_text: str, value: int | float) -> IRValue:
    """Create an ``arith.constant`` of a builtin scalar type, or a splat of a vector of one.

    Integers are taken modulo two to the width; floats must be exact in the type.
    """
    key = (type_text, value) if value else (type_text, value, str(value))  # 0.0 is not -0.0
    found = session.attributes.get(key)
    if found is None:
        kind = session.type(type_text)
        attribute = _constant_attribute(session, kind, type_text, value)
        found = session.attributes[key] = ((kind,), {"value": attribute})
    kinds, attributes = found
    return session.create(
        "arith.constant", kinds, (), attributes, None, 0, session.locations.here()
    ).result


def _constant_attribute(session: Session, kind: IRType, text: str, value: int | float) -> Any:
    ir = session.ir
    if text.startswith("vector<"):
        element = text[text.rindex("x", 0, -1) + 1 : -1] if "index" not in text else "index"
        scalar = _constant_attribute(session, session.type(element), element, value)
        return ir.DenseElementsAttr.get_splat(kind, scalar)
    if isinstance(value, float):
        return ir.FloatAttr.get(kind, value)
    if text == "index":
        return ir.IntegerAttr.get(kind, value)
    width = int(text[1:])
    value &= (1 << width) - 1
    if width > 64:  # the bindings take 64-bit integers only
        return ir.Attribute.parse(f"{value} : {text}")
    if value >= 1 << (width - 1):
        value -= 1 << width
    if width == 1:
        return ir.IntegerAttr.get(kind, -value)
    return ir.IntegerAttr.get(kind, value)


@contextmanager
def located() -> Iterator[Session]:
    """Make the user's place the ambient location, for builders that take no location."""
    session = require("this operation")
    with session.locations.here():
        yield session
