"""Plain objects of the user's: which are carried attribute by attribute, and their attributes."""

from __future__ import annotations

import types
from typing import Any

from flydsl.diagnostics import is_framework_module

__all__ = ["is_own_class", "is_record", "record_made", "record_slots", "record_state"]

_FOREIGN = frozenset(
    {"builtins", "collections", "enum", "torch", "numpy", "functools", "itertools"}
)


def is_own_class(kind: type) -> bool:
    """Return whether a class is the user's: not FlyDSL's, Python's or an array library's."""
    module = kind.__module__
    return not is_framework_module(module) and module.partition(".")[0] not in _FOREIGN


def is_record(value: object) -> bool:
    """Return whether a value is a plain object of the user's, carried attribute by attribute."""
    kind = type(value)
    if kind is types.SimpleNamespace:
        return True
    plain = (type, types.ModuleType, types.FunctionType, types.MethodType, BaseException)
    if isinstance(value, plain) or not is_own_class(kind):
        return False
    return hasattr(value, "__dict__") or bool(record_slots(kind))


def record_slots(kind: type) -> tuple[str, ...]:
    """Return the names of a class's slots, those of its bases first."""
    names: list[str] = []
    for base in reversed(kind.__mro__):
        own = base.__dict__.get("__slots__", ())
        for name in (own,) if isinstance(own, str) else own:
            if name not in ("__dict__", "__weakref__"):
                mangled = name.startswith("__") and not name.endswith("__")
                names.append(f"_{base.__name__.lstrip('_')}{name}" if mangled else name)
    return tuple(names)


def record_state(value: Any) -> dict[str, Any]:
    """Return a plain object's attributes, in slots or not."""
    state = {name: getattr(value, name) for name in record_slots(type(value)) if _has(value, name)}
    state.update(getattr(value, "__dict__", {}))
    return state


def _has(value: Any, name: str) -> bool:
    try:
        object.__getattribute__(value, name)
    except AttributeError:
        return False
    return True


def record_made(kind: type, state: dict[str, Any]) -> Any:
    """Return an object of a plain class with these attributes; its constructor does not run."""
    if kind is types.SimpleNamespace:
        return types.SimpleNamespace(**state)
    made: Any = object.__new__(kind)
    for name, item in state.items():
        object.__setattr__(made, name, item)
    return made
