"""Signatures of decorated functions, read once and without `inspect`'s cost on every call."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, ClassVar, Literal

from flydsl.errors import SourceLocation, UserTypeError
from flydsl.expr.annotations import Stream, is_constexpr, without_none

__all__ = ["Parameter", "Signature"]


class _Empty:
    def __repr__(self) -> str:
        return "<no default>"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel or launcher.

    Attributes:
        name: Its name.
        annotation: The annotation as an object; None without one or if it cannot be evaluated.
        default: Default value, `EMPTY` if there is none.
        kind: ``"positional"`` or ``"keyword"`` (keyword-only).
    """

    EMPTY: ClassVar[object] = _Empty()

    name: str
    annotation: Any
    default: Any
    kind: Literal["positional", "keyword"]

    @property
    def constexpr(self) -> bool:
        """Whether the value is compile-time (``Constexpr[...]`` or ``type[T]``)."""
        return is_constexpr(self.annotation)

    @property
    def stream(self) -> bool:
        """Whether the parameter is an ``fx.Stream``."""
        return self.annotation is Stream

    @property
    def dsl_type(self) -> type | None:
        """The value class of a run-time parameter, if its annotation is a class or ``X | None``."""
        annotation = without_none(self.annotation)
        return annotation if isinstance(annotation, type) and not self.constexpr else None

    @property
    def optional(self) -> bool:
        """Whether None may be passed, which is known while tracing: pointers, and ``X | None``."""
        from flydsl.expr.pointers import Pointer, PointerType

        annotation = self.annotation
        if annotation is Pointer or isinstance(annotation, PointerType):
            return True
        return annotation is not None and without_none(annotation) is not annotation


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameters of a function, ``self`` left out for methods.

    Attributes:
        name: The function's name, for messages.
        parameters: In order.
        method: Whether the first parameter of the function is ``self``.
        location: The ``def``.
    """

    name: str
    parameters: tuple[Parameter, ...]
    method: bool
    location: SourceLocation

    def __getitem__(self, name: str) -> Parameter:
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise KeyError(name)

    @classmethod
    def of(cls, function: FunctionType) -> Signature:
        """Read the signature of a function.

        Raises:
            UserTypeError: The function takes ``*args`` or ``**kwargs``.
        """
        code = function.__code__
        if code.co_flags & 0x0C:
            raise UserTypeError(
                f"{function.__name__!r} takes *args or **kwargs",
                code="FLY-U222",
                hint="give kernels and launchers a fixed parameter list",
                location=SourceLocation(code.co_filename, code.co_firstlineno),
            )
        count = code.co_argcount
        names = code.co_varnames[: count + code.co_kwonlyargcount]
        defaults = function.__defaults__ or ()
        given: dict[str, Any] = dict(
            zip(names[count - len(defaults) : count], defaults, strict=True)
        )
        given.update(function.__kwdefaults__ or {})
        method = count > 0 and names[0] == "self"
        parameters = tuple(
            Parameter(
                name,
                _resolve(function, function.__annotations__.get(name)),
                given.get(name, Parameter.EMPTY),
                "positional" if index < count else "keyword",
            )
            for index, name in enumerate(names)
            if not (method and index == 0)
        )
        location = SourceLocation(code.co_filename, code.co_firstlineno)
        return cls(function.__name__, parameters, method, location)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of every parameter in order, defaults applied.

        Raises:
            UserTypeError: Too many or too few arguments, or an unknown or repeated keyword.
        """
        positional = [p for p in self.parameters if p.kind == "positional"]
        if len(args) > len(positional):
            raise self._wrong(
                f"takes {len(positional)} positional arguments, {len(args)} were given"
            )
        values: dict[str, Any] = {p.name: v for p, v in zip(positional, args, strict=False)}
        known = {p.name for p in self.parameters}
        for name, value in kwargs.items():
            if name not in known:
                raise self._wrong(f"has no parameter {name!r}")
            if name in values:
                raise self._wrong(f"got two values for {name!r}")
            values[name] = value
        missing = []
        ordered: dict[str, Any] = {}
        for parameter in self.parameters:
            value = values.get(parameter.name, parameter.default)
            if value is Parameter.EMPTY:
                missing.append(parameter.name)
            ordered[parameter.name] = value
        if missing:
            raise self._wrong(f"is missing {', '.join(map(repr, missing))}")
        return ordered

    def _wrong(self, what: str) -> UserTypeError:
        shown = ", ".join(p.name for p in self.parameters)
        return UserTypeError(
            f"{self.name}() {what}",
            code="FLY-U219",
            allowed=f"{self.name}({shown}), defined at {self.location}",
        )


def _resolve(function: FunctionType, annotation: Any) -> Any:
    """Return an annotation as an object; text (PEP 563) is evaluated where the function is."""
    if not isinstance(annotation, str):
        return annotation
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    scope: dict[str, Any] = {}
    for name, cell in cells:
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    first, *attributes = annotation.split(".")
    try:
        if all(map(str.isidentifier, (first, *attributes))):
            # Most are names, and compiling each is a part of the time of a first call.
            space = scope if first in scope else function.__globals__
            if first in space:
                return functools.reduce(getattr, attributes, space[first])
        return eval(annotation, function.__globals__, scope)  # noqa: S307  (the user's own source)
    except (NameError, AttributeError):
        return None
