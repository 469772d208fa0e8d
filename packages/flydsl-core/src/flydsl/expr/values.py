"""From IR types to DSL values: launcher arguments and results of operations."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from flydsl.errors import CompilerBug
from flydsl.expr.ambient import IRType, IRValue, Session
from flydsl.expr.annotations import Stream
from flydsl.expr.numeric import BY_TEXT

__all__ = ["argument_type"]

_ELEMENT = re.compile(r"(!fly\.(?:memref|ptr)<)\s*(ui\d+)\b")


def argument_type(session: Session, text: str) -> tuple[IRType, Callable[[IRValue], Any]]:
    """Return the IR type of a launcher parameter and what makes the DSL value of it.

    Args:
        session: The trace.
        text: ``ArgSpec.ir_type``: a scalar type (unsigned integers as ``ui32``), ``"stream"``, or a
            Fly tensor or pointer type, whose element type may be unsigned too.
    """
    if text == "stream":
        return session.type("i64"), Stream
    kind = BY_TEXT.get(text)
    if kind is not None:
        return session.type(kind.ir_text), kind.wrap
    found = _ELEMENT.match(text)
    element = None
    if found:
        element = BY_TEXT[found[2]]
        text = found[1] + element.ir_text + text[found.end() :]
    if not text.startswith(("!fly.memref<", "!fly.ptr<")):
        raise CompilerBug(f"no argument can have the type {text}", code="FLY-B206")
    from flydsl.expr.wrapping import wrap

    return session.type(text), lambda value: wrap(value, element)
