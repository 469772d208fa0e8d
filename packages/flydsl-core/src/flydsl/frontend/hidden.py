"""State in Python objects that a dynamic region cannot carry: noticed, undone and refused.

Iterators that advance, buffers and queues that change, and attributes of classes have one state for
all lanes and iterations, whatever guards the change.
"""

from __future__ import annotations

import collections
import types
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from flydsl.errors import UserError
from flydsl.frontend.records import is_own_class

__all__ = ["Hidden", "watched"]

_KEPT_BYTES = 1 << 20
"""Buffers up to this size are restored after an error; larger ones are only compared."""


class Hidden:
    """What is known of one object at the beginning of a region.

    Args:
        name: How the user's code refers to it.
        what: Its kind, in words.
        read: Returns a value that changes whenever its state does.
        undo: Puts the state back, as far as that is possible.
    """

    __slots__ = ("_read", "_state", "_undo", "_what", "name")

    def __init__(
        self, name: str, what: str, read: Callable[[], Any], undo: Callable[[], None] | None = None
    ) -> None:
        self.name = name
        self._what = what
        self._read = read
        self._undo = undo
        self._state = read()

    def check(self) -> None:
        """Check that the state is still the same.

        Raises:
            UserError: It is not.
        """
        if self._read() != self._state:
            raise UserError(
                f"{self._what} {self.name!r} changes in a dynamic region",
                code="FLY-U289",
                hint="Python runs the region once while tracing, so the change would reach all "
                "lanes and iterations; change it outside, or carry numbers in a list, dict or "
                "object instead",
            )

    def restore(self) -> None:
        """Put the state back if it changed."""
        if self._undo is not None and self._read() != self._state:
            self._undo()


def watched(name: str, value: Any) -> Hidden | None:
    """Return what watches an object, or None if it has no such state."""
    if isinstance(value, types.GeneratorType):
        return Hidden(name, "the generator", lambda: _generator(value))
    if isinstance(value, Iterator):
        return _iterator(name, value)
    if isinstance(value, collections.deque):
        items = list(value)

        def refill() -> None:
            value.clear()
            value.extend(items)

        return Hidden(name, "the deque", lambda: [id(item) for item in value], refill)
    if isinstance(value, type) and is_own_class(value):
        return _class(name, value)
    if isinstance(value, bytearray) or hasattr(type(value), "__array_interface__"):
        return _buffer(name, value)
    return None


def _generator(value: Any) -> Any:
    frame = value.gi_frame
    return None if frame is None else frame.f_lasti


def _iterator(name: str, value: Any) -> Hidden | None:
    try:
        _position(value)
    except (TypeError, AttributeError, ValueError):  # it does not tell where it is
        return None
    return Hidden(name, "the iterator", lambda: _position(value))


def _position(value: Any) -> Any:
    """Return where an iterator of Python's own is; an exhausted one has let go of its source."""
    reduced = value.__reduce__()
    if not isinstance(reduced, tuple):
        raise TypeError("no state")
    inner = [
        _position(item) if isinstance(item, Iterator) else id(item)
        for part in reduced[1:2]
        for item in (part if isinstance(part, tuple) else (part,))
    ]
    return (inner, repr(reduced[2:]) if len(reduced) > 2 else "")


def _class(name: str, value: type) -> Hidden:
    def read() -> dict[str, int]:
        return {key: id(item) for key, item in vars(value).items() if not _private(key)}

    kept = {key: item for key, item in vars(value).items() if not _private(key)}

    def undo() -> None:
        for key in [key for key in vars(value) if not _private(key) and key not in kept]:
            delattr(value, key)
        for key, item in kept.items():
            if vars(value).get(key) is not item:
                setattr(value, key, item)

    return Hidden(name, "the class", read, undo)


def _private(key: str) -> bool:
    return key.startswith(("__", "_abc_"))


def _buffer(name: str, value: Any) -> Hidden | None:
    if getattr(getattr(value, "dtype", None), "hasobject", False):
        return None
    size = len(value) if isinstance(value, bytearray) else value.nbytes
    kept = value.copy() if size <= _KEPT_BYTES else None

    def read() -> int:
        return zlib.crc32(value if isinstance(value, bytearray) else value.tobytes())

    def undo() -> None:
        if isinstance(value, bytearray):
            value[:] = kept or b""
        else:
            value[...] = kept

    return Hidden(name, "the buffer", read, None if kept is None else undo)
