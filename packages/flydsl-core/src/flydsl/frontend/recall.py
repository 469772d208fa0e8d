"""What a scan has found, kept on disk: later processes prove it instead of scanning again.

A *recipe* lists the steps of a scan: where each function, class and value is found from the ones
before. `recall` takes the same steps and collects what the scan looked at: code objects and plain
values as they are, of others what their content hashes to, and which names lead nowhere. If all
that hashes to what the recipe says, a scan would find the same, and so its digest is known.

Code counts with its positions here, so that one hash over all of it does. That a recipe does not
fit, because the program was moved or changed, only means that it is scanned, and the recipe written
again.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import marshal
import os
import sys
import types
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from flydsl.caching import compiler_fingerprint, disk_cache, keep
from flydsl.config import core as settings
from flydsl.frontend import contents, dependencies, eligible, scanning, watching
from flydsl.frontend.contents import MEMOISED, classes_in, content_of
from flydsl.frontend.dependencies import Dependencies
from flydsl.frontend.eligible import is_user_module, rewritable
from flydsl.frontend.scanning import Scan, fields_of, inner_of, is_generated, options_of
from flydsl.frontend.watching import Place

__all__ = ["recall_classes", "recall_function"]

_FORMAT = 1
_BARE: Final = frozenset({tuple, dict, types.MemberDescriptorType, types.GetSetDescriptorType})
"""Members of these types have no function inside."""
_FEW = 20
"""Looking at so many places takes less time than reading a recipe."""
_MAX_DEPTH = 6
"""Of values in values; contents end at a greater depth."""
_FOREIGN = (*contents.SCALARS, enum.Enum, list, tuple, dict, set, frozenset, functools.partial)
"""What classes of the user's may be derived from that counts by more than its attributes."""
_PLAIN: Final = frozenset({int, float, complex, str, bool, type(None)})
"""What `marshal` writes so that equal bytes are equal values."""


class _Refused(Exception):
    """The program is not what the recipe says."""


class _Recipe(NamedTuple):
    """A scan that can be repeated.

    Attributes:
        names: `Scan.names`.
        steps: Kind and name of the place, number of the step that found its owner, kind of the
            step, number of an earlier step that found the same, or -1.
        absent: For each module with functions: a step that found one of them, and what these name
            but the module does not have.
        modules: Steps that found modules, and the attributes of each that were found.
        digest: `Dependencies.digest`.
        contents: Of each object that is no plain value, the hash of what it holds if that may
            change, or nothing.
        proof: Hash of everything that was looked at.
    """

    names: frozenset[str]
    steps: tuple[tuple[str, Any, int, str, int], ...]
    absent: tuple[tuple[int, frozenset[str]], ...]
    modules: tuple[tuple[int, frozenset[str]], ...]
    digest: str = ""
    contents: tuple[str, ...] = ()
    proof: bytes = b""


