"""`Replay`: one repetition of a scan, and what it looks at.

Every step runs once in a process, so that what counts is how much of Python is executed at all:
things are read, looked at and noted many at once, by functions of the interpreter's own.
"""

from __future__ import annotations

import hashlib
import marshal
import types
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from operator import attrgetter, is_
from typing import Any, Final

from flydsl.diagnostics import is_framework_module
from flydsl.frontend import contents, scanning
from flydsl.frontend.contents import (
    MEMOISED,
    code_in,
    content_of,
    more_than_attributes,
)
from flydsl.frontend.eligible import is_user_class, rewritable
from flydsl.frontend.recipes import PLAIN, SPACES, Recipe, attributes_named
from flydsl.frontend.scanning import fields_of, inner_of, is_generated, options_of, parts_of
from flydsl.frontend.watching import Check, FunctionState, Place

__all__ = ["Refused", "Replay"]

_BARE: Final = frozenset({tuple, dict, types.MemberDescriptorType, types.GetSetDescriptorType})
"""Members of these types have no function inside."""
_MAX_DEPTH = 6
"""Of values in values; contents end at a greater depth."""
_PART = 16
"""Things that are hashed at once."""
_UNWATCHED: Final = frozenset({"root", "part", "mro", "held"})
_PARTS: Final = attrgetter("__code__", "__globals__", "__defaults__", "__kwdefaults__")
_NAMED: Final = attrgetter("__module__", "__qualname__")
_TYPE_NAME: Final = attrgetter("__qualname__")
_FUNCTION: Final = frozenset({types.FunctionType})


class Refused(Exception):
    """The program is not what the recipe says."""


