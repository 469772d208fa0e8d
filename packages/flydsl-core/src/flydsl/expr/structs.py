"""Product types: ``@fx.struct``, ``@fx.union`` and `Empty`.

A struct is an immutable value with named, typed fields. In memory (`Storage`, `Array`, allocators)
its fields lie as in C: each at the next multiple of its alignment, the size rounded up to the
largest alignment. A union exists in memory only; all its fields begin at its address.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass
from types import MappingProxyType
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.ambient import IRValue, in_trace
from flydsl.expr.annotations import ConstexprKind, Stream, is_constexpr, without_none
from flydsl.expr.fields import coerced, is_field_type, takes_none
from flydsl.expr.tensors import Tensor

__all__ = ["Empty", "Field", "Struct", "StructType", "struct", "union"]

_RESERVED = frozenset({"replace", "peek", "poke", "ptr", "kind"})


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct or union.

    Attributes:
        name: Its name.
        kind: Its type: a numeric class, vector type, array, pointer type, struct, … or
            ``fx.Constexpr[...]``.
        optional: Whether None may be its value, which is known while tracing: pointers, and fields
            declared ``X | None``, whose `kind` is X.
        constexpr: Whether it is compile-time: part of the type of a value, not of its storage.
    """

    name: str
    kind: Any
    constexpr: bool
    optional: bool = False

    def __str__(self) -> str:
        kind = getattr(self.kind, "__name__", self.kind)
        told = self.optional and not takes_none(self.kind)
        return f"{self.name}: {kind}{' | None' if told else ''}"


class StructType(type):
    """The class of struct and union types.

    Attributes:
        fields: The fields, in order.
        names: Their names.
        is_union: Whether the type is a union.
        fixed: Values of compile-time fields that the type is specialised for.
    """

    fields: tuple[Field, ...]
    names: frozenset[str]
    is_union: bool
    fixed: Mapping[str, Any]

    def __getitem__(cls, values: Any) -> Any:
        """Return the type specialised for values of its compile-time fields.

        ``Name["n": 4]`` lays out and reads values whose field ``n`` is 4.

        Raises:
            UserTypeError: There is no such compile-time field.
        """
        given = dict(cls.fixed)
        for item in values if isinstance(values, tuple) else (values,):
            name = item.start if isinstance(item, slice) else None
            if name not in {field.name for field in cls.fields if field.constexpr}:
                raise UserTypeError(
                    f"{cls.__name__} has no such compile-time field",
                    code="FLY-U287",
                    value=item,
                    allowed=f'{cls.__name__}["field": value]',
                )
            given[name] = item.stop
        space = {"__slots__": (), "__module__": cls.__module__, "__qualname__": cls.__qualname__}
        made = StructType(cls.__name__, (cls,), space)
        made.fields, made.names, made.is_union = cls.fields, cls.names, cls.is_union
        made.fixed = MappingProxyType(given)
        return made

    def __repr__(cls) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in cls.fixed.items())
        return f"{cls.__name__}[{shown}]" if shown else cls.__name__

    @property
    def base(cls) -> StructType:
        """The type without specialisation."""
        parent = cls.__mro__[1]
        return parent.base if cls.fixed and isinstance(parent, StructType) else cls