class _Replay:
    """One repetition of a scan.

    Args:
        recipe: What to repeat.
        roots: What the scan began with.

    Raises:
        _Refused, LookupError, AttributeError, TypeError, ValueError: Something is not the same.
    """

    def __init__(self, recipe: _Recipe, roots: Sequence[object]) -> None:
        self.checks: list[Any] = []
        self.functions: dict[int, Any] = {}
        self._tokens: list[object] = []
        self._names = recipe.names
        self.contents = list(recipe.contents)
        self._values: dict[int, int] = {}
        self._held: dict[int, tuple[type, ...]] = {}
        found: list[Any] = []
        add, tokens, checks = found.append, self._tokens, self.checks
        for kind, name, owner, how, same in recipe.steps:
            # Plain tuples in the form of places and checks: making those would take most time.
            place: tuple[str, Any, Any] = (kind, found[owner] if owner >= 0 else None, name)
            if how == "empty":
                self._empty(Place(*place))
                value = None
            elif kind == "global":
                value = place[1].__globals__[name]
            elif kind == "root":
                value = roots[name]
            elif kind == "part":
                value = getattr(place[1], name)
            elif kind == "mro":
                value = place[1].__mro__[name]
            elif kind == "held":
                value = self._classes(place[1])[name]
            else:
                value = Place(*place).read()
            add(value)
            if how == "value":
                if type(value) in _PLAIN:
                    tokens.append(value)
                    checks.append((place, value, "", None))
                else:
                    self._value(place, value)
            elif how != "empty":
                if kind not in _UNWATCHED:
                    checks.append((place, value, "", None))
                if same < 0:
                    _LOOK[how](self, value)
                elif value is not found[same]:
                    raise _Refused
        for number, absent in recipe.absent:
            _require(absent.isdisjoint(found[number].__globals__))
            shadowing = scanning.BUILTINS & absent
            if shadowing:
                checks.append((("absent", found[number], shadowing), None, "", None))
        for number, attributes in recipe.modules:
            _require(_attributes(found[number], recipe.names) == attributes)

    def proof(self) -> bytes:
        """Return the hash of everything that was looked at."""
        # Version 2 writes values one by one: later ones refer to objects seen before.
        return hashlib.sha256(marshal.dumps(self._tokens, 2)).digest()

    def _classes(self, value: object) -> tuple[type, ...]:
        found = self._held.get(id(value))
        if found is None:
            found = self._held[id(value)] = tuple(classes_in(value))
            self._tokens.append(len(found))
        return found

    def _empty(self, place: Place) -> None:
        try:
            place.read()
        except (ValueError, AttributeError):
            return
        raise _Refused

    # What was found ------------------------------------------------------------------------------
    def _value(self, place: tuple[str, Any, Any], value: object) -> None:
        number = self._values.get(id(value))
        if number is None:
            number = self._values[id(value)] = len(self._values)
            if self._flat(value, 0):
                self._classes(value)
        else:
            self._tokens.append(("seen", number))
        if number < len(self.contents):
            held = self.contents[number]
        else:
            content = content_of(value, self._names)
            _require(content.portable)
            held = content.digest if content.mutable else ""
            self.contents.append(held)
        self.checks.append((place, value, held, self._names))

    def _flat(self, value: Any, depth: int) -> bool:
        """Note what `content_of` looks at; return whether classes of the user's may be inside."""
        kind, tokens = type(value), self._tokens
        _require(depth < _MAX_DEPTH)
        if kind in _PLAIN:
            tokens.append(value)
            return False
        if isinstance(value, type):
            tokens.append((value.__module__, value.__qualname__))
            return is_user_module(value.__module__)
        inner: Any
        if kind in (tuple, list):
            inner = value
        elif kind is dict:
            inner = (*value, *value.values())
        elif is_user_module(kind.__module__) and not _is_special(value):
            attributes = contents.attributes_of(value, self._names)
            _require(attributes is not None)
            inner = [part for pair in sorted((attributes or {}).items()) for part in pair]
        else:
            content = content_of(value, self._names)
            _require(content.portable)
            # Not alone: it is no string that the program has.
            tokens.append((content.digest,))
            return True
        tokens += ((kind.__module__, kind.__qualname__), len(inner))
        found = [self._flat(item, depth + 1) for item in inner]
        return any(found) or is_user_module(kind.__module__)

    def _default(self, function: types.FunctionType, name: str, held: Any) -> None:
        """Note defaults of a function."""
        if type(held) is tuple and _PLAIN.issuperset(map(type, held)):
            self._tokens.append(held)
            return
        content = content_of(held)
        _require(content.portable)
        self._tokens.append(content.digest)
        if content.mutable:
            self.checks.append((("attribute", function, name), held, content.digest, None))

    def _function(self, function: Any) -> None:
        if type(function) is not types.FunctionType:
            raise _Refused
        code, space = function.__code__, function.__globals__
        defaults, keyword_defaults = function.__defaults__, function.__kwdefaults__
        # A plain tuple in the form of `FunctionState`.
        self.functions[id(function)] = (function, code, defaults, keyword_defaults)
        self._tokens += (code, space["__name__"], defaults is None, keyword_defaults is None)
        if "__flydsl_internal__" in space:
            raise _Refused
        if defaults is not None:
            self._default(function, "__defaults__", defaults)
        if keyword_defaults is not None:
            self._default(function, "__kwdefaults__", keyword_defaults)

    def _class(self, kind: Any) -> None:
        space = vars(kind)
        self.checks.append((("count", kind, ""), len(space), "", None))
        made: list[str] = []
        for name, member in space.items():
            type_ = type(member)
            if type_ is types.FunctionType:
                made.append(member.__code__.co_qualname)
                if is_generated(member.__code__):
                    # Which one it is counts later, though not what it does.
                    self.checks.append((("member", kind, name), member, "", None))
            elif type_ in _PLAIN or type_ in _BARE:
                made.append(type_.__name__)
            else:
                inner = inner_of(member)
                function = type(inner) is types.FunctionType
                made.append(inner.__code__.co_qualname if function else type_.__qualname__)
        self._tokens += (
            [(one.__module__, one.__qualname__) for one in kind.__mro__],
            list(space),
            made,
        )
        if "__dataclass_fields__" in space:
            self._tokens.append(fields_of(kind))

    def _named(self, value: Any) -> None:
        if isinstance(value, type):
            self._tokens += (1, value.__module__, value.__qualname__, len(value.__mro__))
        elif isinstance(value, types.ModuleType):
            self._tokens += (2, value.__name__)
        elif type(value) is types.FunctionType and value.__closure__ is None:
            # Of another library, but counts like a value.
            defaults, keyword_defaults = value.__defaults__, value.__kwdefaults__
            self._tokens += (3, value.__module__, value.__qualname__, value.__code__)
            self._tokens += (rewritable(value), defaults is None, keyword_defaults is None)
            for name, held in (("__defaults__", defaults), ("__kwdefaults__", keyword_defaults)):
                if held is not None:
                    self._default(value, name, held)
        else:
            _require(isinstance(value, (types.FunctionType, types.BuiltinFunctionType)))
            content = content_of(value)
            _require(content.portable and not hasattr(type(value), "traceable"))
            self._tokens += (4, type(value) is types.FunctionType and rewritable(value))
            self._tokens.append(content.digest)

    def _decorated(self, value: Any) -> None:
        kind = type(value)
        instance = getattr(value, "instance", None) is not None
        self._tokens += (kind.__module__, kind.__qualname__, instance)
        self._flat(options_of(value), 0)

    def _method(self, value: Any) -> None:
        _require(isinstance(value, types.MethodType))
        self._tokens.append(type(value.__func__).__qualname__)

    def _memoised(self, value: Any) -> None:
        _require(isinstance(value, MEMOISED))

    def _member(self, value: Any) -> None:
        inner = inner_of(value)
        _require(isinstance(inner, types.FunctionType) and rewritable(inner))
        _require(not is_generated(inner.__code__))

    def _generated(self, value: Any) -> None:
        inner = inner_of(value)
        _require(isinstance(inner, types.FunctionType) and is_generated(inner.__code__))

    def _foreign(self, value: Any) -> None:
        inner = inner_of(value)
        _require(isinstance(inner, types.FunctionType) and not rewritable(inner))


