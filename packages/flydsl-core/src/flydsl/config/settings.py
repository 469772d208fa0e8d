"""Typed settings: what each environment variable means, and the only reads of `os.environ`.

A setting is declared once with `setting(...)`, at import time of the module that uses it, and read
with ``SETTING.get()``. `scope` overrides settings for the current thread of control, so tests and
embedding programs need not touch the process environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from flydsl.config.parsers import Parser, as_text
from flydsl.errors import CompilerBug, UserValueError
from flydsl.words import Words

__all__ = [
    "Setting",
    "VariableReport",
    "catalogue",
    "check_all",
    "default_cache_dir",
    "environment_text",
    "overridden",
    "report",
    "scope",
    "setting",
    "watch",
]

T = TypeVar("T")

_UNKNOWN = object()
_REGISTRY: dict[str, Setting[Any]] = {}
"""Declared settings by name; written only while modules are imported."""

_NO_OVERRIDES: Mapping[str, object] = MappingProxyType({})
_OVERRIDES: ContextVar[Mapping[str, object]] = ContextVar("flydsl_settings", default=_NO_OVERRIDES)


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """One environment variable.

    Attributes:
        name: Variable name.
        parser: How its text is read.
        default: Value when neither the variable nor an alias is set to non-empty text.
        help: One line on what it does.
        aliases: Other variables consulted after `name`, in order.
    """

    name: str
    parser: Parser[Any]
    default: T
    help: str
    aliases: tuple[str, ...] = ()
    _known: dict[str, T] = field(default_factory=dict, compare=False, repr=False)

    def get(self) -> T:
        """Return the current value: override of `scope`, else environment, else default.

        Raises:
            UserValueError: The text is not what the setting accepts; names the variable.
        """
        overrides = _OVERRIDES.get()
        if self.name in overrides:
            value: T = overrides[self.name]  # type: ignore[assignment]
            return value
        source = self.source()
        return self.default if source is None else self._parse(source, os.environ[source].strip())

    def taken(self, value: object) -> T:
        """Return a value given by a program, checked as the text that stands for it would be.

        Raises:
            UserValueError: It is of another kind than the setting's, or out of its range.
        """
        if value is None or (type(value), value) == (type(self.default), self.default):
            return self.default
        words = value.strip() if isinstance(value, str) else as_text(self.parser.kind, value)
        if words is None:
            raise UserValueError(
                f"{self.name} was given a value that it cannot take",
                code="FLY-U501",
                value=value,
                allowed=self.parser.accepts,
                hint=f"{self.name}: {self.help}",
            )
        return self._parse(self.name, words)

    def source(self) -> str | None:
        """Return the name of the variable that supplies the value, or None for the default."""
        for name in (self.name, *self.aliases):
            if os.environ.get(name, "").strip():
                return name
        return None

    def _parse(self, variable: str, value: str) -> T:
        known = self._known.get(value, _UNKNOWN)
        if known is not _UNKNOWN:
            return known  # type: ignore[return-value]
        try:
            parsed: T = self.parser.parse(value)
        except ValueError as error:
            raise UserValueError(
                f"the environment variable {variable} has a value that cannot be used",
                code="FLY-U501",
                value=value,
                allowed=self.parser.accepts,
                hint=f"{variable}: {self.help}",
            ) from error
        if not value.startswith("~"):
            # Programs ask for the same few again and again; only a home may become another one.
            self._known.clear()
            self._known[value] = parsed
        return parsed


def setting(
    name: str,
    parser: Parser[Any],
    default: T,
    help: str,
    aliases: tuple[str, ...] = (),
) -> Setting[T]:
    """Declare a setting and return its handle; call it at module level.

    Args:
        name: Environment variable, e.g. ``"FLYDSL_DUMP_IR"``.
        parser: One of `flydsl.config.parsers`.
        default: Value when unset; its type may be wider than the parser's (``None``).
        help: One line for listings and error messages.
        aliases: Variables consulted after `name`.

    Raises:
        CompilerBug: Another declaration with the same name differs.
    """
    declared = Setting(name, parser, default, help, aliases)
    known = _REGISTRY.get(name)
    if known is not None:
        if (known.parser.kind, known.default, known.aliases) != (parser.kind, default, aliases):
            raise CompilerBug(f"the setting {name} is declared twice, differently", code="FLY-B501")
        return known
    _REGISTRY[name] = declared
    return declared


def catalogue() -> Mapping[str, Setting[Any]]:
    """Return all settings declared so far by name (plugins declare theirs when imported)."""
    return MappingProxyType(dict(sorted(_REGISTRY.items())))


def _declare_plugins() -> None:
    """Import the module ``settings`` beside each installed plugin's module, if there is one."""
    from importlib import import_module, metadata

    for point in metadata.entry_points(group="flydsl"):
        package = point.module.rpartition(".")[0]
        if package:
            # A plugin that cannot be imported is reported where plugins are loaded.
            with suppress(Exception):
                import_module(f"{package}.settings")


