"""Parsers that turn the text of an environment variable into a typed value.

A parser is a frozen object with a one-line description of what it accepts; it raises `ValueError`
for anything else and never guesses. `flydsl.config.settings` adds the variable's name to the error.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

__all__ = [
    "Parser",
    "as_text",
    "boolean",
    "choice",
    "integer",
    "names",
    "number",
    "path",
    "power_of_two",
    "text",
]

T = TypeVar("T")

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Parser(Generic[T]):
    """How to read one kind of value.

    Attributes:
        kind: Short type name for listings, e.g. ``"int"``.
        accepts: What is allowed, for error messages.
        parse: Converts stripped, non-empty text; raises `ValueError` when it does not fit.
    """

    kind: str
    accepts: str
    parse: Callable[[str], T]


def _boolean(value: str) -> bool:
    word = value.lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError(value)


boolean: Parser[bool] = Parser("bool", "1/true/yes/on or 0/false/no/off", _boolean)
"""Case-insensitive truth words."""

text: Parser[str] = Parser("str", "any text", str)
"""The text itself."""

path: Parser[Path] = Parser("path", "a path", lambda value: Path(value).expanduser())
"""A file-system path; a leading ``~`` is expanded."""


def _names(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


names: Parser[tuple[str, ...]] = Parser("list", "comma-separated names", _names)
"""Comma-separated names; blanks around them and empty ones are dropped."""


def integer(low: int | None = None, high: int | None = None) -> Parser[int]:
    """Return a parser for a decimal integer within ``[low, high]`` (None: unbounded)."""

    def parse(value: str) -> int:
        number = int(value, 10)
        if (low is not None and number < low) or (high is not None and number > high):
            raise ValueError(value)
        return number

    return Parser("int", "an integer" + _range(low, high), parse)


def power_of_two(low: int, high: int) -> Parser[int]:
    """Return a parser for a power of two within ``[low, high]``."""

    def parse(value: str) -> int:
        number = int(value, 10)
        if not low <= number <= high or number & (number - 1):
            raise ValueError(value)
        return number

    return Parser("int", f"a power of two from {low} to {high}", parse)


def number(low: float | None = None, high: float | None = None) -> Parser[float]:
    """Return a parser for a finite real number within ``[low, high]`` (None: unbounded)."""

    def parse(value: str) -> float:
        real = float(value)
        if not abs(real) < float("inf"):
            raise ValueError(value)
        if (low is not None and real < low) or (high is not None and real > high):
            raise ValueError(value)
        return real

    return Parser("float", "a finite number" + _range(low, high), parse)


def choice(*allowed: str) -> Parser[str]:
    """Return a parser that accepts one of `allowed`, ignoring case, and returns it as listed."""
    by_lower = {word.lower(): word for word in allowed}

    def parse(value: str) -> str:
        if value.lower() not in by_lower:
            raise ValueError(value)
        return by_lower[value.lower()]

    return Parser("choice", "one of " + ", ".join(allowed), parse)


def as_text(kind: str, value: object) -> str | None:
    """Return the text that stands for a value in the environment; None if it has another kind.

    Args:
        kind: The parser's `Parser.kind`.
        value: Anything but text.
    """
    if kind == "bool":
        return str(int(value)) if isinstance(value, int) and value in (0, 1) else None
    if kind in ("int", "float"):
        kinds = int if kind == "int" else (int, float)
        return str(value) if isinstance(value, kinds) and not isinstance(value, bool) else None
    if kind == "path":
        return os.fspath(value) if isinstance(value, os.PathLike) else None
    if kind == "list" and isinstance(value, (tuple, list, set, frozenset)):
        items = sorted(value) if isinstance(value, (set, frozenset)) else value
        plain = all(isinstance(item, str) and "," not in item for item in items)
        return ",".join(items) if plain else None
    return None


def _range(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if low is not None:
        return f" of at least {low}"
    if high is not None:
        return f" of at most {high}"
    return ""