_UNWATCHED: Final = frozenset({"root", "part", "mro", "held"})
_LOOK: Final = {
    "class": _Replay._class,
    "decorated": _Replay._decorated,
    "foreign": _Replay._foreign,
    "function": _Replay._function,
    "generated": _Replay._generated,
    "member": _Replay._member,
    "memoised": _Replay._memoised,
    "method": _Replay._method,
    "named": _Replay._named,
}


def _is_special(value: object) -> bool:
    """Whether more than its attributes counts of an object of a class of the user's."""
    array = hasattr(value, "tobytes") or hasattr(value, "data_ptr")
    return array or isinstance(value, _FOREIGN)


def _require(condition: bool) -> None:
    if not condition:
        raise _Refused


def _attributes(module: Any, names: frozenset[str]) -> frozenset[str]:
    """Return which names a scan looks at in a module."""
    return frozenset(name for name in names & vars(module).keys() if not name.startswith("__"))


# Recipes -----------------------------------------------------------------------------------------
def _recipe(scan: Scan, roots: Sequence[object], digest: str) -> _Recipe:
    """Return how to repeat a scan.

    Raises:
        _Refused, LookupError, AttributeError, TypeError, ValueError: It cannot be repeated.
    """
    steps: list[tuple[str, Any, int, str, int]] = []
    owners: dict[int, int] = {}
    known: dict[tuple[int, str], int] = {}
    read: set[tuple[int, str]] = set()
    modules: dict[int, types.ModuleType] = {}
    for place, value, how in scan.steps:
        if how == "generated" and type(value) is types.FunctionType:
            continue  # its class tells
        if place.kind == "global":
            # Other functions of the same module name it, too.
            where = id(place.space()), place.name
            if where in read:
                continue
            read.add(where)
        number = len(steps)
        owner = -1 if place.owner is None else owners[id(place.owner)]
        steps.append((place.kind, place.name, owner, how, known.get((id(value), how), -1)))
        if how != "empty":
            owners.setdefault(id(value), number)
            known.setdefault((id(value), how), number)
        if isinstance(value, types.ModuleType) and is_user_module(value.__name__):
            modules[owners[id(value)]] = value
    absent: dict[int, tuple[int, frozenset[str]]] = {}
    for state in scan.functions.values():
        function: Any = state.function
        space = function.__globals__
        number, some = absent.get(id(space), (owners[id(function)], frozenset()))
        absent[id(space)] = number, some | (scanning.names_in(state.code) - space.keys())
    names = frozenset(scan.names)
    recipe = _Recipe(
        names,
        tuple(steps),
        tuple(absent.values()),
        tuple((number, _attributes(module, names)) for number, module in modules.items()),
        digest,
    )
    replay = _Replay(recipe, roots)
    return recipe._replace(contents=tuple(replay.contents), proof=replay.proof())


