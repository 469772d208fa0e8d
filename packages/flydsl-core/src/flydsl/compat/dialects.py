"""``flydsl._mlir.dialects``: the dialects of the bindings, and builders of the Fly dialect."""

from __future__ import annotations

import importlib
from typing import Any

from flydsl.compat.aliases import target_of

__all__: list[str] = []

__path__: list[str] = []


def __getattr__(name: str) -> Any:
    """Import the builders of a dialect.

    Raises:
        AttributeError: There is no such dialect.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return importlib.import_module(str(target_of(f"flydsl._mlir.dialects.{name}")))
    except ModuleNotFoundError as error:
        raise AttributeError(f"there is no dialect {name!r}") from error
