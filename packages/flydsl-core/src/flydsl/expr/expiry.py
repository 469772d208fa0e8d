"""What becomes of DSL values when the trace, or the kernel, that they belong to has ended.

A value that user code has kept, in a global or a closure, would refer to freed memory. So every
value that is made is noted, and at the end those that something still refers to lose what they
hold; using one then raises instead of ending the process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

from flydsl.errors import UserRuntimeError

__all__ = ["EXPIRED", "expire", "guarded"]


class _Expired:
    """Stands in for an IR value that is gone; whatever is asked of it raises."""

    __slots__ = ()

    def explain_use(self) -> NoReturn:
        """Raise what using it means."""
        _refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        _refuse()

    def __repr__(self) -> str:
        return "<value of a trace that has ended>"


EXPIRED = _Expired()


def _refuse() -> NoReturn:
    raise UserRuntimeError(
        "a value of another trace or another kernel is used",
        code="FLY-U299",
        hint="do not keep run-time values in globals, caches or closures: compute them again in "
        "each kernel, or pass them as arguments",
    )


def expire(values: list[Any]) -> None:
    """Take from `values`, and from nothing else, what something besides the list refers to."""
    count = sys.getrefcount
    for value in values:
        # The list, the loop variable and the argument.
        if count(value) > 3:
            value.value = EXPIRED
    values.clear()


def guarded(create: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``Operation.create`` with an explanation for expired operands."""

    def explained(name: str, results: Any, operands: Any, *rest: Any) -> Any:
        try:
            return create(name, results, operands, *rest)
        except TypeError:
            if any(operand is EXPIRED for operand in operands):
                _refuse()
            raise

    return explained
