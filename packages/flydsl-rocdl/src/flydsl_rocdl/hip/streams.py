"""Streams, events and graphs of HIP for programs that do not use PyTorch's.

A `HipStream` can be given wherever a launcher takes a stream. What is launched on it during
`capture` becomes a `HipGraph`, which replays the launches with the arguments that they had.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from flydsl.errors import TargetError, UserRuntimeError
from flydsl_rocdl.hip.runtime import HipRuntime

__all__ = ["HipEvent", "HipGraph", "HipStream"]

_NON_BLOCKING = 1  # hipStreamNonBlocking: does not wait for the null stream
_THREAD_LOCAL = 1  # hipStreamCaptureModeThreadLocal


class HipStream:
    """A stream of a device.

    Args:
        runtime: The runtime.
        device: The device.
    """

    def __init__(self, runtime: HipRuntime, device: int = 0) -> None:
        self._runtime, self._device = runtime, device
        self._handle = runtime.made(
            "hipStreamCreateWithFlags", "hipStreamDestroy", device, _NON_BLOCKING
        )

    @property
    def cuda_stream(self) -> int:
        """The handle, under the name by which launchers look for it.

        Raises:
            UserRuntimeError: The stream is closed; a handle of 0 would be the null stream.
        """
        if not self._handle:
            raise _closed("stream")
        return self._handle

    @property
    def device_index(self) -> int:
        """The device, which launchers compare with that of the tensors."""
        return self._device

    def synchronize(self) -> None:
        """Wait for everything on the stream.

        Raises:
            TargetError: Work on the device has failed.
        """
        self._runtime.synchronize(self.cuda_stream, self._device)

    def record(self) -> HipEvent:
        """Return an event that happens when all that is on the stream now has finished."""
        return HipEvent(self._runtime, self.cuda_stream, self._device)

    def wait(self, event: HipEvent) -> None:
        """Let later work on the stream wait for an event."""
        with self._runtime.on(self._device):
            self._runtime.library.call("hipStreamWaitEvent", self.cuda_stream, event.handle, 0)

    @contextmanager
    def capture(self) -> Iterator[HipGraph]:
        """Capture what is launched on the stream inside the block instead of running it.

        Raises:
            TargetError: HIP cannot capture, or something in the block cannot be captured.
        """
        graph = HipGraph(self._runtime, self._device)
        library, stream = self._runtime.library, self.cuda_stream
        with self._runtime.on(self._device):
            library.call("hipStreamBeginCapture", stream, _THREAD_LOCAL)
            captured = ctypes.c_void_p()
            try:
                yield graph
            except BaseException:
                # What was wrong is known; that the capture became invalid is a consequence.
                failed = library.function("hipStreamEndCapture")(stream, ctypes.byref(captured))
                if captured:
                    failed = library.function("hipGraphDestroy")(captured)
                if failed:
                    library.forget()
                raise
            library.call("hipStreamEndCapture", stream, ctypes.byref(captured))
            graph.instantiate(captured)

    def close(self) -> None:
        """Destroy the stream once its work has finished."""
        if self._handle:
            with self._runtime.on(self._device):
                self._runtime.library.call("hipStreamDestroy", self._handle)
                self._handle = 0


class HipEvent:
    """A point in the work of a stream; made by `HipStream.record`."""

    def __init__(self, runtime: HipRuntime, stream: int, device: int) -> None:
        self._runtime, self._device = runtime, device
        self._handle = runtime.made("hipEventCreateWithFlags", "hipEventDestroy", device, 0)
        try:
            with runtime.on(device):
                runtime.library.call("hipEventRecord", self._handle, stream)
        except BaseException:
            with suppress(TargetError):
                self.close()
            raise

    @property
    def handle(self) -> int:
        """HIP's handle (``hipEvent_t``).

        Raises:
            UserRuntimeError: The event is closed.
        """
        if not self._handle:
            raise _closed("event")
        return self._handle

    def synchronize(self) -> None:
        """Wait for the event.

        Raises:
            TargetError: The work before it has failed.
        """
        self._runtime.library.call("hipEventSynchronize", self.handle)

    def milliseconds_since(self, earlier: HipEvent) -> float:
        """Return the time between two events that have happened.

        Raises:
            TargetError: One of them has not.
        """
        elapsed = ctypes.c_float()
        self._runtime.library.call(
            "hipEventElapsedTime", ctypes.byref(elapsed), earlier.handle, self.handle
        )
        return elapsed.value

    def close(self) -> None:
        """Destroy the event."""
        if self._handle:
            self._runtime.library.call("hipEventDestroy", self._handle)
            self._handle = 0


class HipGraph:
    """Captured launches; made by `HipStream.capture`."""

    def __init__(self, runtime: HipRuntime, device: int) -> None:
        self._runtime, self._device = runtime, device
        self._executable = ctypes.c_void_p()

    def instantiate(self, captured: ctypes.c_void_p) -> None:
        """Make the captured graph launchable; `HipStream.capture` does it at its end."""
        library = self._runtime.library
        executable = ctypes.byref(self._executable)
        try:
            library.call("hipGraphInstantiate", executable, captured, None, None, 0)
        finally:
            library.call("hipGraphDestroy", captured)

    def launch(self, stream: HipStream) -> None:
        """Replay the captured launches on a stream.

        Raises:
            UserRuntimeError: The graph is closed, or what it captures has not ended.
            TargetError: HIP does not launch it.
        """
        if not self._executable:
            raise _closed("graph")
        with self._runtime.on(self._device):
            self._runtime.library.call("hipGraphLaunch", self._executable, stream.cuda_stream)

    def close(self) -> None:
        """Destroy the graph."""
        if self._executable:
            self._runtime.library.call("hipGraphExecDestroy", self._executable)
            self._executable = ctypes.c_void_p()


def _closed(what: str) -> UserRuntimeError:
    return UserRuntimeError(
        f"this {what} is closed",
        code="FLY-U657",
        hint="a graph can be launched from the end of its capture on" if what == "graph" else "",
    )
