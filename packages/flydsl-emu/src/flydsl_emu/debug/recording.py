"""Recording traces while a launch runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from flydsl.config import scope
from flydsl.errors import UserError, UserTypeError
from flydsl_emu.debug.effects import effects_of
from flydsl_emu.debug.launching import launcher_of
from flydsl_emu.debug.steps import RegisterValue, Trace, TraceStep
from flydsl_emu.debug.view import WaveView, wave_index
from flydsl_emu.decode import Instruction
from flydsl_emu.decode.text import format_operand
from flydsl_emu.dispatch import LoadedKernel
from flydsl_emu.execution import Allocation, Geometry, LaunchRecord
from flydsl_emu.execution.faults import KernelFault
from flydsl_emu.numpy_tier.engine import Batch
from flydsl_emu.observers import Observer, watching

__all__ = ["flat_workgroup", "trace", "tracing"]

Index = int | tuple[int, ...]


def flat_workgroup(index: Index, geometry: Geometry) -> int:
    """Return a workgroup's number in the launch; -1 when the grid does not have it."""
    x, y, z = (*((index,) if isinstance(index, int) else index), 0, 0)[:3]
    gx, gy, gz = geometry.grid
    inside = 0 <= x < gx and 0 <= y < gy and 0 <= z < gz
    return geometry.number((x, y, z)) if inside else -1


@contextmanager
def tracing(
    *, workgroup: Index = 0, wave: int = 0, kernel: str = "", limit: int = 100_000
) -> Iterator[list[Trace]]:
    """Trace one wave of every launch of the block.

    Args:
        workgroup: Workgroup id: x, or (x, y, z).
        wave: Wave of the workgroup.
        kernel: Beginning of the names of the kernels to trace; empty for all.
        limit: Longest trace, in instructions.

    Yields:
        The list to which finished (or failed) launches add their traces. A launch without that
        workgroup or wave adds none.
    """
    traces: list[Trace] = []

    def watcher(
        loaded: LoadedKernel, geometry: Geometry, allocations: tuple[Allocation, ...]
    ) -> Observer | None:
        number = flat_workgroup(workgroup, geometry)
        if not loaded.kernel.name.startswith(kernel) or number < 0 or wave >= geometry.waves:
            return None
        return _Recorder(loaded, geometry, allocations, (number, wave, limit), traces)

    with watching(watcher):
        yield traces


def trace(
    function: Callable[..., object],
    args: Sequence[object] = (),
    *,
    workgroup: Index = 0,
    wave: int = 0,
    kernel: str = "",
    launch: int = 0,
    limit: int = 100_000,
    **geometry: Any,
) -> Trace:
    """Run a launcher and return the trace of one wave.

    The launcher is compiled with line tables, so that steps name source lines.

    Args:
        function: A ``@flyc.jit`` launcher, a compiled one, any function that launches, or a
            ``@flyc.kernel`` together with its geometry.
        args: Its arguments.
        workgroup: Workgroup id: x, or (x, y, z).
        wave: Wave of the workgroup.
        kernel: Beginning of the name of the kernel to trace; empty for any.
        launch: Which of the traced launches, when there are several.
        limit: Longest trace, in instructions.
        **geometry: For a kernel: ``grid`` and ``block``, as ``launch`` takes them.

    Raises:
        UserError: No launch has that workgroup and wave.
        UserTypeError: A kernel without geometry, or something that cannot be called.
    """
    if not isinstance(args, (tuple, list)):
        raise UserTypeError(
            "trace takes the arguments as one tuple or list", code="FLY-U723", value=args
        )
    run = launcher_of(function, geometry)
    with (
        scope(FLYDSL_DEBUG_INFO=True),
        tracing(workgroup=workgroup, wave=wave, kernel=kernel, limit=limit) as traces,
    ):
        run(*args)
    if launch >= len(traces):
        raise UserError(
            "no launch to trace",
            code="FLY-U723",
            value=f"workgroup {workgroup}, wave {wave}, launch {launch}",
            allowed=f"{len(traces)} launches have this workgroup and wave",
        )
    return traces[launch]


class _Recorder:
    """Observes one launch and records one of its waves."""

    def __init__(
        self,
        loaded: LoadedKernel,
        geometry: Geometry,
        allocations: tuple[Allocation, ...],
        wanted: tuple[int, int, int],
        traces: list[Trace],
    ) -> None:
        self._loaded = loaded
        self._geometry = geometry
        self._allocations = allocations
        self._workgroup, self._wave, self._limit = wanted
        self._traces = traces
        self._own: tuple[Allocation, ...] = ()
        self._steps: list[TraceStep] = []
        self._truncated = False

    def batch(self, batch: Batch) -> None:
        row = wave_index(batch, self._workgroup, self._wave)
        if row >= 0:
            # The launch's own memory has addresses too: arguments, dispatch packet, code.
            own = (r for r in batch.machine.allocations.ranges if r.name.startswith("."))
            self._own = tuple(sorted(own, key=lambda r: r.name))
            batch.instrument(lambda i, run: self._wrapped(batch, row, i, run))

    def _wrapped(
        self, batch: Batch, row: int, i: Instruction, run: Callable[[], Any]
    ) -> Callable[[], Any]:
        state, view = batch.state, WaveView(batch, row)
        effects, text = effects_of(i), str(i)
        place = i.pc - self._loaded.program.base, text, self._loaded.code.source_line(i.pc)
        branch = i.name.startswith("s_cbranch_")

        def recorded() -> Any:
            running = state.live[row] if state.active is None else state.active[row]
            if not running:
                return run()
            mask, reads = view.exec, _values(view, effects.reads)
            try:
                result = run()
            except KernelFault:
                # The last step of a failed launch is where it failed, in this wave or another.
                self._add(place, mask, (reads, ()), None)
                raise
            taken = bool(result.reshape(-1)[row % result.size]) if branch else None
            self._add(place, mask, (reads, _values(view, effects.writes)), taken)
            return result

        return recorded

    def _add(
        self,
        place: tuple[int, str, Any],
        mask: int,
        values: tuple[tuple[RegisterValue, ...], tuple[RegisterValue, ...]],
        taken: bool | None,
    ) -> None:
        if len(self._steps) >= self._limit:
            self._truncated = True
            return
        self._steps.append(TraceStep(len(self._steps), *place, mask, *values, taken))

    def finished(self, record: LaunchRecord | None) -> None:
        n = self._workgroup
        kernel = self._loaded.kernel
        self._traces.append(
            Trace(
                kernel.name,
                kernel.arch,
                self._geometry.coordinates(n),
                self._wave,
                tuple(self._steps),
                self._truncated or record is None,
                tuple((a.name, a.start, a.end - a.start) for a in (*self._allocations, *self._own)),
            )
        )


def _values(view: WaveView, operands: tuple[Any, ...]) -> tuple[RegisterValue, ...]:
    return tuple(RegisterValue(format_operand(o), view.read(o)) for o in operands)
