"""Python's built-in functions that decide about their arguments, for run-time numbers.

``min``, ``max``, ``any`` and ``all`` ask for truth values, which run-time numbers do not have. In
traced functions they are computed with selections and logical operations instead, by the same
rules: of equal values the first one, and every item is evaluated before the call.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from flydsl.errors import UserTypeError
from flydsl.expr.numeric import Boolean, Numeric, as_numeric
from flydsl.expr.numeric.operators import select

__all__ = ["built_in"]


def _run_time(items: list[Any]) -> bool:
    return any(isinstance(item, Numeric) and not item.is_static() for item in items)


def _items(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any] | None:
    """Return the values to choose from, if one is a run-time number and nothing else is asked."""
    if keywords or not arguments:
        return None
    if len(arguments) > 1:
        items = list(arguments)
    elif isinstance(arguments[0], (list, tuple)):
        items = list(arguments[0])
    else:
        return None
    return items if _run_time(items) else None


def _extreme(function: Callable[..., Any], better: Callable[[Any, Any], Any]) -> Any:
    def call(*arguments: Any, **keywords: Any) -> Any:
        items = _items(arguments, keywords)
        if items is None:
            return function(*arguments, **keywords)
        numbers = [as_numeric(item) for item in items]
        if any(number is None for number in numbers):
            raise UserTypeError(
                f"{function.__name__}() of run-time values takes numbers", code="FLY-U216",
                value=next(item for item, n in zip(items, numbers, strict=True) if n is None),
            )  # fmt: skip
        best: Any = numbers[0]
        for number in numbers[1:]:
            best = select(better(number, best), number, best)
        return best

    return call


def _fold(function: Callable[..., Any], conjunction: bool) -> Any:
    def call(*arguments: Any) -> Any:
        if len(arguments) != 1:
            return function(*arguments)
        result: Any = None
        for item in arguments[0]:
            if isinstance(item, Numeric) and not item.is_static():
                flag = item.to(Boolean)
                if result is None:
                    result = flag
                else:
                    result = result & flag if conjunction else result | flag
            elif bool(item) is not conjunction:
                return not conjunction
        return conjunction if result is None else result

    return call


_REPLACED: dict[int, Callable[..., Any]] = {
    id(builtins.max): _extreme(builtins.max, lambda a, b: a > b),
    id(builtins.min): _extreme(builtins.min, lambda a, b: a < b),
    id(builtins.any): _fold(builtins.any, False),
    id(builtins.all): _fold(builtins.all, True),
}


def built_in(function: Any) -> Any:
    """Return what to call instead of a built-in function; most are called as they are."""
    return _REPLACED.get(id(function), function)
