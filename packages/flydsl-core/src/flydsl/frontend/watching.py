"""Whether everything that a program was traced from is still the same: looked at on every launch.

A `Place` is where a scan has found something, a `Check` what was there. A `Watch` compares many
checks with a few calls of built-in functions: of most places that they hold the same object is
enough, and of those whose content may change, that all objects inside are the same.
"""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter, getitem, is_
from typing import Any, Final, NamedTuple, cast

from flydsl.frontend.contents import (
    MEMOISED,
    content_of,
    enum_attributes,
    more_than_attributes,
    same_scalar,
    slots_of,
)
from flydsl.frontend.eligible import is_user_class
from flydsl.words import Words, viewed

__all__ = ["Check", "FunctionState", "Place", "Watch"]

_MAX_DEPTH = 8
_FEW = 12
"""Up to so many, a loop is faster than functions that loop."""
_NONE: Final = frozenset[str]()
_FUNCTION: Final = attrgetter("__code__", "__defaults__", "__kwdefaults__")
_HASHED = (set, functools.partial, types.MethodType, MEMOISED)
"""What is compared by content on every launch."""


class Place(NamedTuple):
    """Where something was found.

    Attributes:
        kind: ``"global"`` of a function, ``"module"`` for an attribute of one, ``"member"`` of a
            class, ``"default"`` and ``"default_factory"`` of a field of a data class, ``"cell"`` of
            a function, ``"attribute"`` of any object; ``"part"`` is one that cannot change,
            ``"mro"`` a class in another one's order, ``"held"`` one of the classes inside a value,
            ``"root"`` what the scan began with, ``"fixed"`` the owner itself; ``"count"`` is how
            many members a class has, ``"empty"`` a cell without a value, ``"absent"`` what no
            global of a function, or attribute of a module, may be named.
        owner: The function, class, module or object.
        name: Name, names, or the number of the cell or class.
    """

    kind: str
    owner: Any
    name: Any

    def read(self) -> Any:
        """Return what is there.

        Raises:
            KeyError, AttributeError, ValueError: Nothing is there.
        """
        kind, owner, name = self
        space = self.space()
        if space is not None:
            return space[name]
        if kind == "cell":
            return owner.__closure__[name].cell_contents
        if kind in ("attribute", "part"):
            return getattr(owner, name)
        return owner if kind == "fixed" else getattr(self.field(), kind)

    def field(self) -> Any:
        """Return the field of a data class."""
        return vars(self.owner)["__dataclass_fields__"][self.name]

    def space(self) -> Mapping[str, Any] | None:
        """Return the dictionary with the place, or None if it is in none."""
        if self.kind == "global":
            space: Mapping[str, Any] = self.owner.__globals__
            return space
        return vars(self.owner) if self.kind in ("module", "member") else None


class Check(NamedTuple):
    """What a place held.

    Attributes:
        place: The place.
        value: What was there.
        content: Hash of what it held, if that may change while it stays there.
        names: See `content_of`.
    """

    place: Place
    value: object
    content: str = ""
    names: frozenset[str] | None = None


class FunctionState(NamedTuple):
    """A function and what it consisted of."""

    function: types.FunctionType
    code: types.CodeType
    defaults: object
    keyword_defaults: object


class _Held:
    """Objects that are at some places, or equal scalars.

    Args:
        read: Reads from an owner by name.
        rows: Owners, names and objects.
    """

    def __init__(
        self, read: Callable[[Any, Any], object], rows: Iterable[tuple[Any, Any, object]]
    ) -> None:
        self._read, self._rows = read, tuple(rows)
        columns = tuple(zip(*self._rows, strict=True)) or ((), (), ())
        self._owners, self._names, self._values = columns

    def __len__(self) -> int:
        return len(self._rows)

    def holds(self) -> bool:
        read = self._read
        if len(self._rows) > _FEW and all(
            map(is_, map(read, self._owners, self._names), self._values)
        ):
            return True
        for owner, name, value in self._rows:
            now = read(owner, name)
            if now is not value and not same_scalar(now, value):
                return False
        return True


