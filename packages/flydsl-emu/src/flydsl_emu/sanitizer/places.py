"""Where things happen in a launch, and collecting what is found there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flydsl_emu.decode import Instruction
from flydsl_emu.execution import Geometry
from flydsl_emu.sanitizer.findings import Finding, Place

__all__ = ["Findings", "Spot"]

Array = Any
Spot = tuple[Instruction, int, int]
"""An instruction, a wave of the batch and a lane (-1 for none)."""


class Findings:
    """Findings of one launch.

    Args:
        kernel: Kernel name.
        geometry: Shape of the launch.
        base: Address at which the kernel was loaded.
        source: Gives the source line of an address, or None.
    """

    def __init__(
        self, kernel: str, geometry: Geometry, base: int, source: Callable[[int], object | None]
    ) -> None:
        self.kernel = kernel
        self.geometry = geometry
        self.found: list[Finding] = []
        self._base = base
        self._source = source
        self._first = 0
        self._group: Array = None
        self._seen: set[tuple[str, int, int]] = set()

    def batch(self, first: int, workgroup: Array) -> None:
        """Follow to the next batch of workgroups."""
        self._first = first
        self._group = workgroup

    def place(self, i: Instruction, wave: int = -1, lane: int = -1) -> Place:
        """Describe an instruction, executed by a wave of the present batch."""
        line = self._source(i.pc)
        source = None if line is None else str(line)
        pc = i.pc - self._base
        if wave < 0:
            return Place(pc, str(i), source)
        index = self._first + int(self._group[wave])
        coordinates = self.geometry.coordinates(index)
        return Place(pc, str(i), source, coordinates, wave % self.geometry.waves, lane)

    def report(
        self, code: str, message: str, spot: Spot, other: Spot | None = None, hint: str = ""
    ) -> None:
        """Add a finding, once for every pair of instructions."""
        key = (code, spot[0].pc, -1 if other is None else other[0].pc)
        if key in self._seen:
            return
        self._seen.add(key)
        second = None if other is None else self.place(*other)
        self.found.append(Finding(code, self.kernel, message, self.place(*spot), second, hint))
