"""Loads every module that registers lowering rules; a new one is added to the list here."""

from __future__ import annotations

import importlib

__all__ = ["load"]

_MODULES = (
    "copies",
    "floats",
    "ids",
    "integers",
    "mathops",
    "matrix",
    "memory_model",
    "pointers",
    "shuffle",
)


def load() -> None:
    """Import the rule modules, which fill `flydsl_rocdl.passes.lowering.RULES`."""
    for name in _MODULES:
        importlib.import_module(f"flydsl_rocdl.passes.{name}")
