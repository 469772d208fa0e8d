"""Barriers that not all threads of a workgroup meet at, and scalars read from idle waves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from flydsl_emu.decode import Instruction
from flydsl_emu.numpy_tier.engine import Batch
from flydsl_emu.sanitizer.places import Findings
from flydsl_emu.semantics.layout import immediate

__all__ = ["MeetingCheck", "of_cluster", "uses_named_barriers"]

Array = Any

_BARRIERS = ("s_barrier", "s_barrier_signal", "s_barrier_signal_isfirst")
_CLUSTER = -3
_ENDS = ("s_endpgm", "s_endpgm_saved")
_MEMORY = ("global_", "flat_", "buffer_", "ds_", "scratch_")
_HINT = "move the barrier out of the condition, so that every thread of the workgroup reaches it"


def uses_named_barriers(instructions: Iterable[Instruction]) -> bool:
    """Whether a kernel has barriers that only some waves of the workgroup take part in.

    What orders what is then a matter of which waves joined which barrier, which the checks of races
    and barriers do not follow.
    """
    for i in instructions:
        if i.name in ("s_barrier_init", "s_barrier_join"):
            return True
        if i.name not in _BARRIERS[1:]:
            continue
        if any(o.kind == "s" or o.value not in (-1, _CLUSTER) for o in i.operands):
            return True
    return False


def of_cluster(i: Instruction) -> bool:
    """Whether an instruction signals or waits for the cluster's barrier, which one wave signals."""
    if i.name not in (*_BARRIERS[1:], "s_barrier_wait"):
        return False
    number = immediate(i, next(iter(i.operands), None))
    return number & 0xFFFF == _CLUSTER & 0xFFFF


class MeetingCheck:
    """Watches the barriers of one batch.

    A lane that was switched off at a barrier and accesses memory later took another path around the
    barrier. Waves of a workgroup that wait at different barriers, or end after different numbers
    of them, took different paths as well.

    Args:
        batch: The batch.
        findings: Where findings go.
    """

    def __init__(self, batch: Batch, findings: Findings) -> None:
        self.findings = findings
        self._state = batch.state
        self._group = batch.workgroup
        self._lanes = batch.state.lanes
        waves = batch.state.waves
        self._counts = np.zeros(waves, np.int64)
        self._last = np.zeros(waves, np.int64)
        self._instructions = {i.pc: i for i in batch.program.instructions}
        self._absent = np.zeros((waves, self._lanes), np.bool_)
        self._any_absent = False
        self._members: Array = None
        self._has_barriers = any(i.name in _BARRIERS for i in batch.program.instructions)

    def wrap(self, i: Instruction, step: Callable[[], Any]) -> Callable[[], Any]:
        """Return `step` with the checks that its instruction needs."""
        if i.name.startswith("v_readfirstlane"):
            return self._before(i, step, self._idle)
        if not self._has_barriers:
            return step
        if of_cluster(i):
            return step
        if i.name in _BARRIERS:
            return self._before(i, step, self._arrive)
        if i.name in _ENDS:
            return self._before(i, step, self._end)
        if i.name.startswith(_MEMORY):
            return self._before(i, step, self._access)
        return step

    def begin(self) -> None:
        """Note the threads that exist, as the batch starts."""
        self._members = self._state.exec.copy()

    @staticmethod
    def _before(
        i: Instruction, step: Callable[[], Any], check: Callable[[Instruction], None]
    ) -> Callable[[], Any]:
        def run() -> Any:
            check(i)
            return step()

        return run

    def _current(self) -> Array:
        state = self._state
        return state.live if state.active is None else state.active

    def _idle(self, i: Instruction) -> None:
        empty = self._current() & ~self._state.exec.any(axis=1)
        if empty.any():
            self.findings.report(
                "FLY-U737",
                "reads a scalar from the first executing lane of a wave in which none executes",
                (i, int(np.argmax(empty)), -1),
                None,
                "branch around this code when no lane needs it",
            )

    def _arrive(self, i: Instruction) -> None:
        current = self._current()
        missing = self._members & ~self._state.exec & current[:, None]
        if missing.any():
            self._absent |= missing
            self._any_absent = True
        self._counts += current
        self._last[current] = i.pc
        for wave in np.flatnonzero(current)[:1]:
            mine = self._group == self._group[wave]
            peers = mine & (self._counts == self._counts[wave]) & (self._last != i.pc)
            if peers.any():
                peer = int(np.argmax(peers))
                self.findings.report(
                    "FLY-U736",
                    "waves of one workgroup meet at different barriers",
                    (i, int(wave), -1),
                    (self._instructions[int(self._last[peer])], peer, -1),
                    _HINT,
                )

    def _access(self, i: Instruction) -> None:
        if not self._any_absent:
            return
        late = self._absent & self._state.mask
        if not late.any():
            return
        wave, lane = (int(x[0]) for x in np.nonzero(late))
        barrier = self._instructions[int(self._last[wave])]
        self.findings.report(
            "FLY-U736",
            f"lane {lane} of the wave was switched off at a barrier that other lanes reached",
            (barrier, wave, lane),
            (i, wave, lane),
            _HINT,
        )
        self._absent[late] = False

    def _end(self, i: Instruction) -> None:
        current = self._current()
        ended = ~self._state.live | current
        for group in np.unique(self._group[current]):
            mine = self._group == group
            if not ended[mine].all():
                continue
            counts = self._counts[mine]
            if counts.min() == counts.max():
                continue
            waves = np.flatnonzero(mine)
            short, long = waves[int(np.argmin(counts))], waves[int(np.argmax(counts))]
            last = self._instructions.get(int(self._last[long]), i)
            self.findings.report(
                "FLY-U736",
                f"a wave ends after {int(counts.min())} barriers, another one of its workgroup "
                f"after {int(counts.max())}",
                (i, int(short), -1),
                (last, int(long), -1),
                _HINT,
            )