def default_cache_dir() -> Path:
    """Return the user's folder for caches, as the operating system's conventions have it."""
    # Not from platformdirs: a launch out of the cache must not pay for importing it.
    if sys.platform == "darwin":
        return Path("~/Library/Caches/flydsl").expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path("~/.cache").expanduser()) / "flydsl"


def overridden() -> bool:
    """Return whether a `scope` overrides settings here."""
    return bool(_OVERRIDES.get())


def environment_text(prefixes: tuple[str, ...]) -> str:
    """Return every variable whose name begins with one of `prefixes`, as text for cache keys."""
    names = sorted(name for name in os.environ if name.startswith(prefixes))
    return "\n".join(f"{name}={os.environ.get(name, '')}" for name in names)


def check_all() -> None:
    """Look at every setting declared so far, whether or not anything is going to read it.

    Raises:
        UserValueError: One has a value that it cannot take; names the variable.
    """
    for declared in tuple(_REGISTRY.values()):
        declared.get()


@dataclass(frozen=True, slots=True)
class VariableReport:
    """One environment variable that concerns FlyDSL.

    Attributes:
        name: Variable name.
        value: Its text.
        problem: Why it cannot be used or has no effect; empty if it is fine.
    """

    name: str
    value: str
    problem: str = ""


def report() -> tuple[VariableReport, ...]:
    """Describe every set variable that a declared setting reads, or that looks as if it should.

    A name that begins with ``FLYDSL_`` and that no setting of the core or a plugin reads is
    reported with the names that are close to it.
    """
    from difflib import get_close_matches

    declared = {name for s in _REGISTRY.values() for name in (s.name, *s.aliases)}
    if any(name.startswith("FLYDSL_") and name not in declared for name in os.environ):
        _declare_plugins()
    readers = {name: s for s in _REGISTRY.values() for name in (s.name, *s.aliases)}
    out: list[VariableReport] = []
    for name, text in sorted(os.environ.items()):
        reader = readers.get(name)
        problem = ""
        if reader is not None and text.strip():
            try:
                reader._parse(name, text.strip())
            except UserValueError as error:
                problem = f"not usable; allowed: {error.allowed}"
        elif reader is None and name.startswith("FLYDSL_"):
            close = get_close_matches(name, readers, n=2)
            problem = "no setting reads this"
            problem += f"; did you mean {' or '.join(close)}?" if close else ""
        else:
            continue
        out.append(VariableReport(name, text, problem))
    return tuple(out)


@contextmanager
def scope(**values: object) -> Iterator[None]:
    """Override settings by variable name inside a ``with`` block.

    Text is parsed as the environment's would be, other values are checked alike, and None means
    the default. A name that is not declared yet is looked for in the installed plugins. Overrides
    nest, follow `contextvars` and do not reach threads started inside.

    Example:
        ``with scope(FLYDSL_TARGET="toy", COMPILE_ONLY=True): ...``

    Raises:
        UserValueError: No setting has that name, or it does not take the value.
    """
    merged = dict(_OVERRIDES.get())
    if not values.keys() <= _REGISTRY.keys():
        _declare_plugins()
    for name, value in values.items():
        declared = _REGISTRY.get(name)
        if declared is None:
            from difflib import get_close_matches  # only needed for the message

            close = get_close_matches(name, _REGISTRY, n=3)
            raise UserValueError(
                f"there is no setting {name}",
                code="FLY-U502",
                allowed=", ".join(close or sorted(_REGISTRY)),
            )
        merged[name] = declared.taken(value)
    token = _OVERRIDES.set(merged)
    try:
        yield
    finally:
        _OVERRIDES.reset(token)


def watch(*settings: Setting[Any]) -> Callable[[], tuple[object, ...]]:
    """Return a function whose result changes when one of `settings` may have changed.

    It reads the variables unparsed and costs a fraction of a microsecond, so it can run on every
    launch. Compare its results for equality only.
    """
    names = [name for s in settings for name in (s.name, *s.aliases)]
    # The mapping under os.environ spares decoding the keys and values on every look-up.
    environment = os.environ
    raw: Any = getattr(environment, "_data", environment)
    encode = getattr(environment, "encodekey", None)
    if raw is environment or encode is None:
        raw, keys = environment, list(names)
    else:
        keys = [encode(name) for name in names]
    read, overrides = raw.get, _OVERRIDES.get
    words = Words((), (raw,)).read
    known: tuple[bytes | None, tuple[object, ...]] = (None, ())

    def current() -> tuple[object, ...]:
        nonlocal known
        if os.environ is not environment:  # a test has put another mapping in its place
            return overrides(), tuple(map(os.environ.get, names))
        seen, values = known
        now = words()
        if now is None or now != seen:
            values = tuple(map(read, keys))
            known = now, values
        return overrides(), values

    return current