class _Parts:
    """What to look at of a value and of all that it holds.

    Attributes:
        readers: Functions and what to call them with, which return tuples of objects.
        kinds: Objects of classes of the user's, and these.
        functions, dictionaries: Others.
    """

    def __init__(self) -> None:
        self.readers: list[tuple[Callable[[Any], tuple[Any, ...]], object]] = []
        self.kinds: list[tuple[object, type]] = []
        self.functions: list[types.FunctionType] = []
        self.dictionaries: list[dict[Any, Any]] = []


class _Inside:
    """A value whose content may change."""

    def __init__(self, value: object, content: str, names: frozenset[str] | None) -> None:
        self._value, self._content, self._names = value, content, names
        self._kinds: list[tuple[object, type]] = []
        self._parts: list[tuple[Callable[..., Any], object, tuple[object, ...]]] | None = None
        self._words = Words((), ())
        self._seen: bytes | None = None
        self._states: list[tuple[Any, ...]] = []

    def holds(self) -> bool:
        # Another class may have the same name. That of the value itself is another check.
        for owner, kind in self._kinds:
            if type(owner) is not kind:
                return False
        if self._parts is not None and self._words.read() == self._seen:
            for read, owner, before in self._parts:
                now = read(owner)
                if len(now) != len(before) or not all(map(is_, now, before)):
                    break
            else:
                return True
        return self._look()

    def _look(self) -> bool:
        """Return whether the content is the same, and keep what to look at from now on."""
        value, names = self._value, self._names
        found = _Parts()
        looked = _parts(value, names, found, 0)
        words = Words(found.functions, found.dictionaries)
        seen = words.read()
        states = list(map(_FUNCTION, found.functions))
        steady = words.read() == seen
        if seen is None:
            found.readers += [(_FUNCTION, function) for function in found.functions]
            found.readers += [(_values, space) for space in found.dictionaries]
        # All is read before it is hashed: other threads may change it meanwhile.
        parts = [(read, owner, read(owner)) for read, owner in found.readers]
        if content_of(value, names).digest != self._content:
            return False
        # Where not all parts can be looked at, the content is hashed every time.
        self._parts = parts if looked and steady else None
        self._kinds, self._words, self._seen = found.kinds, words, seen
        # Kept alive: words do not tell what is made later where one of these has been.
        self._states = states
        return True


class Watch:
    """Checks in groups.

    Args:
        checks: Places and what they held.
        functions: Functions and what they consisted of.
    """

    def __init__(self, checks: Iterable[Check], functions: Iterable[FunctionState]) -> None:
        items: dict[tuple[int, Any], tuple[Any, Any, object]] = {}
        attributes: dict[tuple[int, Any], tuple[object, Any, object]] = {}
        inside: dict[tuple[int, str, int], _Inside] = {}
        counts: dict[int, tuple[Any, int]] = {}
        absent: dict[int, tuple[Any, frozenset[str]]] = {}
        empty: dict[int, types.CellType] = {}
        for (kind, owner, name), value, content, names in checks:
            space = Place(kind, owner, name).space()
            if space is not None:
                # A class makes a new view of its dictionary each time.
                items[id(owner if kind == "member" else space), name] = (space, name, value)
            elif kind == "attribute":
                attributes[id(owner), name] = (owner, name, value)
            elif kind in ("default", "default_factory"):
                field = Place(kind, owner, name).field()
                attributes[id(field), kind] = (field, kind, value)
            elif kind == "cell":
                cell = owner.__closure__[name]
                attributes[id(cell), ""] = (cell, "cell_contents", value)
            elif kind == "count":
                counts[id(owner)] = (owner, cast("int", value))
            elif kind == "empty":
                cell = owner.__closure__[name]
                empty[id(cell)] = cell
            elif kind == "absent":
                # Not asked for: a module may answer for any name.
                module = isinstance(owner, types.ModuleType)
                space = vars(owner) if module else owner.__globals__
                absent[id(space)] = space, name | absent.get(id(space), (space, _NONE))[1]
            if content:
                inside[id(value), content, id(names)] = _Inside(value, content, names)
        self._functions = tuple({id(state.function): state for state in functions}.values())
        spaces = [space for space, _, _ in items.values()]
        spaces += [vars(kind) for kind, _ in counts.values()]
        spaces += [space for space, _ in absent.values()]
        different = {id(space): space for space in map(viewed, spaces)}
        self._words = Words((state[0] for state in self._functions), different.values())
        self._seen: bytes | None = None
        self._items = _Held(getitem, items.values())
        self._attributes = _Held(getattr, attributes.values())
        self._inside = tuple(inside.values())
        self._counts = tuple(counts.values())
        self._absent = tuple((space.keys(), names) for space, names in absent.values())
        self._empty = tuple(empty.values())

    def holds(self) -> bool:
        """Return whether every place still holds what it held."""
        words = self._words.read()
        try:
            if words is None or words != self._seen:
                if not self._hold():
                    return False
                # The same before and after: other threads may change things meanwhile.
                self._seen = words if words == self._words.read() else None
            if self._attributes and not self._attributes.holds():
                return False
            if self._empty and not all(map(_is_empty, self._empty)):
                return False
            return not self._inside or all(value.holds() for value in self._inside)
        except (KeyError, ValueError, AttributeError):  # something is gone
            return False

    def _hold(self) -> bool:
        """Return whether functions and dictionaries hold what they held.

        Raises:
            KeyError: Something is gone.
        """
        for function, code, defaults, keyword_defaults in self._functions:
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not keyword_defaults
            ):
                return False
        for kind, count in self._counts:
            if len(kind.__dict__) != count:
                return False
        for names, absent in self._absent:
            if not names.isdisjoint(absent):
                return False
        return self._items.holds()


