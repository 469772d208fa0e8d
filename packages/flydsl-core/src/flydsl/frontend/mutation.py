"""Notices what a traced region changes in Python objects that exist outside it.

A region runs while tracing, so a list item or attribute that it assigns would change for every lane
and every iteration. `Snapshot` records the containers that the region's functions can reach; the
changes found afterwards are undone and become results of the region, like assigned variables.
"""

from __future__ import annotations

import copy
import operator
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from flydsl.errors import UserError
from flydsl.expr.numeric import Numeric
from flydsl.expr.vector import Vector
from flydsl.frontend.eligible import nested_codes, rewritable
from flydsl.frontend.hidden import Hidden, watched
from flydsl.frontend.missing import ABSENT, Missing
from flydsl.frontend.records import is_record, record_made, record_slots, record_state

__all__ = ["AttributeSlot", "CellSlot", "Image", "ItemSlot", "Slot", "Snapshot"]


class Slot(Protocol):
    """A place that holds a Python value."""

    name: str

    def get(self) -> Any:
        """Return the content, `ABSENT` if there is none."""

    def set(self, value: Any) -> None:
        """Replace the content; `ABSENT` empties the place."""

    def key(self) -> tuple[int, object]:
        """Return what identifies the place."""


class CellSlot:
    """A variable shared with nested functions."""

    __slots__ = ("cell", "name")

    def __init__(self, name: str, cell: types.CellType) -> None:
        self.name = name
        self.cell = cell

    def get(self) -> Any:
        """Return the variable's value."""
        try:
            return self.cell.cell_contents
        except ValueError:
            return ABSENT

    def set(self, value: Any) -> None:
        """Assign or unbind the variable."""
        if value is not ABSENT:
            self.cell.cell_contents = value
        elif self.get() is not ABSENT:
            del self.cell.cell_contents

    def key(self) -> tuple[int, object]:
        """Return the cell's identity."""
        return id(self.cell), None


class ItemSlot:
    """An item of a list or dict (an attribute is an item of its object's ``__dict__``)."""

    __slots__ = ("container", "item", "name")

    def __init__(self, name: str, container: Any, item: Any) -> None:
        self.name = name
        self.container = container
        self.item = item

    def get(self) -> Any:
        """Return the item."""
        if isinstance(self.container, dict):
            return self.container.get(self.item, ABSENT)
        return self.container[self.item]

    def set(self, value: Any) -> None:
        """Replace or remove the item."""
        if value is ABSENT:
            self.container.pop(self.item, None)
        else:
            self.container[self.item] = value

    def key(self) -> tuple[int, object]:
        """Return the container's identity and the item's key."""
        return id(self.container), self.item


class AttributeSlot:
    """An attribute of an object that keeps it in a slot."""

    __slots__ = ("item", "name", "owner")

    def __init__(self, name: str, owner: Any, item: str) -> None:
        self.name = name
        self.owner = owner
        self.item = item

    def get(self) -> Any:
        """Return the attribute."""
        return getattr(self.owner, self.item, ABSENT)

    def set(self, value: Any) -> None:
        """Assign or remove the attribute."""
        if value is not ABSENT:
            object.__setattr__(self.owner, self.item, value)
        elif self.get() is not ABSENT:
            object.__delattr__(self.owner, self.item)

    def key(self) -> tuple[int, object]:
        """Return the owner's identity and the attribute's name."""
        return id(self.owner), self.item


_ATOMIC = (
    Numeric, int, float, complex, str, bytes, type(None), type, types.ModuleType, range, Vector,
)  # fmt: skip


_PLAIN = (
    Numeric, int, float, complex, str, bytes, type(None), types.ModuleType, range, Vector, Missing,
)  # fmt: skip
"""What has no parts of its own that could change."""


