"""Streams, events and graphs of the emulator: everything runs in order, when it is asked for.

A launch has finished when it returns, so streams need no queues: an event has happened once it is
recorded. A capture records the launches of one stream instead of running them; its graph runs them
again with the same arguments.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from flydsl.errors import UserError
from flydsl.locking import ProcessLock
from flydsl.runtime.abi import FlyExtent, FlyLaunch

__all__ = ["Event", "Graph", "Streams"]


@dataclass(frozen=True, slots=True)
class Event:
    """A point in a stream.

    Attributes:
        stream: Handle of the stream.
        launches: Launches of the process that had ended when it was recorded.
    """

    stream: int
    launches: int

    def query(self) -> bool:
        """Return whether the work before the event has ended: always."""
        return True

    def synchronize(self) -> None:
        """Return at once."""


def _held_by_the_call() -> list[object]:
    """Return what the framework's functions that are making a launch hold: its arguments.

    A launch record has only the addresses of tensors. Their objects are in the frames between the
    user's call and the runtime, whichever way the call went.
    """
    held: list[object] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_framework(frame.f_globals.get("__name__", "")):
        held += frame.f_locals.values()
        frame = frame.f_back
    return held


def _is_framework(module: str) -> bool:
    return module.partition(".")[0] in ("flydsl", "flydsl_emu", "contextlib")


class _Recorded:
    """A launch record with its own copies of what it points to, and what owns its tensors."""

    def __init__(self, launch: FlyLaunch) -> None:
        self._held = _held_by_the_call()
        self._kernarg = ctypes.create_string_buffer(
            ctypes.string_at(launch.kernarg, launch.kernarg_size), max(1, launch.kernarg_size)
        )
        size = launch.extent_count * ctypes.sizeof(FlyExtent)
        content = ctypes.string_at(launch.extents, size) if size else b""
        self._extents = ctypes.create_string_buffer(content, max(1, size))
        self.launch = FlyLaunch.from_buffer_copy(launch)
        self.launch.kernarg = ctypes.addressof(self._kernarg)
        self.launch.extents = ctypes.addressof(self._extents)


class Graph:
    """Launches that were captured.

    Args:
        run: Runs one launch record.
    """

    def __init__(self, run: Callable[[FlyLaunch], None]) -> None:
        self._run = run
        self._recorded: list[_Recorded] = []
        self.complete = False

    def __len__(self) -> int:
        return len(self._recorded)

    def add(self, launch: FlyLaunch) -> None:
        """Record a launch with its arguments as they are now, and keep its tensors alive."""
        self._recorded.append(_Recorded(launch))

    def replay(self) -> None:
        """Run the launches in order, on the memory that they were captured with.

        What the kernels print is delivered at the end.

        Raises:
            UserError: The capture has not ended, or a kernel fails or was unloaded.
        """
        if not self.complete:
            raise UserError("the graph is still being captured", code="FLY-U726")
        from flydsl.runtime import synchronize

        try:
            for recorded in self._recorded:
                self._run(recorded.launch)
        finally:
            synchronize()


class Streams:
    """The streams of an emulator.

    Handle 0 is the default stream of every device and thread.
    """

    def __init__(self) -> None:
        self._devices: dict[int, int] = {}
        self._lock = ProcessLock()
        self._next = 1
        self._current = threading.local()
        self._captures: dict[int, Graph] = {}

    def create(self, device: int) -> int:
        """Return the handle of a new stream of a device."""
        with self._lock:
            handle = self._next
            self._next += 1
            self._devices[handle] = device
        return handle

    def destroy(self, handle: int) -> None:
        """Make a handle invalid.

        Raises:
            UserError: There is no such stream.
        """
        self.check(handle)
        self._devices.pop(handle, None)

    def check(self, handle: int, device: int | None = None) -> None:
        """Check that a handle is a stream, of `device` unless that is None.

        Raises:
            UserError: It is not.
        """
        if not handle:
            return
        owner = self._devices.get(handle)
        if owner is None or device not in (None, owner):
            raise UserError(
                "no such stream on this emulated device",
                code="FLY-U726",
                value=handle,
                allowed="0, or what create_stream returned for the device",
            )

    def current(self) -> int:
        """Return this thread's stream."""
        found: int = getattr(self._current, "handle", 0)
        return found

    @contextmanager
    def using(self, handle: int) -> Iterator[None]:
        """Make a stream this thread's current one inside the block.

        Raises:
            UserError: There is no such stream.
        """
        self.check(handle)
        before = self.current()
        self._current.handle = handle
        try:
            yield
        finally:
            self._current.handle = before

    def capturing(self, handle: int) -> Graph | None:
        """Return the graph that a stream's launches go to, or None."""
        return self._captures.get(handle)

    @contextmanager
    def capture(self, handle: int, run: Callable[[FlyLaunch], None]) -> Iterator[Graph]:
        """Record the launches of a stream inside the block.

        Raises:
            UserError: The stream is being captured already, or does not exist.
        """
        self.check(handle)
        if handle in self._captures:
            raise UserError("the stream is being captured already", code="FLY-U726", value=handle)
        graph = self._captures[handle] = Graph(run)
        try:
            yield graph
        finally:
            del self._captures[handle]
        graph.complete = True

    def refuse_in_capture(self, handle: int, what: str) -> None:
        """Refuse something that a captured stream cannot do.

        Raises:
            UserError: The stream is being captured.
        """
        if handle in self._captures:
            raise UserError(
                f"{what} in a stream that is being captured", code="FLY-U726", value=handle
            )
