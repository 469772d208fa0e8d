"""``flydsl.compiler.protocol``: what traced values implement.

How a launcher argument is passed is an `ArgSpec`; plugins describe their own kinds with the hook
``flydsl_argument``.
"""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

from flydsl.plugins.payloads import ArgSpec

__all__ = ["ArgSpec", "DslType"]


@runtime_checkable
class DslType(Protocol):
    """A value of traced code that control flow and launches can carry."""

    def __fly_values__(self) -> list[Any]:
        """Return the IR values that it consists of."""

    def __fly_rebuild__(self, values: list[Any]) -> Self:
        """Return the same kind of value made of other IR values."""
