"""Compile-time values as launcher arguments, and what tells one of them from another.

A compiled launcher must be found again for the same value only. Equality does not say that: ``1``
equals ``True`` and ``1.0``, ``0.0`` equals ``-0.0``, inside tuples and data classes too, and an
object whose attributes have changed is equal to itself.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import operator
from collections.abc import Callable, Hashable, Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from flydsl.diagnostics import is_framework_module
from flydsl.errors import UserTypeError
from flydsl.expr.annotations import ConstexprKind
from flydsl.frontend.contents import content_of
from flydsl.plugins.payloads import ArgSpec

__all__ = ["absent", "describe_static", "found_by_type", "same_as", "settled", "static_key"]

_EXACT = frozenset((int, bool, str, bytes, type(None), type(Ellipsis)))
"""Types whose values are the same where they are equal."""
_UNIQUE = (enum.Enum, type, FunctionType, BuiltinFunctionType, ModuleType)
"""Kinds of objects that are equal to themselves only; the scan of the program looks inside."""


def static_key(value: object) -> Hashable:
    """Return a key that is equal exactly for compile-time values that are the same.

    Tuples, frozen sets and frozen data classes count by what they hold; other objects of the user's
    classes also by what their attributes hold now.

    Raises:
        UserTypeError: The value cannot be hashed.
    """
    if type(value) is not tuple:
        try:
            hash(value)
        except TypeError as error:
            raise UserTypeError(
                f"a compile-time value of type {type(value).__name__} cannot be hashed",
                code="FLY-U408",
                value=value,
                allowed="int, bool, float, str, a tuple of these, a frozen data class, a type, or "
                "a function",
            ) from error
        return _key(value)
    return ("tuple", *(_held_key(v) if _closed(v) else static_key(v) for v in value))


def _key(value: Any, *, inside: bool = False) -> Hashable:
    kind: Any = type(value)
    if inside and _closed(value):
        # The scan of the program looks into functions that are arguments, not into held ones.
        return (kind, value, content_of(value).digest)
    if kind in _EXACT or isinstance(value, _UNIQUE):
        return (kind, value)
    if isinstance(value, float):
        return (kind, value.hex())
    if isinstance(value, tuple):
        return ("tuple" if kind is tuple else kind, *map(_held_key, value))
    if isinstance(value, frozenset):
        return (kind, frozenset(map(_held_key, value)))
    if is_framework_module(kind.__module__):
        # Layouts, atoms and numbers compare all that they are.
        return (kind, value)
    if _frozen(kind):
        return (kind, *map(_held_key, _fields(value)))
    digest = content_of(value).digest
    return (kind, digest) if getattr(kind, "__hash__", None) is None else (kind, value, digest)


_held_key = functools.partial(_key, inside=True)


def _closed(value: Any) -> bool:
    """Whether a value is a function with variables of another one, which may change."""
    return isinstance(value, FunctionType) and value.__closure__ is not None


def _frozen(kind: Any) -> bool:
    parameters = getattr(kind, "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def _fields(value: Any) -> Iterator[Any]:
    """Yield what the fields of a data class hold, those too that do not count for equality."""
    return (getattr(value, field.name) for field in dataclasses.fields(value))


def found_by_type(value: object) -> bool:
    """Whether an equal value of the same type is the same value."""
    kind = type(value)
    return kind in _EXACT or isinstance(value, _UNIQUE) or is_framework_module(kind.__module__)


def settled(value: Any) -> bool:
    """Whether the same object is the same value at any time."""
    kind = type(value)
    if found_by_type(value) or isinstance(value, float):
        return True
    held: Iterator[Any]
    if isinstance(value, (tuple, frozenset)):
        held = iter(value)
    elif _frozen(kind):
        held = _fields(value)
    else:
        return not content_of(value).mutable
    return all(settled(item) and not _closed(item) for item in held)


def same_as(value: object, key: Hashable = None) -> Callable[[object], bool]:
    """Return a function that tells whether another object is the same compile-time value.

    Args:
        value: The value.
        key: What its `static_key` was; None takes the one that it has now.
    """
    kind: Any = type(value)
    known = static_key(value) if key is None else key
    if _frozen(kind) and not is_framework_module(kind.__module__) and settled(value):
        return _same_fields(value)
    return lambda other: type(other) is kind and static_key(other) == known


def _same_fields(value: Any) -> Callable[[object], bool]:
    """Return `same_as` of a frozen data class, in a few microseconds for plain fields."""
    kind = type(value)
    plain: list[str] = []
    others: list[str] = []
    for field in dataclasses.fields(value):
        held = getattr(value, field.name)
        # Of numbers that are equal, only zeros differ; what is not a number equals nothing.
        number = type(held) is float and held != 0.0 and not math.isnan(held)
        exact = type(held) in _EXACT or number
        (plain if exact else others).append(field.name)
    values = tuple(getattr(value, name) for name in plain)
    types = tuple(map(type, values))
    # With one name there would be no tuple.
    read = operator.attrgetter(*plain, plain[0]) if plain else None
    count = len(plain)
    rest = tuple((name, _held_key(getattr(value, name))) for name in others)

    def same(other: Any) -> bool:
        if type(other) is not kind:
            return False
        if read is not None:
            found = read(other)[:count]
            if found != values or tuple(map(type, found)) != types:
                return False
        return all(_held_key(getattr(other, name)) == key for name, key in rest)

    return same


def describe_static(name: str, value: object, annotation: object) -> ArgSpec:
    """Return the specification of a compile-time value.

    Args:
        name: The parameter, for messages.
        value: The value.
        annotation: ``fx.Constexpr``, ``fx.Constexpr[...]`` or ``type[...]``.

    Raises:
        UserTypeError: The value does not fit the annotation, or cannot be hashed.
    """
    given = type(value)
    if isinstance(annotation, ConstexprKind):
        value = annotation.taken(value)
        annotation.check(name, value)
    key = static_key(value)

    def accepts(other: object) -> bool:
        """Whether a function compiled for the value may be called with another one.

        With the same one, and with None where that is no value of the parameter: it only keeps
        the place.
        """
        try:
            return describe_static(name, other, annotation).key == ("static", key)
        except UserTypeError:
            return other is None

    return _specification(given, value, key, accepts)


def absent() -> ArgSpec:
    """Return the specification of None for an optional parameter: known while compiling."""
    return _specification(type(None), None, static_key(None), lambda other: other is None)


def _specification(
    given: type, value: object, key: Hashable, accepts: Callable[[object], bool]
) -> ArgSpec:
    if type(value) in (int, bool, str):
        guard = "type(v) is kind and v == static"
    elif settled(value):
        guard = "v is static or type(v) is kind and static_key(v) == key"
    else:
        guard = "type(v) is kind and static_key(v) == key"
    names = {
        "kind": given,
        "static": value,
        "static_key": static_key,
        "key": key,
        "accepts": accepts,
    }
    return ArgSpec(key=("static", key), ir_type="", guard=guard, names=names, static=value)
