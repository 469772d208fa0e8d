"""Placeholders for variables without a value: using one raises at the user's line."""

from __future__ import annotations

from typing import Any, NoReturn

from flydsl.errors import UserRuntimeError

__all__ = ["ABSENT", "UNSET", "Missing", "Unset"]


class Missing:
    """A name that a dynamic region leaves without a usable value.

    Args:
        name: The variable.
        reason: Why it has none, as a clause.
        hint: What to write instead.
    """

    def __init__(self, name: str, reason: str, hint: str) -> None:
        object.__setattr__(self, "_fly_missing", (name, reason, hint))

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        name, reason, hint = object.__getattribute__(self, "_fly_missing")
        raise UserRuntimeError(f"{name!r} has no value here: {reason}", code="FLY-U213", hint=hint)

    # Whatever takes a number (a store, a conversion, a launch argument) asks for it by this name.
    __fly_scalar__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        self._refuse()

    def __repr__(self) -> str:
        return "<no value>"


for _name in [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
    "radd",
    "rsub",
    "rmul",
    "rtruediv",
    "rfloordiv",
    "rmod",
    "rpow",
    "rand",
    "ror",
    "rxor",
    "rlshift",
    "rrshift",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "neg",
    "pos",
    "abs",
    "invert",
    "bool",
    "int",
    "float",
    "index",
    "getitem",
    "setitem",
    "iter",
    "len",
    "call",
    "contains",
]:
    setattr(Missing, f"__{_name}__", Missing._refuse)
Missing.__hash__ = object.__hash__  # type: ignore[method-assign]


class Unset:
    """The return value before any ``return`` has run; merges with any value."""

    def __repr__(self) -> str:
        return "<unset>"


UNSET = Unset()


class _Absent:
    def __repr__(self) -> str:
        return "<absent>"


ABSENT = _Absent()
"""Content of a variable, slot or attribute that does not exist."""