def _is_empty(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is cell
    except ValueError:
        return True


# Values ------------------------------------------------------------------------------------------
def _values(owner: Mapping[Any, object]) -> tuple[object, ...]:
    return (*owner, *owner.values())


def _dictionary(owner: object) -> tuple[object, ...]:
    return _values(vars(owner))


def _parts(
    value: Any,
    names: frozenset[str] | None,
    found: _Parts,
    depth: int,
) -> bool:
    """Collect what to look at of a value; return whether that is everything.

    Args:
        value: The value.
        names: See `content_of`.
        found: Gets it.
        depth: How far inside another value it is.
    """
    kind = type(value)
    readers = found.readers
    inner: Iterable[Any]
    if depth == _MAX_DEPTH or kind in _HASHED:
        return False
    if kind in (tuple, frozenset):
        inner = value
    elif isinstance(value, enum.Enum):
        inner = (value.value, *enum_attributes(value, names).values())
        if len(inner) > 1:
            readers.append((_dictionary, value))
    elif kind is list:
        readers.append((tuple, value))
        inner = value
    elif kind in (dict, types.MappingProxyType):
        space = viewed(value)
        if type(space) is not dict:
            return False
        found.dictionaries.append(space)
        inner = _values(space)
    elif kind is types.FunctionType:
        found.functions.append(value)
        inner = (value.__defaults__, value.__kwdefaults__)
        if value.__closure__ is not None:
            return False
    elif kind is types.SimpleNamespace or (is_user_class(kind) and not more_than_attributes(value)):
        attributes = _attributes(value, names)
        readers += [(reader, value) for reader in attributes]
        found.kinds.append((value, kind))
        inner = [item for reader in attributes for item in reader(value)]
        if not attributes:
            return False
    else:
        return not content_of(value, names).mutable
    return all(_parts(item, names, found, depth + 1) for item in inner)


def _attributes(value: Any, names: frozenset[str] | None) -> list[Callable[[Any], Any]]:
    """Return functions that return the attributes of an object of a class of the user's.

    Empty for an object with a slot that has no value yet.
    """
    slots = slots_of(type(value))
    slots = tuple(s for s in slots if (names is None or s in names) and not s.startswith("__"))
    if not all(hasattr(value, slot) for slot in slots):
        return []
    found: list[Callable[[Any], Any]] = []
    if slots:
        # With one name there would be no tuple.
        found.append(attrgetter(*slots, slots[0]))
    if isinstance(getattr(value, "__dict__", None), dict):
        found.append(lambda owner: _values(owner.__dict__))
    return found
