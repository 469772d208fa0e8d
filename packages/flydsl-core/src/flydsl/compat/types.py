"""``T``: IR types by short names (``T.f32``, ``T.i32x4``, ``T.vec(4, T.f16)``)."""

from __future__ import annotations

import re
from typing import Any

from flydsl.compat.operations import numeric_class
from flydsl.errors import UserAttributeError
from flydsl.expr.ambient import in_trace
from flydsl.expr.numeric import BY_TEXT
from flydsl.expr.vector import vector_alias

__all__ = ["T"]

_VECTOR = re.compile(r"(\w+?)x(\d+)")


class _Types:
    """Types as attributes; inside a trace IR types, outside the classes of fx."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        kind = BY_TEXT.get(name)
        if kind is not None:
            return kind.ir_type if in_trace() else kind
        vector = _VECTOR.fullmatch(name)
        if vector and vector[1] in BY_TEXT:
            return self.vec(int(vector[2]), BY_TEXT[vector[1]])
        raise UserAttributeError(
            "T has no such type",
            code="FLY-U508",
            value=name,
            hint="T.f32, T.i32x4, T.vec(n, T.f16)",
        )

    def vec(self, count: int, element: Any) -> Any:
        """Return the type of a vector of `count` elements."""
        alias = vector_alias(numeric_class(element), (count,))
        return alias.ir_type if in_trace() else alias


T = _Types()
