"""What a traced function depends on: code, globals and closure values that it can reach.

Found by scanning bytecode, without tracing, so that a cache can be consulted first. The scan
over-approximates: every global whose name occurs in a function counts, and of a module every
attribute whose name occurs.
"""

from __future__ import annotations

import enum
import hashlib
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from flydsl.diagnostics import is_framework_module
from flydsl.frontend.eligible import rewritable

__all__ = [
    "Dependencies",
    "Dependency",
    "Reached",
    "code_digest",
    "collect_dependencies",
    "value_identity",
]

_SCALARS = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis))
_MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Dependency:
    """One function or value.

    Attributes:
        path: How it is reached, e.g. ``"global:helper/closure:scale"``.
        kind: ``"function"``, ``"value"``, or ``"object"`` (identity only).
        digest: Hash of the content; for an object its type only.
        portable: Whether equal digests in another process mean equal content.
    """

    path: str
    kind: str
    digest: str
    portable: bool = True


@dataclass(frozen=True, slots=True)
class Reached:
    """A function that the scan does not find, but the trace called: out of a table, say.

    Attributes:
        module, qualname: Where it was defined.
        digest: `Dependencies.digest` of it.
        portable: Whether that identifies the content in any process.
    """

    module: str
    qualname: str
    digest: str
    portable: bool

    def resolve(self) -> types.FunctionType | None:
        """Return this process's function at the same place, if it is the same."""
        value: object = sys.modules.get(self.module)
        for name in self.qualname.split("."):
            value = getattr(value, name, None)
        value = getattr(value, "function", value)
        if not self.portable or not isinstance(value, types.FunctionType):
            return None
        return value if collect_dependencies(value).digest == self.digest else None


@dataclass(frozen=True, slots=True)
class _Check:
    """Re-reads one place; `content` is set where the value may be mutated in place."""

    read: Callable[[], object]
    value: object
    content: str


