"""One launch of a kernel, and the record of what it executed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flydsl_emu.codeobject import Kernel, SourceLine
from flydsl_emu.execution.arguments import Arguments
from flydsl_emu.execution.geometry import Geometry
from flydsl_emu.execution.host import Allocations
from flydsl_emu.execution.program import Program

__all__ = ["DEFAULT_STEP_LIMIT", "Launch", "LaunchRecord"]

DEFAULT_STEP_LIMIT = 20_000_000_000


@dataclass(frozen=True, slots=True)
class Launch:
    """What a tier needs to run a kernel on a whole grid.

    Attributes:
        program: The kernel at its load address.
        geometry: Shape.
        arguments: Kernel arguments and dispatch packet in memory.
        memory: Host memory that the kernel may access.
        steps: Limit of wave-instructions.
        observer: Object whose ``batch(batch)`` is called before each batch of the numpy tier, or
            None.
        source: Gives the source line of a loaded address, or None if it is unknown.
        patience: Seconds for which waves that all wait may be waiting for another device.
    """

    program: Program
    geometry: Geometry
    arguments: Arguments
    memory: Allocations
    steps: int = DEFAULT_STEP_LIMIT
    observer: Any = None
    source: Callable[[int], SourceLine | None] | None = None
    patience: float = 0.0

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.program.kernel

    @property
    def entry(self) -> int:
        """Address of the first instruction to run."""
        return self.program.base + (256 if self.kernel.descriptor.preload_length else 0)


@dataclass(slots=True)
class LaunchRecord:
    """What one launch executed, for reports.

    Attributes:
        kernel: The kernel.
        geometry: Shape.
        program: Decoded code.
        counts: Wave executions of each block, by its address.
        accesses: Per-space statistics when they were asked for.
    """

    kernel: Kernel
    geometry: Geometry
    program: Program
    counts: dict[int, int] = field(default_factory=dict)
    accesses: Any = None

    @property
    def steps(self) -> int:
        """Wave-instructions executed."""
        return sum(n * len(self.program.block(pc).instructions) for pc, n in self.counts.items())
