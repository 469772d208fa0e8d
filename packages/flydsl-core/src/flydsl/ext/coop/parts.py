"""The numbers and vectors that a value is made of, and values made of other ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flydsl.errors import UserTypeError
from flydsl.expr.numeric import Numeric, as_numeric
from flydsl.expr.vector import Vector
from flydsl.frontend.records import is_record, record_made, record_state

__all__ = ["Shape", "describe", "map_parts", "rebuilt", "same_kinds", "split"]

Shape = Callable[[Iterator[Any]], Any]
"""Makes a value of the same structure from other numbers and vectors."""


def split(value: Any) -> tuple[list[Any], Shape]:
    """Return the numbers and vectors of a value in order, and what puts others in their places.

    Raises:
        UserTypeError: Something in it is neither.
    """
    if isinstance(value, Vector):
        return [value], next
    number = as_numeric(value)
    if number is not None:
        return [number], next
    fields = _fields(value)
    if fields is None:
        raise UserTypeError(
            "threads combine numbers and vectors, and structs, named tuples, dicts, namespaces and "
            "dataclasses of them",
            code="FLY-U280",
            value=value,
        )
    parts: list[Any] = []
    shapes: dict[str, Shape] = {}
    for key, item in fields.items():
        inner, shapes[key] = split(item)
        parts.extend(inner)

    def build(values: Iterator[Any]) -> Any:
        return _made(value, {key: shape(values) for key, shape in shapes.items()})

    return parts, build


def _fields(value: Any) -> Mapping[Any, Any] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        named: Mapping[Any, Any] = value._asdict()
        return named
    if isinstance(value, (tuple, list)):
        return dict(enumerate(value))
    if hasattr(type(value), "__fly_fields__"):
        fields: Mapping[Any, Any] = value.__fly_fields__()
        return fields
    return record_state(value) if is_record(value) else None


def _made(value: Any, fields: dict[Any, Any]) -> Any:
    if isinstance(value, Mapping):
        return type(value)(fields)  # type: ignore[call-arg]
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return type(value)(**fields)
    if isinstance(value, (tuple, list)):
        return type(value)(fields.values())
    if hasattr(type(value), "__fly_fields__"):
        return value.replace(**fields)
    return record_made(type(value), fields)


def rebuilt(shape: Shape, parts: list[Any]) -> Any:
    """Return the value of a structure with these numbers and vectors."""
    return shape(iter(parts))


def map_parts(function: Callable[..., Any], value: Any, *others: Any) -> Any:
    """Return the value whose parts are `function` of the parts of values of one structure."""
    parts, shape = split(value)
    columns = [split(other)[0] for other in others]
    return rebuilt(shape, [function(*row) for row in zip(parts, *columns, strict=True)])


def describe(parts: list[Any]) -> str:
    """Return the classes of numbers and vectors in words."""
    return ", ".join(_kind(part) for part in parts)


def _kind(part: Any) -> str:
    if isinstance(part, Vector):
        return f"Vector[{part.dtype.__name__}, {part.shape}]"
    assert isinstance(part, Numeric)
    return type(part).__name__


def same_kinds(before: Any, after: Any) -> Any:
    """Return what an operation made of two values like `before`, checked to be like them.

    Python numbers become numbers of the wanted class.

    Raises:
        UserTypeError: It consists of other classes.
    """
    wanted, _ = split(before)
    found, shape = split(after)
    if len(found) == len(wanted):
        found = [
            type(a)(b.value)
            if isinstance(a, Numeric) and isinstance(b, Numeric) and b.is_static()
            else b
            for a, b in zip(wanted, found, strict=True)
        ]
    if describe(wanted) != describe(found):
        raise UserTypeError(
            "the operation returns something of another type than its operands",
            code="FLY-U281",
            value=describe(found),
            allowed=describe(wanted),
            hint="convert its result with .to(...), or the value before",
        )
    return rebuilt(shape, found)
