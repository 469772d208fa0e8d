"""The result of a trace, as the driver and the cache use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flydsl.errors import SourceLocation
from flydsl.frontend.dependencies import Dependencies
from flydsl.plugins.payloads import ArgSpec

if TYPE_CHECKING:
    from flydsl.runtime.output import OutputSite

__all__ = ["TracedKernel", "TracedModule", "TracedParameter"]


@dataclass(frozen=True, slots=True)
class TracedParameter:
    """A launcher parameter and how its argument is specialised and passed."""

    name: str
    spec: ArgSpec

    @property
    def run_time(self) -> bool:
        """Whether it is a parameter of the traced launcher function."""
        return bool(self.spec.ir_type)


@dataclass(frozen=True, slots=True)
class TracedKernel:
    """A device function of the module.

    Attributes:
        symbol: Its symbol.
        python_name: Name of the Python function.
        location: The ``def``.
        block: Threads along x, y, z where compile-time, else None.
        parameters: IR type text of each parameter.
    """

    symbol: str
    python_name: str
    location: SourceLocation
    block: tuple[int, int, int] | None
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TracedModule:
    """A traced launcher with its kernels.

    Attributes:
        module: The ``ir.Module``; it keeps its context alive.
        launcher: Symbol of the host function.
        parameters: The launcher's parameters; run-time ones are the function's parameters in order.
        implicit_stream: Whether the function has one more trailing i64, the stream, because no
            launcher parameter is a `Stream`.
        kernels: In module order.
        dependencies: Every Python function and value that the result depends on.
        cpu_seconds: CPU time of the trace.
        sites: What its kernels print and assert.
    """

    module: Any
    launcher: str
    parameters: tuple[TracedParameter, ...]
    implicit_stream: bool
    kernels: tuple[TracedKernel, ...]
    dependencies: Dependencies
    cpu_seconds: float
    sites: tuple[OutputSite, ...] = ()