class Snapshot:
    """The state of everything mutable that the given functions can reach."""

    def __init__(self, functions: Iterable[types.FunctionType]) -> None:
        self._saved: list[tuple[str, Any, Any]] = []
        self._slots: list[tuple[AttributeSlot, Any]] = []
        self._hidden: list[Hidden] = []
        self._seen: set[int] = set()
        self._keep: list[Any] = []
        for function in functions:
            self._closure(function, own=True)

    def changes(self) -> Sequence[tuple[Slot, Any, Any]]:
        """Return ``(place, old, new)`` for every place whose content is another object now.

        Raises:
            UserError: A container grew or shrank, or something changed that cannot be carried.
        """
        if not (self._saved or self._slots or self._hidden):
            return ()
        for hidden in self._hidden:
            hidden.check()
        out: list[tuple[Slot, Any, Any]] = []
        for name, container, saved in self._saved:
            if isinstance(container, types.CellType):
                slot: Slot = CellSlot(name, container)
                now = slot.get()
                if now is not saved:
                    out.append((slot, saved, now))
            elif isinstance(container, list):
                if len(container) != len(saved):
                    raise _grew(name)
                out.extend(
                    (ItemSlot(f"{name}[{i}]", container, i), old, new)
                    for i, (old, new) in enumerate(zip(saved, container, strict=True))
                    if old is not new
                )
            elif isinstance(container, set):
                if container != saved:
                    raise _grew(name)
            else:
                out.extend(_dict_changes(name, container, saved))
        for place, old in self._slots:
            new = place.get()
            if new is not old:
                out.append((place, old, new))
        return out

    def image(self) -> Image:
        """Return the contents of all places now, for `Image.seen`."""
        if not self._saved and not self._slots:
            return Image({})
        contents: dict[object, Any] = {}
        for _, container, _ in self._saved:
            if isinstance(container, list):
                contents[id(container)] = list(container)
            elif isinstance(container, dict):
                contents[id(container)] = dict(container)
        for place, _ in self._slots:
            contents[place.key()] = place.get()
        return Image(contents)

    def restore(self) -> None:
        """Undo all changes."""
        for name, container, saved in self._saved:
            if isinstance(container, types.CellType):
                CellSlot(name, container).set(saved)
            elif isinstance(container, list):
                container[:] = saved
            else:
                container.clear()
                container.update(saved)
        for place, old in self._slots:
            if place.get() is not old:
                place.set(old)
        for hidden in self._hidden:
            hidden.restore()

    def _closure(self, function: types.FunctionType, own: bool = False) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        code, seen = function.__code__, self._seen
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:
                content = ABSENT
            if not own and id(cell) not in seen:
                seen.add(id(cell))
                self._saved.append((name, cell, content))
            if not isinstance(content, _PLAIN):
                self._walk(name, content)
        space = function.__globals__
        for name in _global_names(code):
            if name in space and not isinstance(content := space[name], _PLAIN):
                self._walk(name, content)

    def _walk(self, name: str, value: Any) -> None:
        if id(value) in self._seen or (isinstance(value, _ATOMIC) and not _is_class(value)):
            return
        if isinstance(value, types.FunctionType):
            if rewritable(value):
                self._closure(value)
            return
        if isinstance(value, types.MethodType):
            self._walk(name, value.__self__)
            return
        self._seen.add(id(value))
        self._keep.append(value)
        if isinstance(value, list):
            self._saved.append((name, value, list(value)))
            self._items(name, enumerate(value))
        elif isinstance(value, tuple):
            self._items(name, enumerate(value))
        elif isinstance(value, set):
            self._saved.append((name, value, set(value)))
        elif isinstance(value, dict):
            self._saved.append((name, value, dict(value)))
            self._items(name, value.items())
        elif (hidden := watched(name, value)) is not None:
            self._hidden.append(hidden)
        elif is_record(value):
            self._record(name, value)

    def _record(self, name: str, value: Any) -> None:
        if hasattr(value, "__dict__"):
            state = vars(value)
            self._saved.append((name, state, dict(state)))
        for key in record_slots(type(value)):
            place = AttributeSlot(f"{name}.{key}", value, key)
            self._slots.append((place, place.get()))
        for key, item in record_state(value).items():
            self._walk(f"{name}.{key}", item)

    def _items(self, name: str, items: Iterable[tuple[Any, Any]]) -> None:
        for key, item in items:
            if not isinstance(item, _ATOMIC):
                self._walk(f"{name}[{key!r}]", item)


class Image:
    """The contents that containers and objects had at the end of a region's arm.

    Args:
        contents: By the identity of a list or dict, or the key of an `AttributeSlot`.
    """

    def __init__(self, contents: dict[object, Any]) -> None:
        self._contents = contents
        self._open: set[int] = set()

    def seen(self, value: Any) -> Any:
        """Return a value as the arm left it: copies of containers whose content it changed."""
        if isinstance(value, _ATOMIC) or id(value) in self._open:  # a cycle is left as it is
            return value
        self._open.add(id(value))
        try:
            return self._seen(value)
        finally:
            self._open.discard(id(value))

    def _seen(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            now = self._contents.get(id(value), value) if isinstance(value, list) else value
            items = [self.seen(item) for item in now]
            if len(items) == len(value) and all(map(operator.is_, items, value)):
                return value
            named = getattr(type(value), "_make", None)
            return named(items) if named is not None else type(value)(items)
        if isinstance(value, dict):
            state = {k: self.seen(v) for k, v in self._contents.get(id(value), value).items()}
            if state.keys() == value.keys() and all(state[k] is value[k] for k in state):
                return value
            copied = copy.copy(value)
            copied.clear()
            copied.update(state)
            return copied
        return self._object(value) if is_record(value) else value

    def _object(self, value: Any) -> Any:
        before = record_state(value)
        attributes = getattr(value, "__dict__", None)
        now = dict(self._contents.get(id(attributes), attributes or {}))
        for key in record_slots(type(value)):
            content = self._contents.get((id(value), key), before.get(key, ABSENT))
            if content is not ABSENT:
                now[key] = content
        now = {key: self.seen(item) for key, item in now.items()}
        if now.keys() == before.keys() and all(now[key] is before[key] for key in now):
            return value
        return record_made(type(value), now)


def _is_class(value: object) -> bool:
    return isinstance(value, type)


def _dict_changes(name: str, now: dict[Any, Any], saved: dict[Any, Any]) -> Iterator[Any]:
    if any(key not in now for key in saved):
        raise _grew(name)
    for key in [*saved, *(key for key in now if key not in saved)]:
        old, new = saved.get(key, ABSENT), now.get(key, ABSENT)
        if old is not new:
            yield ItemSlot(f"{name}[{key!r}]", now, key), old, new


def _global_names(code: types.CodeType) -> Iterator[str]:
    for part in nested_codes(code):
        yield from part.co_names


def _grew(name: str) -> UserError:
    return UserError(
        f"{name!r} grows or shrinks in a dynamic region",
        code="FLY-U214",
        hint="give it its full length before the region and assign items, or use range_constexpr "
        "or const_expr so that the region is compile-time",
    )
