"""The run-time checks as an observer of one launch on the numpy tier."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from flydsl_emu.decode import Instruction
from flydsl_emu.dispatch import LoadedKernel
from flydsl_emu.execution import Allocation, Geometry, LaunchRecord
from flydsl_emu.numpy_tier.engine import Batch
from flydsl_emu.numpy_tier.memory import Watch
from flydsl_emu.sanitizer.bounds import BoundsCheck
from flydsl_emu.sanitizer.meeting import MeetingCheck, uses_named_barriers
from flydsl_emu.sanitizer.places import Findings
from flydsl_emu.sanitizer.races import RaceCheck
from flydsl_emu.sanitizer.undefined import UndefinedCheck

__all__ = ["LaunchChecks"]

Step = Callable[[], Any]


class LaunchChecks:
    """Implements `flydsl_emu.observers.Observer`.

    Args:
        kernel: The kernel.
        geometry: Shape of the launch.
        allocations: Memory of the launch.
        checks: Names of the checks to make.
        finish: Called with the findings when the launch has ended; the record is None if it failed.
    """

    innermost = True

    def __init__(
        self,
        kernel: LoadedKernel,
        geometry: Geometry,
        allocations: Sequence[Allocation],
        checks: Collection[str],
        finish: Callable[[Findings, LaunchRecord | None], None],
    ) -> None:
        self._checks = frozenset(checks)
        self._allocations = allocations
        self._finish = finish
        self.findings = Findings(
            kernel.kernel.name,
            replace(geometry, lanes=kernel.kernel.wave_size),
            kernel.program.base,
            kernel.code.source_line,
        )

    def batch(self, batch: Batch) -> None:
        """Attach the checks to a batch that is about to run."""
        findings = self.findings
        findings.batch(batch.first, batch.workgroup)
        wraps: list[Callable[[Instruction, Step], Step]] = []
        watches: list[Watch] = []
        # The check for undefined values runs instructions more than once, so it comes first; it
        # may stop a load, so its watch comes last.
        if "init" in self._checks:
            undefined = UndefinedCheck(batch, findings)
            wraps.append(undefined.wrap)
            watches.append(undefined)
        named = uses_named_barriers(batch.program.instructions)
        if "race" in self._checks and not named and len(batch.machine.local["lds"].data) > 16:
            race = RaceCheck(batch, findings)
            wraps.append(race.wrap)
            watches.insert(0, race)
        if "oob" in self._checks:
            bounds = BoundsCheck(batch, findings, self._allocations)
            wraps.append(bounds.wrap)
            watches.insert(0, bounds)
        if "barrier" in self._checks and not named:
            meeting = MeetingCheck(batch, findings)
            meeting.begin()
            wraps.append(meeting.wrap)

        def wrap(i: Instruction, step: Step) -> Step:
            for one in wraps:
                step = one(i, step)
            return step

        batch.instrument(wrap)
        batch.machine.watch = _Watches(watches) if watches else None

    def finished(self, record: LaunchRecord | None) -> None:
        """Hand the findings on."""
        self._finish(self.findings, record)


class _Watches:
    """Several watches as one."""

    def __init__(self, members: Sequence[Watch]) -> None:
        self._members = tuple(members)

    def read(self, space: str, offsets: Any, total: int, lanes: Any) -> None:
        for member in self._members:
            member.read(space, offsets, total, lanes)

    def write(self, space: str, offsets: Any, size: int, values: Any, lanes: Any) -> None:
        for member in self._members:
            member.write(space, offsets, size, values, lanes)

    def update(self, space: str, offsets: Any, size: int, lanes: Any) -> None:
        for member in self._members:
            member.update(space, offsets, size, lanes)