class Replay:
    """One repetition of a scan.

    Args:
        recipe: What to repeat.
        roots: What the scan began with.

    Attributes:
        contents: See `Recipe`.

    Raises:
        Refused, LookupError, AttributeError, TypeError, ValueError: Something is not the same.
    """

    def __init__(self, recipe: Recipe, roots: Sequence[object]) -> None:
        self._reads: Callable[[], tuple[Any, ...]] = lambda: recipe.reads
        # What is kept for later calls is kept flat: Python's garbage collector goes through it.
        self._checks: list[Any] = []
        self._states: list[tuple[Any, ...]] = []
        self.contents = list(recipe.contents)
        self._tokens: list[object] = []
        self._names = recipe.names
        self._held: dict[int, tuple[type, ...]] = {}
        self._found = found = list[Any]()
        for kind, owners, names in _threes(recipe.reads):
            if kind in SPACES:
                owner = found[owners]
                space = owner.__globals__ if kind == "global" else vars(owner)
                found += [space[name] for name in names]
            elif kind == "root":
                found += [roots[name] for name in names]
            else:
                found += self._read(kind, [found[number] for number in owners], names)
        for kind, number, name in recipe.empty:
            self._empty(Place(kind, found[number], name))
            if kind == "cell":
                self._checks += ("empty", found[number], name, None, "", None)
        these, before = recipe.same
        _require(all(map(is_, [found[n] for n in these], [found[n] for n in before])))
        for how, numbers in recipe.looks:
            _LOOK[how](self, [found[number] for number in numbers])
        for number, absent in recipe.absent:
            _require(absent.isdisjoint(found[number].__globals__))
            if absent:
                self._checks += ("absent", found[number], absent, None, "", None)
        for number, attributes in recipe.modules:
            module = found[number]
            _require(attributes_named(module, recipe.names) == attributes)
            absent = scanning.absent_from(module, recipe.names)
            self._checks += ("absent", module, absent, None, "", None)

    def proof(self) -> bytes:
        """Return the hash of everything that was looked at, and forget that."""
        digest, tokens = hashlib.sha256(), self._tokens
        self._tokens, self._held = [], {}
        # In parts: the operating system takes longer to supply a large buffer than this to fill it.
        for start in range(0, len(tokens), _PART):
            # Version 2 writes values one by one: later ones refer to objects seen before.
            digest.update(marshal.dumps(tokens[start : start + _PART], 2))
        return digest.digest()

    def forget_reads(self, again: Callable[[], tuple[Any, ...]]) -> None:
        """Let `Recipe.reads` go, and ask for them when they are needed.

        Python's garbage collector would go through them at the end of a first call.
        """
        self._reads = again

    def functions(self) -> Iterator[FunctionState]:
        """Yield what `flydsl.frontend.scanning.Scan.functions` has."""
        for columns in self._states:
            yield from map(FunctionState, *columns)

    def checks(self) -> Iterator[Check]:
        """Yield what `flydsl.frontend.scanning.Scan.checks` has."""
        at, found = 0, self._found
        for kind, owners, names in _threes(self._reads()):
            if kind not in _UNWATCHED:
                numbers = [owners] * len(names) if kind in SPACES else owners
                owned = [found[number] for number in numbers]
                values = found[at : at + len(names)]
                for owner, name, value in zip(owned, names, values, strict=True):
                    yield Check(Place(kind, owner, name), value)
            at += len(names)
        others = iter(self._checks)
        for kind, owner, name, value, content, watched in zip(*6 * [others], strict=True):
            yield Check(Place(kind, owner, name), value, content, watched)

    # Places --------------------------------------------------------------------------------------
    def _read(self, kind: str, owners: Sequence[Any], names: Sequence[Any]) -> list[Any]:
        if kind == "part":
            return list(map(getattr, owners, names))
        pairs = zip(owners, names, strict=True)
        if kind == "mro":
            return [owner.__mro__[name] for owner, name in pairs]
        if kind == "held":
            return [self._classes(owner)[name] for owner, name in pairs]
        return [Place(kind, owner, name).read() for owner, name in pairs]

    def _classes(self, value: object) -> tuple[type, ...]:
        found = self._held.get(id(value))
        if found is None:
            found = self._held[id(value)] = tuple(code_in(value))
            self._tokens.append(len(found))
        return found

    @staticmethod
    def _empty(place: Place) -> None:
        try:
            place.read()
        except (ValueError, AttributeError):
            return
        raise Refused

    # Values --------------------------------------------------------------------------------------
    def _plain(self, values: list[Any]) -> None:
        _require(PLAIN.issuperset(map(type, values)))
        self._tokens += values

    def _objects(self, values: list[Any]) -> None:
        numbers: dict[int, int] = {}
        for value in values:
            if id(value) in numbers:
                self._tokens.append(("seen", numbers[id(value)]))
                continue
            number = numbers[id(value)] = len(numbers)
            if self._flat(value, 0):
                self._classes(value)
            if number < len(self.contents):
                held = self.contents[number]
            else:
                content = content_of(value, self._names)
                _require(content.portable)
                held = content.digest if content.mutable else ""
                self.contents.append(held)
            if held:
                self._checks += ("fixed", value, "", value, held, self._names)
                if is_user_class(type(value)):
                    self._checks += ("attribute", value, "__class__", type(value), "", None)

    def _flat(self, value: Any, depth: int) -> bool:
        """Note what `content_of` looks at; return whether classes of the user's may be inside."""
        kind, tokens = type(value), self._tokens
        _require(depth < _MAX_DEPTH)
        if kind in PLAIN:
            tokens.append(value)
            return False
        if isinstance(value, type):
            tokens.append((value.__module__, value.__qualname__))
            return is_user_class(value)
        inner: Any
        if kind in (tuple, list):
            inner = value
        elif kind is dict:
            inner = (*value, *value.values())
        elif is_user_class(kind) and not more_than_attributes(value):
            attributes = contents.attributes_of(value, self._names)
            if attributes is None:
                raise Refused
            inner = contents.in_order(attributes)
        elif is_framework_module(kind.__module__) and not isinstance(value, contents.CONTAINERS):
            # Like `content_of`, without hashing each.
            shown = repr(value)
            _require(" at 0x" not in shown and not hasattr(kind, "__fly_key__"))
            tokens.append((kind.__module__, kind.__qualname__, shown))
            return False
        else:
            content = content_of(value, self._names)
            _require(content.portable)
            # Not alone: it is no string that the program has.
            tokens.append((content.digest,))
            return True
        tokens += ((kind.__module__, kind.__qualname__), len(inner))
        users = is_user_class(kind)
        if PLAIN.issuperset(map(type, inner)):
            tokens += inner
            return users
        found = [self._flat(item, depth + 1) for item in inner]
        return users or any(found)

    # Functions -----------------------------------------------------------------------------------
    def _functions(self, values: list[Any]) -> None:
        _require(_FUNCTION.issuperset(map(type, values)))
        parts = list(map(_PARTS, values))
        codes, spaces, defaults, keyword_defaults = zip(*parts, strict=True)
        self._states.append((values, codes, defaults, keyword_defaults))
        self._tokens += codes
        different = {id(space): space for space in spaces}.values()
        _require(not any("__flydsl_internal__" in space for space in different))
        self._tokens += [space["__name__"] for space in spaces]
        for name, held in (("__defaults__", defaults), ("__kwdefaults__", keyword_defaults)):
            if held.count(None) < len(held):
                for number, value in enumerate(held):
                    if value is not None:
                        self._tokens.append(number)
                        self._default(values[number], name, value)
            self._tokens.append(None)

    def _default(self, function: types.FunctionType, name: str, held: Any) -> None:
        """Note defaults of a function."""
        if type(held) is tuple and PLAIN.issuperset(map(type, held)):
            self._tokens.append(held)
            return
        content = content_of(held)
        _require(content.portable)
        self._tokens.append(content.digest)
        if content.mutable:
            self._checks += ("attribute", function, name, held, content.digest, None)

    def _generated(self, values: list[Any]) -> None:
        for value in values:
            inner = inner_of(value)
            _require(isinstance(inner, types.FunctionType) and is_generated(inner.__code__))

    def _foreign(self, values: list[Any]) -> None:
        for value in values:
            inner = inner_of(value)
            _require(isinstance(inner, types.FunctionType) and not rewritable(inner))

    # Classes and what is named -------------------------------------------------------------------
    def _kinds(self, values: list[Any]) -> None:
        tokens, checks = self._tokens, self._checks
        for kind in values:
            space = vars(kind)
            checks += ("count", kind, "", len(space), "", None)
            checks += ("attribute", kind, "__mro__", kind.__mro__, "", None)
            types_ = list(map(type, space.values()))
            tokens += (list(map(_NAMED, kind.__mro__)), list(space), list(map(_TYPE_NAME, types_)))
            for (name, member), type_ in zip(space.items(), types_, strict=True):
                if type_ is types.FunctionType:
                    generated = is_generated(member.__code__)
                elif type_ in PLAIN or type_ in _BARE:
                    continue
                else:
                    inner = inner_of(member)
                    tokens.append(parts_of(member))
                    if type(inner) is not types.FunctionType:
                        continue
                    generated = is_generated(inner.__code__)
                tokens.append(generated)
                if generated and type_ is types.FunctionType:
                    # Which one it is counts later, though not what it does.
                    checks += ("member", kind, name, member, "", None)
            if "__dataclass_fields__" in space:
                tokens.append(fields_of(kind))

    def _named(self, values: list[Any]) -> None:
        for value in values:
            if isinstance(value, type):
                self._tokens += (1, value.__module__, value.__qualname__, len(value.__mro__))
            elif isinstance(value, types.ModuleType):
                self._tokens += (2, value.__name__)
            elif type(value) is types.FunctionType and value.__closure__ is None:
                # Of another library, but counts like a value.
                defaults, keyword_defaults = value.__defaults__, value.__kwdefaults__
                self._tokens += (3, value.__module__, value.__qualname__, value.__code__)
                self._tokens += (rewritable(value), defaults is None, keyword_defaults is None)
                for name, held in (
                    ("__defaults__", defaults),
                    ("__kwdefaults__", keyword_defaults),
                ):
                    if held is not None:
                        self._default(value, name, held)
            else:
                _require(isinstance(value, (types.FunctionType, types.BuiltinFunctionType)))
                content = content_of(value)
                _require(content.portable and not hasattr(type(value), "traceable"))
                self._tokens += (4, type(value) is types.FunctionType and rewritable(value))
                self._tokens.append(content.digest)

    # What is around functions --------------------------------------------------------------------
    def _decorated(self, values: list[Any]) -> None:
        for value in values:
            kind = type(value)
            instance = getattr(value, "instance", None) is not None
            self._tokens += (kind.__module__, kind.__qualname__, instance)
            self._flat(options_of(value), 0)

    def _methods(self, values: list[Any]) -> None:
        for value in values:
            _require(isinstance(value, types.MethodType))
            self._tokens.append(type(value.__func__).__qualname__)

    def _memoised(self, values: list[Any]) -> None:
        _require(all(map(isinstance, values, repeat(MEMOISED))))


_LOOK: Final[dict[str, Callable[[Replay, list[Any]], None]]] = {
    "class": Replay._kinds,
    "decorated": Replay._decorated,
    "foreign": Replay._foreign,
    "function": Replay._functions,
    "generated": Replay._generated,
    "memoised": Replay._memoised,
    "method": Replay._methods,
    "named": Replay._named,
    "plain": Replay._plain,
    "value": Replay._objects,
}


def _threes(flat: Sequence[Any]) -> Iterator[tuple[Any, Any, Any]]:
    parts = iter(flat)
    return zip(parts, parts, parts, strict=True)


def _require(condition: bool) -> None:
    if not condition:
        raise Refused
