"""Breakpoints: calling Python when a wave reaches an instruction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from flydsl.config import scope
from flydsl.errors import UserError
from flydsl_emu.codeobject import SourceLine
from flydsl_emu.debug.recording import Index, flat_workgroup
from flydsl_emu.debug.view import WaveView
from flydsl_emu.decode import Instruction
from flydsl_emu.dispatch import LoadedKernel
from flydsl_emu.execution import Allocation, Geometry, LaunchRecord
from flydsl_emu.numpy_tier.engine import Batch
from flydsl_emu.observers import Observer, watching

__all__ = ["Stop", "breakpoint_at"]


@dataclass(frozen=True, slots=True)
class Stop:
    """A wave that is about to execute an instruction.

    Attributes:
        kernel: Name.
        workgroup: Workgroup id (x, y, z).
        wave: Wave of the workgroup.
        pc: Byte offset of the instruction in the kernel.
        text: The instruction.
        source: Its source line, or None without debug information.
        registers: The wave's registers and memory.
    """

    kernel: str
    workgroup: tuple[int, int, int]
    wave: int
    pc: int
    text: str
    source: SourceLine | None
    registers: WaveView


@contextmanager
def breakpoint_at(
    callback: Callable[[Stop], object],
    *,
    pc: int | None = None,
    line: int | None = None,
    file: str = "",
    kernel: str = "",
    workgroup: Index | None = None,
    wave: int | None = None,
) -> Iterator[None]:
    """Call `callback` for each wave that reaches a place, in the launches of the block.

    Waves reach a source line where its code begins; the optimiser may split the code of a line, so
    one execution of the line may stop more than once. Launchers that the block compiles get line
    tables.

    Args:
        callback: Gets a `Stop`; may read and change the wave. An exception ends the launch.
        pc: Byte offset in the kernel, as traces and error messages show it.
        line: Source line.
        file: End of the path of the line's file; empty for any.
        kernel: Beginning of the kernels' names; empty for any.
        workgroup: Only this workgroup: x, or (x, y, z).
        wave: Only this wave of a workgroup.

    Raises:
        UserError: Neither or both of `pc` and `line` are given, or the kernel has no code there.
    """
    if (pc is None) == (line is None):
        raise UserError(
            "a breakpoint is at a pc or at a source line", code="FLY-U724", value=(pc, line)
        )

    inside: list[Stop] = []

    def stopped(at: Stop) -> None:
        inside.append(at)
        try:
            callback(at)
        finally:
            inside.pop()

    def watcher(
        loaded: LoadedKernel,
        geometry: Geometry,
        allocations: tuple[Allocation, ...],  # noqa: ARG001
    ) -> Observer | None:
        if inside:
            raise UserError(
                f"kernel {loaded.kernel.name!r} is launched by the function of a breakpoint",
                code="FLY-U724",
                value=inside[-1].kernel,
                hint="keep what it needs and launch after the block",
            )
        if not loaded.kernel.name.startswith(kernel):
            return None
        group = None if workgroup is None else flat_workgroup(workgroup, geometry)
        return _Breaker(loaded, geometry, _places(loaded, pc, line, file), (group, wave), stopped)

    with scope(FLYDSL_DEBUG_INFO=True), watching(watcher):
        yield


def _places(loaded: LoadedKernel, pc: int | None, line: int | None, file: str) -> frozenset[int]:
    """Return the addresses at which to stop."""
    known = {i.pc for i in loaded.program.instructions}
    if line is None:
        found = frozenset((loaded.program.base + (pc or 0),)) & known
        value = f"pc +{pc:#x}"
    else:
        base = loaded.code.base
        found = frozenset(base + a for a in loaded.code.lines.addresses(line, file)) & known
        value = f"{file or 'any file'}:{line}"
    if not found:
        missing = line is not None and not len(loaded.code.lines)
        raise UserError(
            f"kernel {loaded.kernel.name!r} has no code at this place",
            code="FLY-U724",
            value=value,
            hint="it was compiled without FLYDSL_DEBUG_INFO=1"
            if missing
            else "a line that only computes constants has no instructions of its own",
        )
    return found


class _Breaker:
    """Observes one launch and calls back."""

    def __init__(
        self,
        loaded: LoadedKernel,
        geometry: Geometry,
        places: frozenset[int],
        only: tuple[int | None, int | None],
        callback: Callable[[Stop], object],
    ) -> None:
        self._loaded = loaded
        self._geometry = geometry
        self._places = places
        self._workgroup, self._wave = only
        self._callback = callback

    def batch(self, batch: Batch) -> None:
        batch.instrument(lambda i, run: self._wrapped(batch, i, run))

    def _wrapped(self, batch: Batch, i: Instruction, run: Callable[[], Any]) -> Callable[[], Any]:
        if i.pc not in self._places:
            return run
        state = batch.state

        def stopping() -> Any:
            active = state.live if state.active is None else state.active
            for row in np.flatnonzero(active):
                self._stop(batch, int(row), i)
            return run()

        return stopping

    def _stop(self, batch: Batch, row: int, i: Instruction) -> None:
        group = batch.first + int(batch.workgroup[row])
        wave = row % self._geometry.waves
        if self._workgroup not in (None, group) or self._wave not in (None, wave):
            return
        gx, gy, _ = self._geometry.grid
        self._callback(
            Stop(
                self._loaded.kernel.name,
                (group % gx, group // gx % gy, group // (gx * gy)),
                wave,
                i.pc - self._loaded.program.base,
                str(i),
                self._loaded.code.source_line(i.pc),
                WaveView(batch, row),
            )
        )

    def finished(self, record: LaunchRecord | None) -> None:
        """Nothing to do."""
