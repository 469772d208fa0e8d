"""Where the time of a compile went, as `CompileEvent`s."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from flydsl.codegen import CodegenRequest, CodegenResult, observing
from flydsl.plugins.manager import plugin_manager
from flydsl.plugins.payloads import CompileEvent

__all__ = ["Recorder"]


class Recorder:
    """Collects the events of one compile and passes them to listeners.

    CPU seconds of a step are those of this thread; it waits for the codegen worker without using
    any. What the worker spends is in events of its own, of kind ``"optimise"`` and ``"codegen"``,
    whose wall-clock time is zero except for the first of a request, which has all of it.

    Args:
        target: Target text.
    """

    def __init__(self, target: str = "") -> None:
        self.target = target
        self.events: list[CompileEvent] = []
        self._listened = plugin_manager().has_listeners("flydsl_compile_event")

    def add(self, kind: str, name: str, wall: float = 0.0, cpu: float = 0.0) -> None:
        """Record one event."""
        event = CompileEvent(kind, name, self.target, wall, cpu)
        self.events.append(event)
        if self._listened:
            plugin_manager().hook.flydsl_compile_event(event=event)

    @contextmanager
    def step(self, kind: str, name: str) -> Iterator[None]:
        """Record the block as one event, also when it raises."""
        clock = _Clock()
        try:
            yield
        finally:
            self.add(kind, name, *clock.lap())

    @contextmanager
    def emission(
        self, unit: str, before: tuple[str, str], after: tuple[str, str]
    ) -> Iterator[None]:
        """Record a block that asks the codegen worker once: what precedes and follows the request.

        Args:
            unit: What is compiled, ``"device"`` or ``"host"``.
            before: Kind and name of the event for the part before the request.
            after: Kind and name of the event for the part after the answer.
        """
        clock = _Clock()
        part = before

        def observe(request: CodegenRequest, result: CodegenResult) -> None:
            nonlocal part
            del request
            wall, cpu = clock.lap()
            self.add(*part, max(0.0, wall - result.wall_seconds), cpu)
            part = after
            wall = result.wall_seconds
            for step, seconds in result.timings.items():
                name = "optimise" if step == "optimise" else "codegen"
                self.add(name, f"{unit} {step}", wall, seconds)
                wall = 0.0

        try:
            with observing(observe):
                yield
        finally:
            self.add(*part, *clock.lap())


class _Clock:
    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.thread_time()

    def lap(self) -> tuple[float, float]:
        """Return wall-clock and CPU seconds since the last call."""
        wall, cpu = time.perf_counter(), time.thread_time()
        out = wall - self._wall, cpu - self._cpu
        self._wall, self._cpu = wall, cpu
        return out