class Struct:
    """Base of struct values; made by `struct`.

    Raises:
        UserTypeError: A field is missing, unknown or given twice, or its value does not fit.
    """

    __slots__ = ("_values",)

    _values: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kind: Any = type(self)
        if kind.is_union:
            raise UserTypeError(
                f"{kind.__name__} is a union, which exists in memory only",
                code="FLY-U288",
                hint="allocate it, and peek and poke its fields",
            )
        complete = not args and kwargs.keys() == kind.names
        values = kwargs if complete and not kind.fixed else _bound(kind, args, kwargs)
        base, tracing = kind.base, in_trace()
        checked: dict[str, Any] = {}
        for field in kind.fields:
            value = values[field.name]
            if field.kind is Tensor and not field.constexpr and not tracing:
                checked[field.name] = value  # as `coerced` does, for most fields of most structs
            else:
                checked[field.name] = _checked(base.__name__, field, value)
        object.__setattr__(self, "_values", checked)

    def __getattr__(self, name: str) -> Any:
        try:
            return object.__getattribute__(self, "_values")[name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(
            f"a struct is immutable: write x = x.replace({name}=...) instead of x.{name} = ..."
        )

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError("a struct is immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (_base(self), dict(self._values))

    def replace(self, **changes: Any) -> Any:
        """Return the struct with other values in some fields.

        Raises:
            UserTypeError: There is no such field, or a value does not fit.
        """
        return type(self)(**{**self._values, **changes}) if changes else self

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Struct) or _base(self) is not _base(other):
            return NotImplemented
        result: Any = True
        for name, value in self._values.items():
            before = other._values[name]
            same = value is before if value is None or before is None else value == before
            result = same if result is True else result & same
        return result

    def __ne__(self, other: object) -> Any:
        result = self.__eq__(other)
        if result is NotImplemented:
            return result
        return not result if isinstance(result, bool) else ~result

    def __hash__(self) -> int:
        return hash((_base(self), tuple(self._values.values())))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._values.items())
        return f"{_base(self).__name__}({shown})"

    def __fly_fields__(self) -> Mapping[str, Any]:
        return self._values

    def __fly_values__(self) -> list[IRValue]:
        found: list[IRValue] = []
        for value in self._run_time().values():
            found.extend(value.__fly_values__())
        return found

    def __fly_rebuild__(self, values: list[IRValue]) -> Any:
        made: dict[str, Any] = {}
        at = 0
        for name, value in self._run_time().items():
            count = len(value.__fly_values__())
            made[name] = value.__fly_rebuild__(values[at : at + count])
            at += count
        return self.replace(**made)

    def __fly_key__(self) -> object:
        constants = [
            f"{f.name}={self._values[f.name]!r}" for f in _base(self).fields if f.constexpr
        ]
        constants += [f"{name}=None" for name, value in self._values.items() if value is None]
        shown = f"[{', '.join(constants)}]" if constants else ""
        return (f"{_base(self).__name__}{shown}",)

    def _run_time(self) -> dict[str, Any]:
        values = self._values
        names = [f.name for f in _base(self).fields if not f.constexpr]
        return {name: values[name] for name in names if values[name] is not None}


def _again(kind: StructType, values: dict[str, Any]) -> Any:
    """Make a copy of a struct."""
    return kind(**values)


def _base(value: Any) -> StructType:
    kind: Any = type(value)
    return kind.base  # type: ignore[no-any-return]


