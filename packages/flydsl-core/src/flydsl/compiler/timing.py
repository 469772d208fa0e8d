"""Where the time of a compile went, as `CompileEvent`s."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from flydsl.codegen import CodegenRequest, CodegenResult
from flydsl.plugins.manager import plugin_manager
from flydsl.plugins.payloads import CompileEvent

__all__ = ["Recorder"]


class Recorder:
    """Collects the events of one compile and passes them to listeners.

    CPU seconds of a step are those of this thread. What the codegen worker spends is reported in
    events of its own (``"optimise"``, ``"codegen"``, …), which have no wall-clock share: this
    process waits for them inside the step that caused them.

    Args:
        target: Target text.
        unit: ``"device"`` or ``"host"`` names what the worker compiles; see `unit`.
    """

    def __init__(self, target: str = "", unit: str = "device") -> None:
        self.target = target
        self.unit = unit
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
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            self.add(kind, name, time.perf_counter() - wall, time.thread_time() - cpu)

    def observe(self, request: CodegenRequest, result: CodegenResult) -> None:
        """Record what the codegen worker spent on one request."""
        del request
        for step, seconds in result.timings.items():
            kind = "optimise" if step == "optimise" else "codegen"
            self.add(f"worker-{kind}", f"{self.unit} {step}", cpu=seconds)
