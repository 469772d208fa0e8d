"""Vectors filled with one value: ``full`` and its relatives."""

from __future__ import annotations

from typing import Any

from flydsl.expr.numeric import Numeric
from flydsl.expr.vector import Vector

__all__ = ["empty_like", "full", "full_like", "ones_like", "zeros_like"]


def full(shape: Any, value: Any, dtype: type[Numeric]) -> Vector:
    """Return a vector of `shape` with `value` in every element."""
    return Vector.filled(shape, value, dtype)


def full_like(template: Vector, value: Any, dtype: type[Numeric] | None = None) -> Vector:
    """Return a vector of the template's shape with `value` in every element."""
    return Vector.filled_like(template, value, dtype)


def zeros_like(template: Vector, dtype: type[Numeric] | None = None) -> Vector:
    """Return zeros in the template's shape."""
    return full_like(template, 0, dtype)


def ones_like(template: Vector, dtype: type[Numeric] | None = None) -> Vector:
    """Return ones in the template's shape."""
    return full_like(template, 1, dtype)


def empty_like(template: Vector, dtype: type[Numeric] | None = None) -> Vector:
    """Return zeros in the template's shape: nothing is ever left undefined."""
    return full_like(template, 0, dtype)
