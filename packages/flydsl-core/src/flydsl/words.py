"""Words of memory that are different once a function or a dictionary has been changed.

CPython numbers the states of dictionaries (PEP 509, up to 3.12), and a function holds three words
that say what it consists of. Comparing these words of many objects at once takes a twentieth of the
time that reading what the objects hold takes. Where they are is not written here but found out by
trial, once in a process: an interpreter that is different in any way has none, and everything is
looked at instead.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

__all__ = ["Words", "layout", "viewed"]

_WORD: Final = ctypes.sizeof(ctypes.c_void_p)
_STATE: Final = ctypes.c_char * _WORD
_PARTS: Final = ctypes.c_char * (3 * _WORD)
_STATE_OFFSET: Final = 3 * _WORD
"""Of a dictionary's number, after two words of every object and the number of items."""

# What the functions below read and write in a dictionary that they run with instead of this module.
new = kept = 0


def _store() -> None:
    global new
    new = 3


def _load() -> object:
    return kept


_CHANGES: Final[tuple[Callable[[dict[str, object]], object], ...]] = (
    lambda space: space.__setitem__("new", 1),
    lambda space: space.__setitem__("new", 1.0),
    lambda space: space.update(new=True),
    lambda space: types.FunctionType(_store.__code__, space)(),
    lambda space: space.pop("new"),
    lambda space: space.setdefault("other", None),
    lambda space: space.__ior__({"other": 0}),
    lambda space: space.__delitem__("other"),
    lambda space: space.popitem(),
    lambda space: space.clear(),
)
_USES: Final[tuple[Callable[[dict[str, object]], object], ...]] = (
    lambda space: space.get("new"),
    lambda space: space["kept"],
    lambda space: (*space, *space.values()),
    lambda space: types.FunctionType(_load.__code__, space)(),
    lambda space: space.keys().isdisjoint(("new", "other")),
)


class Layout(NamedTuple):
    """Where words are, in bytes from an object's address.

    Attributes:
        parts: Of a function: its code, defaults and keyword defaults.
        state: Of a dictionary: the number of its state.
    """

    parts: int
    state: int


class Words:
    """What memory says of functions and dictionaries.

    Args:
        functions: Functions.
        dictionaries: Dictionaries.
    """

    __slots__ = ("_kept", "_views")

    def __init__(
        self, functions: Iterable[types.FunctionType], dictionaries: Iterable[dict[Any, Any]]
    ) -> None:
        # Views do not keep alive what they look at.
        kept = self._kept = (*functions,), (*dictionaries,)
        where = layout()
        plain = {types.FunctionType}.issuperset(map(type, kept[0]))
        self._views: list[Any] | None = None
        if where is not None and plain and {dict}.issuperset(map(type, kept[1])):
            views: list[Any] = [_PARTS.from_address(id(one) + where.parts) for one in kept[0]]
            self._views = views + [_STATE.from_address(id(one) + where.state) for one in kept[1]]

    def read(self) -> bytes | None:
        """Return the words, which are the same as long as all objects hold what they held.

        None where there are no words, or for objects of classes derived from these.
        """
        return None if self._views is None else b"".join(self._views)


def viewed(space: Any) -> Any:
    """Return the dictionary that a view of one shows, such as a class has; others themselves."""
    found = gc.get_referents(space) if type(space) is types.MappingProxyType else []
    return found[0] if len(found) == 1 else space


@functools.cache
def layout() -> Layout | None:
    """Return where the words are; None where this interpreter has no such words."""
    if sys.implementation.name != "cpython" or dict.__basicsize__ < _STATE_OFFSET + _WORD:
        return None
    parts = _parts_offset()
    return Layout(parts, _STATE_OFFSET) if parts and _numbers_states() else None


def _parts_offset() -> int:
    """Return where a function's code, defaults and keyword defaults are side by side, or 0."""

    def sample(number: int = 1, *, other: int = 2) -> int:
        return number + other

    def another(number: int = 3, *, other: int = 4) -> int:
        return number - other

    size = types.FunctionType.__basicsize__
    words = (ctypes.c_void_p * (size // _WORD)).from_address(id(sample))
    before = list(words)
    wanted = [id(sample.__code__), id(sample.__defaults__), id(sample.__kwdefaults__)]
    places = [at for at in range(len(before)) if before[at : at + 3] == wanted]
    if len(places) != 1 or any(before.count(word) != 1 for word in wanted):
        return 0
    held = sample.__code__, sample.__defaults__, sample.__kwdefaults__
    for name in ("__code__", "__defaults__", "__kwdefaults__"):
        setattr(sample, name, getattr(another, name))
    after = list(words)[places[0] :][:3]
    moved = [id(another.__code__), id(another.__defaults__), id(another.__kwdefaults__)]
    del held  # until now, so that nothing else was made where it had been
    return places[0] * _WORD if after == moved else 0


def _numbers_states() -> bool:
    """Return whether dictionaries have a number that every change, and nothing else, changes."""
    space: dict[str, object] = {"__builtins__": {}, "kept": 0}
    word = _STATE.from_address(id(space) + _STATE_OFFSET)
    seen = {bytes(word)}
    for change in _CHANGES:
        change(space)
        seen.add(bytes(word))
        space["kept"] = len(seen)
        space.setdefault("__builtins__", {})
        before = bytes(word)
        for use in _USES:
            use(space)
        if bytes(word) != before:
            return False
        seen.add(before)
    # After each change, and after what restores the dictionary.
    return len(seen) == 1 + 2 * len(_CHANGES)