def _bound(kind: StructType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a value for every field."""
    free = [field.name for field in kind.fields if field.name not in kind.fixed]
    if len(args) > len(free):
        raise _wrong(kind, f"takes {len(free)} values, {len(args)} were given")
    values = dict(kind.fixed)
    values.update(zip(free, args, strict=False))
    known = {field.name for field in kind.fields}
    for name, value in kwargs.items():
        if name not in known:
            raise _wrong(kind, f"has no field {name!r}")
        if name in values and (name not in kind.fixed or values[name] != value):
            raise _wrong(kind, f"got two values for {name!r}")
        values[name] = value
    defaults = kind.__dict__.get("_defaults") or getattr(kind.base, "_defaults", {})
    missing = []
    for field in kind.fields:
        if field.name not in values and field.name in defaults:
            values[field.name] = defaults[field.name]
        elif field.name not in values:
            missing.append(field.name)
    if missing:
        raise _wrong(kind, f"is missing {', '.join(map(repr, missing))}")
    return values


def _wrong(kind: StructType, what: str) -> UserTypeError:
    shown = ", ".join(map(str, kind.fields))
    return UserTypeError(
        f"{kind.base.__name__} {what}", code="FLY-U288", allowed=f"{kind.base.__name__}({shown})"
    )


def _checked(owner: str, field: Field, value: Any) -> Any:
    where = f"{owner}.{field.name}"
    if not field.constexpr:
        if value is None and field.optional:
            return None
        return coerced(value, field.kind, where)
    if isinstance(field.kind, ConstexprKind):
        field.kind.check(where, value)
    return value


def _declared(klass: type, scope: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the annotations of a class as objects; text is evaluated where the class is."""
    module = sys.modules.get(klass.__module__)
    space = vars(module) if module is not None else {}
    found = []
    for name, declared in inspect.get_annotations(klass).items():
        kind = declared
        if isinstance(declared, str):
            try:
                kind = eval(declared, dict(space), dict(scope))  # noqa: S307  (the user's source)
            except (NameError, AttributeError, TypeError) as error:
                raise UserTypeError(
                    f"the type of field {name!r} cannot be evaluated: {error}",
                    code="FLY-U287",
                    value=kind,
                ) from error
        found.append((name, kind))
    return found


def _fields(name: str, declared: list[tuple[str, Any]], is_union: bool) -> tuple[Field, ...]:
    """Return the fields of a type.

    Raises:
        UserValueError: A field has a reserved name.
        UserTypeError: A field has a type that no field can have.
    """
    fields = []
    for field, annotation in declared:
        numbered = field[:1] == "_" and field[1:].isdigit()
        if (field.startswith("_") and not numbered) or field in _RESERVED:
            raise UserValueError(
                f"a field of {name} has a reserved name",
                code="FLY-U287",
                value=field,
                allowed=f"names without a leading _, except {', '.join(sorted(_RESERVED))}",
            )
        constexpr, kind = is_constexpr(annotation), without_none(annotation)
        optional = kind is not annotation
        if constexpr or kind is Stream:
            fits = not is_union and not optional
        else:
            fits = not (is_union and optional) and is_field_type(kind, is_union)
        if not fits:
            raise UserTypeError(
                f"{name}.{field} is declared with a type that a field cannot have",
                code="FLY-U287",
                value=annotation,
                allowed="numeric classes, vector types, fx.Array, fx.Align, pointer types, structs"
                + ("" if is_union else ", fx.Tensor, these | None, fx.Stream, fx.Constexpr"),
            )
        fields.append(Field(field, kind, constexpr, optional or takes_none(kind)))
    return tuple(fields)


def _made(
    name: str, declared: list[tuple[str, Any]], space: dict[str, Any], is_union: bool
) -> StructType:
    """Return a new type; what it is made of is an attribute, so that caches see changes of it."""
    fields = _fields(name, declared, is_union)
    names = [field.name for field in fields]
    if len(set(names)) != len(names):
        raise UserTypeError(f"{name} has two fields of one name", code="FLY-U287", value=names)
    space = dict(space)
    defaults = {key: space.pop(key) for key in names if key in space}
    made_of = "; ".join(f"{field.name}: {field.kind!r}, {field.optional}" for field in fields)
    space.update({"__slots__": (), "_defaults": defaults, "_made_of": made_of})
    made = StructType(name, (Struct,), space)
    made.fields, made.names = fields, frozenset(field.name for field in fields)
    made.is_union, made.fixed = is_union, MappingProxyType({})
    return made


def _decorated(klass: Any, is_union: bool, depth: int = 2) -> Any:
    what = "union" if is_union else "struct"
    if not isinstance(klass, type) or klass.__bases__ not in ((object,), (Struct,)):
        raise UserTypeError(
            f"fx.{what} decorates a class without base classes other than fx.Struct",
            code="FLY-U287",
            value=klass,
        )
    scope = sys._getframe(depth).f_locals
    dropped = ("__dict__", "__weakref__", "__annotations__")
    space = {key: value for key, value in vars(klass).items() if key not in dropped}
    return _made(klass.__name__, _declared(klass, scope), space, is_union)


def _listed(parameters: Any, what: str, is_union: bool) -> StructType:
    """Return the type of ``struct["a": T, "b": U]`` or ``struct[T, U]``."""
    items = parameters if isinstance(parameters, tuple) else (parameters,)
    declared = []
    for index, item in enumerate(items):
        if isinstance(item, slice):
            if not isinstance(item.start, str) or not item.start.isidentifier():
                raise UserTypeError("a field's name is a string", code="FLY-U287", value=item.start)
            declared.append((item.start, item.stop))
        else:
            declared.append((f"_{index}", item))
    shown = ", ".join(f"{name}: {getattr(k, '__name__', k)}" for name, k in declared)
    module = sys._getframe(2).f_globals.get("__name__", __name__)
    return _made(f"{what}[{shown}]", declared, {"__module__": module}, is_union)


class struct:  # noqa: N801  (the name of the public API)
    """Makes a struct type of a class: its annotations are the fields; methods are kept.

    ``fx.struct["x": fx.Float32, "n": fx.Int32]`` and ``fx.struct[fx.Float32, fx.Int32]`` (fields
    ``_0``, ``_1``) make one without a class.

    A class may derive from `Struct`, from which type checkers know that values have any arguments.
    Values are made by position or keyword, compared with ``==``, copied with changes by
    ``replace(field=...)``, and passed to kernels and launchers field by field. They may be carried
    through run-time ``if`` and loops. A pointer, and a field declared ``X | None``, may be None,
    which is known while tracing: ``if s.bias is not None`` leaves code out.

    Raises:
        UserValueError: A field has a reserved name.
        UserTypeError: A field has a type that no field can have.
    """

    def __new__(cls, klass: type) -> Any:
        """Return the type made of a class."""
        return _decorated(klass, False)

    def __class_getitem__(cls, parameters: Any) -> Any:
        """Return the type with the given fields."""
        return _listed(parameters, "struct", False)


class union:  # noqa: N801  (the name of the public API)
    """Makes a union type of a class, like `struct`; values of it exist in memory only."""

    def __new__(cls, klass: type) -> Any:
        """Return the type made of a class."""
        return _decorated(klass, True)

    def __class_getitem__(cls, parameters: Any) -> Any:
        """Return the type with the given fields."""
        return _listed(parameters, "union", True)


Empty = _made("Empty", [], {}, False)
"""The struct without fields, which takes no memory."""
