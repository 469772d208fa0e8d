"""The scan of a program: code, globals, classes and closure values that functions can reach.

`Scan` walks from functions and classes, without tracing. Besides what counts for a cache key
(`Scan.entries`) and for later comparisons (`Scan.checks`, `Scan.functions`) it notes every step it
took (`Scan.steps`), from which `flydsl.frontend.recall` makes a shorter way for other processes.
Whatever a scan looks at must be in its steps too.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cached_property, partialmethod
from operator import attrgetter
from typing import Any, Final, NamedTuple

from flydsl.frontend.contents import (
    MEMOISED,
    Content,
    code_digest,
    code_in,
    content_of,
    hashed,
)
from flydsl.frontend.eligible import (
    is_user_class,
    is_user_module,
    nested_codes,
    reads_outside,
    rewritable,
)
from flydsl.frontend.watching import Check, FunctionState, Place

__all__ = [
    "Dependency",
    "Scan",
    "Step",
    "absent_from",
    "fields_of",
    "inner_of",
    "is_generated",
    "names_in",
    "options_of",
    "parts_of",
]

_GENERATED = "__create_fn__.<locals>."
"""How the qualified names of the methods begin that `dataclasses` writes."""
_BY_TEXT: Final = frozenset({"getattr", "hasattr", "vars", "__dict__"})
"""Code with one of these may name attributes in texts."""
_SLOTS: Final = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    types.DynamicClassAttribute,
)
"""Members that read from somewhere else what objects hold."""
_BOOKKEEPING: Final = frozenset(
    "__module__ __doc__ __qualname__ __dict__ __weakref__ __slots__ __annotations__ __annotate__ "
    "__annotate_func__ __annotations_cache__ __orig_bases__ __parameters__ __type_params__ "
    "__dataclass_fields__ __dataclass_params__ __match_args__ __abstractmethods__ _abc_impl "
    "__firstlineno__ __static_attributes__ __classcell__ __conditional_annotations__".split()
)
"""What Python keeps in classes for itself."""
_FIELD: Final = attrgetter("name", "init", "kw_only", "compare", "hash", "_field_type.name")


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


class Step(NamedTuple):
    """Something that a scan has looked at.

    Attributes:
        place: Where it was found.
        value: What it is.
        kind: How it was looked at: ``"function"`` or ``"class"`` with all it names;
            ``"decorated"``, ``"method"``, ``"memoised"``, ``"member"`` for what is around a
            function; ``"named"`` by its name; ``"value"`` by its content; ``"generated"`` and
            ``"foreign"`` functions not at all; ``"empty"`` where nothing is yet.
    """

    place: Place
    value: Any
    kind: str


def inner_of(member: Any) -> Any:
    """Return the function of a method, a class method or a property; other members as they are."""
    return getattr(member, "__func__", getattr(member, "fget", member))


def parts_of(member: Any) -> list[str]:
    """Return which attributes of a method, property or the like are what it calls."""
    if isinstance(member, property):
        return [part for part in ("fget", "fset", "fdel") if getattr(member, part) is not None]
    if isinstance(member, (staticmethod, classmethod)):
        return ["__func__"]
    return ["func"] if isinstance(member, (cached_property, partialmethod)) else []


def _counts(kind: type, name: str, member: Any) -> bool:
    """Return whether a member of a class counts by what it holds."""
    if isinstance(member, _SLOTS):
        return False
    if isinstance(member, types.FunctionType) and name.startswith("__"):
        return False  # of a library: what `dataclasses` makes follows from the fields
    if issubclass(kind, enum.Enum):
        # What an enumeration keeps of itself has such a name.
        return not (name.startswith("_") and name.endswith("_"))
    return name not in _BOOKKEEPING


def is_generated(code: types.CodeType) -> bool:
    """Whether a method was written by `dataclasses`."""
    return code.co_qualname.startswith(_GENERATED)


def options_of(decorated: Any) -> tuple[object, ...]:
    """Return what was given to the decorator of a kernel or launcher."""
    return tuple(getattr(decorated, name, None) for name in ("symbol", "known_block", "spills"))


def fields_of(kind: type) -> list[object]:
    """Return what the generated methods of a data class are made from, besides its defaults."""
    fields: Mapping[str, Any] = vars(kind)["__dataclass_fields__"]
    return [*map(_FIELD, fields.values()), repr(getattr(kind, "__dataclass_params__", ""))]


class Scan:
    """One scan.

    Values are only looked into at the end: of an object those attributes count whose names occur in
    any code that was found, for it may be handed from one function to another.

    Attributes:
        entries: What counts, by path.
        checks: What to compare later.
        functions: Functions, by identity.
        steps: What was looked at, in order: the owner of a place comes before the place.
        names: Names in all code that was found.
    """

    def __init__(self) -> None:
        self.entries: dict[str, Dependency] = {}
        self.checks: list[Check] = []
        self.functions: dict[int, FunctionState] = {}
        self.steps: list[Step] = []
        self.names: set[str] = set()
        self._seen: set[int] = set()
        self._values: list[tuple[str, Place, object]] = []
        self._modules: list[tuple[str, types.ModuleType]] = []
        self._done: set[tuple[int, str]] = set()

    def root(self, function: types.FunctionType) -> None:
        """Begin with a function."""
        self.steps.append(Step(Place("root", None, len(self.steps)), function, "function"))
        self._function("", function)

    def instance(self, instance: object) -> None:
        """Record the object that the function is bound to."""
        self._place("/self", Place("fixed", instance, ""))

    def classes(self, kinds: Iterable[type]) -> None:
        """Record the code of classes, and of other code that arguments hold."""
        for number, kind in enumerate(kinds):
            self._held(Place("root", None, number), kind)

    def finish(self) -> None:
        """Look into the values that were found."""
        found, walked = -1, set[int]()
        while found != len(self.names) + len(self.steps):
            # Modules and classes may hold more code and modules, which name more of them.
            found = len(self.names) + len(self.steps)
            for path, module in list(self._modules):
                self._members(path, module)
            for _, _, value in list(self._values):
                if id(value) not in walked:
                    walked.add(id(value))
                    for number, code in enumerate(code_in(value)):
                        self._held(Place("held", value, number), code)
        names = frozenset(self.names)
        self.checks += [
            Check(Place("absent", module, absent_from(module, names)), None)
            for module in {id(one): one for _, one in self._modules}.values()
        ]
        contents: dict[int, Content] = {}
        for path, place, value in self._values:
            content = contents.get(id(value))
            if content is None:
                content = contents[id(value)] = content_of(value, names)
            what = "value" if content.portable else "object"
            self.entries[path] = Dependency(path, what, content.digest, content.portable)
            self.checks.append(
                Check(place, value, content.digest if content.mutable else "", names)
            )
            if content.mutable and is_user_class(type(value)):
                # Another class may have the same name, and other methods.
                self.checks.append(Check(Place("attribute", value, "__class__"), type(value)))

    def _function(self, path: str, function: types.FunctionType) -> None:
        """Record a function and what its code names."""
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        code = function.__code__
        self.functions[id(function)] = FunctionState(
            function, code, function.__defaults__, function.__kwdefaults__
        )
        names = names_in(code)
        self.names |= names
        content = code_digest(code)
        for part in ("__defaults__", "__kwdefaults__"):
            value = getattr(function, part)
            if value is None:
                content += "-"
                continue
            held = content_of(value)
            content += held.digest
            if held.mutable:
                self.checks.append(Check(Place("attribute", function, part), value, held.digest))
            inside = list(code_in(value))
            if inside:
                self.steps.append(Step(Place("part", function, part), value, "member"))
            for index, code_held in enumerate(inside):
                self._held(Place("held", value, index), code_held)
        self.entries[path] = Dependency(path, "function", content)
        home: object = function.__module__
        # Where a module has no name, another process does not find it.
        if home is None or reads_outside(function, names):
            # What it reads there cannot be compared by another process.
            self.entries[path + "/outside"] = Dependency(path + "/outside", "object", "", False)
        for number, name in enumerate(code.co_freevars):
            self._place(f"{path}/closure:{name}", Place("cell", function, number))
        space = function.__globals__
        absent = names - space.keys()
        if absent:
            self.checks.append(Check(Place("absent", function, absent), None))
        for name in sorted(names & space.keys()):
            self._place(f"{path}/global:{name}", Place("global", function, name))

    def _found(self, place: Place, value: object, kind: str) -> None:
        self.checks.append(Check(place, value))
        self.steps.append(Step(place, value, kind))

    def _place(self, path: str, place: Place) -> None:
        try:
            value = place.read()
        except (ValueError, AttributeError):  # a variable or attribute without a value yet
            self.steps.append(Step(place, None, "empty"))
            if place.kind == "cell":
                self.checks.append(Check(place._replace(kind="empty"), None))
            return
        if not self._code(path, place, value):
            self._values.append((path, place, value))
            self.steps.append(Step(place, value, "value"))

    def _code(self, path: str, place: Place, value: Any) -> bool:
        """Record code: functions, methods, decorated functions, classes. Return whether it was."""
        # Only of decorated functions: asking a module for an attribute may load plugins.
        inner = getattr(value, "function", None) if hasattr(type(value), "traceable") else None
        if isinstance(inner, types.FunctionType):
            entry = path + "/options"
            self.entries[entry] = Dependency(entry, "value", content_of(options_of(value)).digest)
            self._found(place, value, "decorated")
            self.steps.append(Step(Place("part", value, "function"), inner, "function"))
            self._function(path, inner)
            if getattr(value, "instance", None) is not None:
                self._place(path + "/self", Place("part", value, "instance"))
            return True
        if isinstance(value, types.MethodType):
            self._found(place, value, "method")
            if isinstance(value.__func__, types.FunctionType):
                self._code(path, Place("part", value, "__func__"), value.__func__)
            self._place(path + "/self", Place("part", value, "__self__"))
            return True
        if isinstance(value, MEMOISED):
            self._found(place, value, "memoised")
            return self._code(path, Place("part", value, "__wrapped__"), value.__wrapped__)
        if isinstance(value, types.FunctionType) and rewritable(value):
            self._found(place, value, "function")
            self._function(path, value)
            return True
        named = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
        if not isinstance(value, named):
            return False
        # Which function, class or module it is counts, whoever wrote it.
        content = content_of(value)
        self.entries[path] = Dependency(path, "value", content.digest, content.portable)
        self._found(place, value, "named")
        if isinstance(value, type):
            self._class(path, value)
        elif isinstance(value, types.ModuleType) and is_user_module(value.__name__):
            self._modules.append((path, value))
        return True

    def _held(self, place: Place, code: Any) -> None:
        """Record a class, function or module that a value holds."""
        if isinstance(code, type):
            self._root_class(place, code)
        elif isinstance(code, types.ModuleType):
            self._code(f"/held:{code.__name__}", place, code)
        elif id(code) not in self._seen:
            self._code(f"/held:{code.__module__}.{code.__qualname__}", place, code)

    def _root_class(self, place: Place, kind: type) -> None:
        self.steps.append(Step(place, kind, "named"))
        self._class(f"/class:{kind.__module__}.{kind.__qualname__}", kind)

    def _class(self, path: str, value: type) -> None:
        for number, kind in enumerate(value.__mro__):
            if not is_user_class(kind) or id(kind) in self._seen:
                continue
            self._seen.add(id(kind))
            self.steps.append(Step(Place("mro", value, number), kind, "class"))
            # A new member may hide one of a base.
            self.checks.append(Check(Place("count", kind, ""), len(vars(kind))))
            self.checks.append(Check(Place("attribute", kind, "__mro__"), kind.__mro__))
            if is_user_class(type(kind)):
                # What it does with its classes cannot be followed by another process.
                meta = f"{path}/metaclass:{number}"
                self.entries[meta] = Dependency(meta, "object", "", False)
                self._class(meta, type(kind))
            if "__dataclass_fields__" in vars(kind):
                self._fields(path, kind)
            if issubclass(kind, enum.Enum):
                self._enumeration(f"{path}/members:{number}", kind)
            for name, member in list(vars(kind).items()):
                # A base may have a member of the same name: both count.
                entry, place = f"{path}/member:{number}:{name}", Place("member", kind, name)
                self._member(entry, place, member)

    def _enumeration(self, path: str, kind: type[enum.Enum]) -> None:
        """Record the order of members, and those that a property of `enum.Enum` hides."""
        members = kind.__members__
        self.entries[path] = Dependency(path, "value", hashed(repr(list(members))))
        for name in members:
            if not isinstance(vars(kind).get(name), kind):
                self._place(f"{path}:{name}", Place("attribute", kind, name))

    def _member(self, path: str, place: Place, member: Any) -> None:
        inner, named = inner_of(member), parts_of(member)
        users = isinstance(inner, types.FunctionType) and rewritable(inner)
        if users:
            # The same code does something else as a class method than as a static one.
            self._method(f"{path}:{type(member).__qualname__}", place, member, inner)
        elif isinstance(inner, types.FunctionType):
            self.steps.append(Step(place, member, "foreign"))
        elif named:
            self._found(place, member, "member")
        for part in named:
            if not isinstance(inner, types.FunctionType) or getattr(member, part) is not inner:
                self._place(f"{path}:{part}", Place("part", member, part))
        whole = not users and (not named or isinstance(member, partialmethod))
        if whole and _counts(place.owner, place.name, member):
            self._place(path, place)

    def _method(self, path: str, place: Place, member: Any, inner: types.FunctionType) -> None:
        generated = is_generated(inner.__code__)
        self._found(place, member, "generated" if generated else "member")
        if generated:
            return
        part = next((n for n in ("__func__", "fget") if getattr(member, n, None) is inner), "")
        around = Place("part", member, part) if part else place
        self.steps.append(Step(around, inner, "function"))
        self._function(path, inner)

    def _fields(self, path: str, kind: type) -> None:
        """Record what the generated methods of a data class are made from."""
        for name, field in vars(kind)["__dataclass_fields__"].items():
            for part in ("default", "default_factory"):
                if getattr(field, part) is not dataclasses.MISSING:
                    where = f"{path}/{part}:{kind.__qualname__}:{field.name}"
                    self._place(where, Place(part, kind, name))
        place = f"{path}/fields:{kind.__module__}.{kind.__qualname__}"
        self.entries[place] = Dependency(place, "value", hashed(repr(fields_of(kind))))

    def _members(self, path: str, module: types.ModuleType) -> None:
        space = vars(module)
        for name in sorted(self.names):
            if name in space and not name.startswith("__") and (id(module), name) not in self._done:
                self._done.add((id(module), name))
                self._place(f"{path}/attribute:{name}", Place("module", module, name))


def absent_from(module: types.ModuleType, names: Set[str]) -> frozenset[str]:
    """Return which of names are no attributes of a module; those of Python's own do not count."""
    return frozenset(n for n in names - vars(module).keys() if not n.startswith("__"))


def names_in(code: types.CodeType) -> frozenset[str]:
    """Return the global names and attributes in code and in that of its inner functions."""
    names = frozenset[str]().union(*(part.co_names for part in nested_codes(code)))
    return names if names.isdisjoint(_BY_TEXT) else names.union(_texts(code))


def _texts(code: types.CodeType | tuple[object, ...]) -> Iterator[str]:
    """Yield what in code may be the name of an attribute."""
    for constant in code.co_consts if isinstance(code, types.CodeType) else code:
        if isinstance(constant, str) and constant.isidentifier():
            yield constant
        elif isinstance(constant, (tuple, types.CodeType)):
            yield from _texts(constant)