class Dependencies:
    """The dependencies of one function."""

    __slots__ = ("_checks", "_digest", "_functions", "entries", "reached")

    def __init__(
        self,
        entries: tuple[Dependency, ...],
        checks: tuple[_Check, ...],
        functions: Mapping[int, object] = MappingProxyType({}),
        reached: tuple[Reached, ...] = (),
    ) -> None:
        self.entries = entries
        self.reached = reached
        self._checks = checks
        self._functions = functions
        self._digest = ""

    @property
    def portable(self) -> bool:
        """Whether `digest` identifies the content in any process."""
        return all(entry.portable for entry in self.entries)

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 over all entries, independent of their order."""
        if not self._digest:
            lines = sorted(f"{e.path}\0{e.kind}\0{e.digest}" for e in self.entries)
            self._digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        return self._digest

    def unchanged(self) -> bool:
        """Return whether every place still holds what it held when this was collected."""
        for check in self._checks:
            try:
                now = check.read()
            except (KeyError, ValueError, AttributeError):
                return False
            if (now is not check.value and not _same(now, check.value)) or (
                check.content and _value_digest(now, 0)[0] != check.content
            ):
                return False
        return True

    def extended(self, functions: Iterable[types.FunctionType]) -> Dependencies:
        """Return these with the functions that only a trace has found, and what they depend on.

        `digest` stays that of the scan: a cache looks for it before there is a trace.
        """
        found = [function for function in functions if id(function) not in self._functions]
        if not found:
            return self
        scans = [collect_dependencies(function) for function in found]
        known = dict(self._functions) | {id(function): function for function in found}
        reached = tuple(
            Reached(function.__module__, function.__qualname__, scan.digest, scan.portable)
            for function, scan in zip(found, scans, strict=True)
        )
        checks = self._checks + tuple(check for scan in scans for check in scan._checks)
        return Dependencies(self.entries, checks, known, self.reached + reached)


def _same(a: object, b: object) -> bool:
    return type(a) is type(b) and isinstance(a, _SCALARS) and a == b


def collect_dependencies(*functions: types.FunctionType) -> Dependencies:
    """Return what the functions depend on, themselves included."""
    scan = _Scan()
    for function in functions:
        scan.function("", function)
    return Dependencies(tuple(scan.entries.values()), tuple(scan.checks), scan.functions)


class _Scan:
    def __init__(self) -> None:
        self.entries: dict[str, Dependency] = {}
        self.checks: list[_Check] = []
        self.functions: dict[int, object] = {}
        self._seen: set[int] = set()

    def function(self, path: str, function: types.FunctionType) -> None:
        """Record a function and what its code names."""
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        self.functions[id(function)] = function
        code = function.__code__
        defaults = (function.__defaults__, function.__kwdefaults__)
        content = code_digest(code) + _value_digest(defaults, 0)[0]
        self.entries[path] = Dependency(path, "function", _hash(content))
        self.checks.append(_Check(lambda: function.__code__, code, ""))
        self.checks.append(_Check(lambda: function.__defaults__, function.__defaults__, ""))
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self._place(f"{path}/closure:{name}", _cell_reader(cell), set(_names(code)))
        space = function.__globals__
        names = set(_names(code))
        for name in sorted(names):
            if name in space:
                self._place(f"{path}/global:{name}", _item_reader(space, name), names)

    def _place(self, path: str, read: Callable[[], object], names: set[str]) -> None:
        try:
            value = read()
        except ValueError:  # a closure variable that is not assigned yet
            return
        if isinstance(value, types.ModuleType):
            self._module(path, value, names)
            return
        if self._reachable(path, read, value):
            return
        content, portable, mutable = _value_digest(value, 0)
        kind = "value" if portable else "object"
        self.entries[path] = Dependency(path, kind, content, portable)
        self.checks.append(_Check(read, value, content if mutable else ""))

    def _reachable(self, path: str, read: Callable[[], object], value: object) -> bool:
        """Record code: functions, methods, decorated functions, classes. Return whether it was."""
        inner: object = getattr(value, "function", None)
        decorated = isinstance(inner, types.FunctionType) and hasattr(type(value), "traceable")
        if decorated:
            options = tuple(
                getattr(value, name, None) for name in ("symbol", "known_block", "spills")
            )
            content, _, _ = _value_digest(options, 0)
            self.entries[path + "/options"] = Dependency(path + "/options", "value", content)
            self.checks.append(_Check(read, value, ""))
            assert isinstance(inner, types.FunctionType)
            self.function(path, inner)
            instance = getattr(value, "instance", None)
            if instance is not None:
                self._place(path + "/self", lambda: instance, set())
            return True
        if isinstance(value, types.FunctionType):
            if rewritable(value):
                self.checks.append(_Check(read, value, ""))
                self.function(path, value)
            return True
        if isinstance(value, types.MethodType):
            self.checks.append(_Check(lambda: value.__func__, value.__func__, ""))
            if isinstance(value.__func__, types.FunctionType):
                self._reachable(path, lambda: value.__func__, value.__func__)
            self._place(path + "/self", lambda: value.__self__, set())
            return True
        if isinstance(value, type):
            self._class(path, read, value)
            return True
        return isinstance(value, types.BuiltinFunctionType)

    def _class(self, path: str, read: Callable[[], object], value: type) -> None:
        if _foreign(value.__module__) or id(value) in self._seen:
            return
        self._seen.add(id(value))
        self.checks.append(_Check(read, value, ""))
        for name, member in vars(value).items():
            inner = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(inner, types.FunctionType) and rewritable(inner):
                self.function(f"{path}/member:{name}", inner)
            elif isinstance(member, _SCALARS) and not name.startswith("__"):
                reader = _attribute_reader(value, name)
                self._place(f"{path}/member:{name}", reader, set())

    def _module(self, path: str, module: types.ModuleType, names: set[str]) -> None:
        if _foreign(module.__name__):
            return
        space = vars(module)
        for name in sorted(names):
            if name in space and not name.startswith("__"):
                self._place(f"{path}/attribute:{name}", _item_reader(space, name), names - {name})


def _foreign(module: str) -> bool:
    return is_framework_module(module) or module.partition(".")[0] in sys.stdlib_module_names


def _item_reader(space: dict[str, Any], name: str) -> Callable[[], object]:
    return lambda: space[name]


def _attribute_reader(owner: object, name: str) -> Callable[[], object]:
    return lambda: getattr(owner, name)


def _cell_reader(cell: types.CellType) -> Callable[[], object]:
    return lambda: cell.cell_contents


def value_identity(value: object) -> str | None:
    """Return text that is equal in every process exactly for equal compile-time values.

    None for values whose content cannot be told. Functions count with all they depend on.
    """
    if isinstance(value, tuple):
        parts = [value_identity(item) for item in value]
        return None if None in parts else f"({','.join(map(str, parts))})"
    if isinstance(value, types.FunctionType):
        dependencies = collect_dependencies(value)
        return dependencies.digest if dependencies.portable else None
    content, portable, _ = _value_digest(value, 0)
    return content if portable else None


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def code_digest(code: types.CodeType) -> str:
    """Return a hash of what a code object does; positions and file names do not take part."""
    parts: list[str] = [
        code.co_code.hex(),
        repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)),
        repr((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)),
        code.co_exceptiontable.hex(),
    ]
    parts.extend(_constant(constant) for constant in code.co_consts)
    return _hash("\n".join(parts))


def _constant(value: object) -> str:
    if isinstance(value, types.CodeType):
        return code_digest(value)
    if isinstance(value, frozenset):
        return f"frozenset{sorted(map(_constant, value))}"
    if isinstance(value, tuple):
        return f"({','.join(map(_constant, value))})"
    return f"{type(value).__name__}:{value!r}"


def _value_digest(value: object, depth: int) -> tuple[str, bool, bool]:
    """Return the content hash of a value, whether it is portable, and whether it is mutable."""
    if isinstance(value, enum.Enum):
        return _hash(f"{type(value).__qualname__}.{value.name}"), True, False
    if isinstance(value, _SCALARS):
        return _hash(_constant(value)), True, False
    if depth >= _MAX_DEPTH:
        return _hash(type(value).__qualname__), False, True
    if isinstance(value, (tuple, list)):
        return _combined(type(value).__qualname__, value, depth, isinstance(value, list))
    if isinstance(value, (set, frozenset)):
        items = [_value_digest(item, depth + 1) for item in value]
        text = f"set{sorted(item[0] for item in items)}"
        return _hash(text), all(item[1] for item in items), isinstance(value, set)
    if isinstance(value, dict):
        flat = [part for pair in value.items() for part in pair]
        return _combined("dict", flat, depth, True)
    if isinstance(value, types.FunctionType):
        return code_digest(value.__code__), True, False
    if isinstance(value, type):
        return _hash(f"{value.__module__}.{value.__qualname__}"), True, False
    return _object_digest(value, depth)


def _object_digest(value: object, depth: int) -> tuple[str, bool, bool]:
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if is_framework_module(kind.__module__):
        # Our own static values (numbers, layouts, atoms, streams) print all that they hold.
        shown = repr(value)
        return _hash(f"{name}:{shown}"), " at 0x" not in shown, False
    fields = getattr(kind, "__dataclass_fields__", None)
    if fields is not None:
        content = [getattr(value, field, None) for field in fields]
        return _combined(name, content, depth, True)
    if kind is types.SimpleNamespace:
        flat = [part for pair in sorted(vars(value).items()) for part in pair]
        return _combined(name, flat, depth, True)
    return _hash(name), False, False


def _combined(
    name: str, items: Iterable[object], depth: int, mutable: bool
) -> tuple[str, bool, bool]:
    parts = [_value_digest(item, depth + 1) for item in items]
    text = f"{name}[{','.join(part[0] for part in parts)}]"
    changes = mutable or any(part[2] for part in parts)
    return _hash(text), all(part[1] for part in parts), changes