_FAILURES = (_Refused, LookupError, AttributeError, TypeError, ValueError, EOFError)


def recall_function(function: types.FunctionType) -> Dependencies:
    """Return what a function depends on, itself included; `Dependencies.entries` may be empty."""
    what = ("function", function.__module__, function.__qualname__)
    found = _recalled(what, (function,))
    if found is None:
        scan = Scan()
        scan.root(function)
        found = _scanned(scan, what, (function,))
    return found


def recall_classes(kinds: Sequence[type]) -> Dependencies:
    """Return the code of classes and what it depends on; `Dependencies.entries` may be empty."""
    names = tuple(name for kind in kinds for name in (kind.__module__, kind.__qualname__))
    found = _recalled(("classes", *names), kinds)
    if found is None:
        scan = Scan()
        scan.classes(kinds)
        found = _scanned(scan, ("classes", *names), kinds)
    return found


def _recalled(what: tuple[str, ...], roots: Sequence[object]) -> Dependencies | None:
    """Return what a recipe proves; None without one that fits."""
    data = disk_cache().fetch(_key(what)) if settings.ENABLE_CACHE.get() else None
    if data is None:
        return None
    try:
        recipe = _Recipe(*marshal.loads(data))
        replay = _Replay(recipe, roots)
        if replay.proof() != recipe.proof:
            return None
    except _FAILURES:
        return None
    return Dependencies((), tuple(replay.checks), replay.functions, (), recipe.digest)


def _scanned(scan: Scan, what: tuple[str, ...], roots: Sequence[object]) -> Dependencies:
    """Return what a scan finds, and keep its recipe."""
    found = Dependencies.of(scan)
    if found.portable and len(scan.steps) > _FEW and settings.ENABLE_CACHE.get():
        try:
            data = marshal.dumps(tuple(_recipe(scan, roots, found.digest)))
        except _FAILURES:
            return found
        keep(_key(what), data, {"name": f"{what[-1]} (scan)", "target": ""})
    return found


def _key(what: tuple[str, ...]) -> str:
    text = repr((_FORMAT, sys.hexversion, compiler_fingerprint(()), _own_status(), what))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@functools.cache
def _own_status() -> list[tuple[int, int]]:
    """Return the sizes and times of what scans: an editable scan is not part of the fingerprint."""
    parts = (contents, dependencies, eligible, scanning, watching)
    files = [str(part.__file__) for part in parts]
    return [(found.st_size, found.st_mtime_ns) for found in map(os.stat, (*files, __file__))]
