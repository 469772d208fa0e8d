"""What a traced function depends on: code, globals and closure values that it can reach.

Found by scanning bytecode, without tracing, so that a cache can be consulted first. The scan
over-approximates: every global whose name occurs in a function counts, and of a module every
attribute whose name occurs.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from flydsl.frontend.contents import (
    MEMOISED,
    Content,
    classes_in,
    code_digest,
    content_of,
    hashed,
    same_scalar,
)
from flydsl.frontend.eligible import is_user_module, reads_outside, rewritable

if TYPE_CHECKING:
    from flydsl.plugins.payloads import ArgSpec

__all__ = [
    "Dependencies",
    "Dependency",
    "Reached",
    "code_digest",
    "collect_dependencies",
    "value_identity",
]

_GENERATED = "__create_fn__.<locals>."
"""How the qualified names of the methods begin that `dataclasses` writes."""


class Dependency(NamedTuple):
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


class _Check(NamedTuple):
    """Re-reads one place.

    Attributes:
        read: Returns what is there now.
        value: What was there.
        content: Hash of what it held, if that may change while it stays there.
        names: See `content_of`.
    """

    read: Callable[[], object]
    value: object
    content: str = ""
    names: frozenset[str] | None = None


class _Item:
    """Reads a global variable, or a member of a class."""

    __slots__ = ("name", "space")

    def __init__(self, space: Mapping[str, Any], name: str) -> None:
        self.space, self.name = space, name

    def __call__(self) -> object:
        return self.space[self.name]


class _Function(NamedTuple):
    """A function and what it consisted of."""

    function: types.FunctionType
    code: types.CodeType
    defaults: object
    keyword_defaults: object


class Dependencies:
    """The dependencies of one function.

    Attributes:
        entries: What the scan found.
        reached: Functions that only the trace found.
        given_digest: Of the classes that `given` added; None if they cannot be compared in another
            process.
    """

    __slots__ = ("_checks", "_digest", "_functions", "_quick", "entries", "given_digest", "reached")

    def __init__(
        self,
        entries: tuple[Dependency, ...],
        checks: tuple[_Check, ...],
        functions: Mapping[int, _Function] = MappingProxyType({}),
        reached: tuple[Reached, ...] = (),
    ) -> None:
        self.entries = entries
        self.reached = reached
        self._checks = checks
        self._functions = functions
        self._digest = ""
        self._quick: _Quick | None = None
        self.given_digest: str | None = ""

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
        quick = self._quick
        if quick is None:
            quick = self._quick = _quick(self._checks, self._functions.values())
        for function, code, defaults, keyword_defaults in quick.functions:
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not keyword_defaults
            ):
                return False
        for space, name, value in quick.items:
            if space.get(name) is not value and not same_scalar(space.get(name), value):
                return False
        return all(map(_holds, quick.others))

    def extended(self, functions: Iterable[types.FunctionType]) -> Dependencies:
        """Return these with the functions that only a trace has found, and what they depend on.

        `digest` stays that of the scan: a cache looks for it before there is a trace.
        """
        found = [function for function in functions if id(function) not in self._functions]
        if not found:
            return self
        scans = [collect_dependencies(function) for function in found]
        known = dict(self._functions)
        for scan in scans:
            known |= scan._functions
        reached = tuple(
            Reached(function.__module__, function.__qualname__, scan.digest, scan.portable)
            for function, scan in zip(found, scans, strict=True)
        )
        checks = self._checks + tuple(check for scan in scans for check in scan._checks)
        return Dependencies(self.entries, checks, known, self.reached + reached)

    def given(self, values: Iterable[object], structs: Iterable[type] = ()) -> Dependencies:
        """Return these with the code that comes with arguments.

        `digest` stays the same; `given_digest` is that of the classes.

        Args:
            values: Compile-time arguments: their classes count, and those of what they hold.
            structs: Classes of struct arguments.
        """
        classes = _classes_of(tuple(values), structs)
        if classes is None:
            return self
        checks = self._checks + classes._checks
        functions = dict(self._functions) | dict(classes._functions)
        found = Dependencies(self.entries, checks, functions, self.reached)
        found.given_digest = classes.digest if classes.portable else None
        return found

    def given_by(self, specs: Iterable[ArgSpec]) -> Dependencies:
        """Return `given` for described arguments."""
        flat = list(_flat(specs))
        structs = [spec.static for spec in flat if spec.parts and isinstance(spec.static, type)]
        return self.given((spec.static for spec in flat if not spec.ir_type), structs)


def _flat(specs: Iterable[ArgSpec]) -> Iterator[ArgSpec]:
    for spec in specs:
        yield spec
        yield from _flat(part for _, part in spec.parts)


def collect_dependencies(function: types.FunctionType, instance: object = None) -> Dependencies:
    """Return what a function depends on, itself included.

    Args:
        function: The function.
        instance: The object that it is bound to as a method.
    """
    scan = _Scan()
    scan.function("", function)
    if instance is not None:
        scan.instance(instance)
    return scan.finish()


class _Quick(NamedTuple):
    """Checks by kind: a launch makes hundreds of them.

    Attributes:
        functions: Functions.
        items: Global variables and members that must be the same object or an equal scalar.
        others: All others.
    """

    functions: tuple[_Function, ...]
    items: tuple[tuple[Mapping[str, Any], str, object], ...]
    others: tuple[_Check, ...]


def _quick(checks: Iterable[_Check], functions: Iterable[_Function]) -> _Quick:
    items: dict[tuple[int, str], tuple[Mapping[str, Any], str, object]] = {}
    others = []
    for check in checks:
        # A variable that is missing reads as None.
        if type(check.read) is _Item and not check.content and check.value is not None:
            space, name = check.read.space, check.read.name
            items[id(space), name] = (space, name, check.value)
        else:
            others.append(check)
    return _Quick(tuple(functions), tuple(items.values()), tuple(others))


def _holds(check: _Check) -> bool:
    """Return whether a place still holds what it held."""
    try:
        now = check.read()
    except (KeyError, ValueError, AttributeError):
        return False
    if now is not check.value and not same_scalar(now, check.value):
        return False
    return not check.content or content_of(now, check.names).digest == check.content


class _Scan:
    """One scan.

    Values are only looked into at the end: of an object those attributes count whose names occur in
    any code that was found, for it may be handed from one function to another.
    """

    def __init__(self) -> None:
        self.entries: dict[str, Dependency] = {}
        self.checks: list[_Check] = []
        self.functions: dict[int, _Function] = {}
        self._seen: set[int] = set()
        self._names: set[str] = set()
        self._values: list[tuple[str, Callable[[], object], object]] = []
        self._modules: list[tuple[str, types.ModuleType]] = []
        self._done: set[tuple[int, str]] = set()

    def function(self, path: str, function: types.FunctionType) -> None:
        """Record a function and what its code names."""
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        code = function.__code__
        self.functions[id(function)] = _Function(
            function, code, function.__defaults__, function.__kwdefaults__
        )
        names = set(_names(code))
        self._names |= names
        content = code_digest(code)
        for part, value in (
            ("__defaults__", function.__defaults__),
            ("__kwdefaults__", function.__kwdefaults__),
        ):
            if value is None:
                content += "-"
                continue
            held = content_of(value)
            content += held.digest
            if held.mutable:
                self.checks.append(_Check(_attribute_reader(function, part), value, held.digest))
        self.entries[path] = Dependency(path, "function", content)
        if reads_outside(function, names):
            # What it reads there cannot be compared by another process.
            self.entries[path + "/outside"] = Dependency(path + "/outside", "object", "", False)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self._place(f"{path}/closure:{name}", _cell_reader(cell))
        space = function.__globals__
        for name in sorted(names & space.keys()):
            self._place(f"{path}/global:{name}", _Item(space, name))

    def instance(self, instance: object) -> None:
        """Record the object that the function is bound to."""
        self._place("/self", lambda: instance)

    def finish(self) -> Dependencies:
        """Look into the values that were found; return everything."""
        found, walked = -1, set[int]()
        while found != len(self._names) + len(self._values):
            # Modules and classes may hold more code, which names more of them.
            found = len(self._names) + len(self._values)
            for path, module in list(self._modules):
                self._members(path, module)
            for _, _, value in list(self._values):
                if id(value) not in walked:
                    walked.add(id(value))
                    self.classes(classes_in(value))
        names = frozenset(self._names)
        contents: dict[int, Content] = {}
        for path, read, value in self._values:
            content = contents.get(id(value))
            if content is None:
                content = contents[id(value)] = content_of(value, names)
            kind = "value" if content.portable else "object"
            self.entries[path] = Dependency(path, kind, content.digest, content.portable)
            held = content.digest if content.mutable else ""
            self.checks.append(_Check(read, value, held, names))
        return Dependencies(tuple(self.entries.values()), tuple(self.checks), self.functions)

    def classes(self, *found: Iterable[type]) -> bool:
        """Record the code of classes; return whether there are any."""
        kinds = [kind for some in found for kind in some]
        for kind in kinds:
            self._class(f"/class:{kind.__module__}.{kind.__qualname__}", kind)
        return bool(kinds)

    def _place(self, path: str, read: Callable[[], object]) -> None:
        try:
            value = read()
        except (ValueError, AttributeError):  # a variable or attribute without a value yet
            return
        if not self._reachable(path, read, value):
            self._values.append((path, read, value))

    def _reachable(self, path: str, read: Callable[[], object], value: object) -> bool:
        """Record code: functions, methods, decorated functions, classes. Return whether it was."""
        # Only of decorated functions: asking a module for an attribute may load plugins.
        inner = getattr(value, "function", None) if hasattr(type(value), "traceable") else None
        if isinstance(inner, types.FunctionType):
            options = tuple(
                getattr(value, name, None) for name in ("symbol", "known_block", "spills")
            )
            place = path + "/options"
            self.entries[place] = Dependency(place, "value", content_of(options).digest)
            self.checks.append(_Check(read, value))
            self.function(path, inner)
            instance = getattr(value, "instance", None)
            if instance is not None:
                self._place(path + "/self", lambda: instance)
            return True
        if isinstance(value, types.MethodType):
            self.checks.append(_Check(read, value))
            if isinstance(value.__func__, types.FunctionType):
                self._reachable(path, lambda: value.__func__, value.__func__)
            self._place(path + "/self", lambda: value.__self__)
            return True
        if isinstance(value, MEMOISED):
            self.checks.append(_Check(read, value))
            wrapped = value.__wrapped__
            return self._reachable(path, lambda: wrapped, wrapped)
        if isinstance(value, types.FunctionType) and rewritable(value):
            self.checks.append(_Check(read, value))
            self.function(path, value)
            return True
        named = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
        if not isinstance(value, named):
            return False
        # Which function, class or module it is counts, whoever wrote it.
        content = content_of(value)
        self.entries[path] = Dependency(path, "value", content.digest, content.portable)
        self.checks.append(_Check(read, value))
        if isinstance(value, type):
            self._class(path, value)
        elif isinstance(value, types.ModuleType) and is_user_module(value.__name__):
            self._modules.append((path, value))
        return True

    def _class(self, path: str, value: type) -> None:
        for kind in value.__mro__:
            if not is_user_module(kind.__module__) or id(kind) in self._seen:
                continue
            self._seen.add(id(kind))
            # What an enumeration keeps of itself begins with one underscore.
            hidden = "_" if issubclass(kind, enum.Enum) else "__"
            if "__dataclass_fields__" in vars(kind):
                self._fields(path, kind)
            for name, member in list(vars(kind).items()):
                inner = getattr(member, "__func__", getattr(member, "fget", member))
                reader, place = _Item(vars(kind), name), f"{path}/member:{name}"
                if isinstance(inner, types.FunctionType) and rewritable(inner):
                    self.checks.append(_Check(reader, member))
                    if not inner.__code__.co_qualname.startswith(_GENERATED):
                        self.function(place, inner)
                elif not name.startswith(hidden) and not hasattr(type(member), "__set__"):
                    self._place(place, reader)

    def _fields(self, path: str, kind: type) -> None:
        """Record what the generated methods of a data class are made from."""
        shown = []
        fields: Mapping[str, Any] = vars(kind)["__dataclass_fields__"]
        for field in fields.values():
            shown.append((field.name, field.init, field.kw_only, field.compare, field.hash))
            for part in ("default", "default_factory"):
                if getattr(field, part) is not dataclasses.MISSING:
                    self._place(f"{path}/{part}:{field.name}", _attribute_reader(field, part))
        text = repr((shown, [repr(field._field_type) for field in fields.values()]))
        place = path + "/fields"
        parameters = repr(getattr(kind, "__dataclass_params__", ""))
        self.entries[place] = Dependency(place, "value", hashed(text + parameters))

    def _members(self, path: str, module: types.ModuleType) -> None:
        space = vars(module)
        for name in sorted(self._names):
            place = f"{path}/attribute:{name}"
            if name in space and not name.startswith("__") and (id(module), name) not in self._done:
                self._done.add((id(module), name))
                self._place(place, _Item(space, name))


def _attribute_reader(owner: object, name: str) -> Callable[[], object]:
    return lambda: getattr(owner, name)


def _cell_reader(cell: types.CellType) -> Callable[[], object]:
    return lambda: cell.cell_contents


def value_identity(value: object) -> str | None:
    """Return text that is equal in every process exactly for equal compile-time values.

    None for values whose content cannot be told. Functions count with all they depend on; of
    objects only the content does, and `Dependencies.given` finds the code of their classes.
    """
    if isinstance(value, tuple):
        parts = [value_identity(item) for item in value]
        return None if None in parts else f"({','.join(map(str, parts))})"
    if isinstance(value, types.FunctionType):
        dependencies = collect_dependencies(value)
        return dependencies.digest if dependencies.portable else None
    content = content_of(value)
    return content.digest if content.portable else None


def _classes_of(value: object, structs: Iterable[type]) -> Dependencies | None:
    scan = _Scan()
    return scan.finish() if scan.classes(classes_in(value), structs) else None


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
