"""Public names of a package that are imported when they are asked for (PEP 562)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["imported_from"]


def imported_from(space: dict[str, Any], homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``, which imports a name once and keeps it.

    Args:
        space: The package's ``globals()``.
        homes: The module of each name; one that begins with a point is inside the package.
    """

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {space['__name__']!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home, space["__name__"]), name)
        space[name] = value
        return value

    return find
