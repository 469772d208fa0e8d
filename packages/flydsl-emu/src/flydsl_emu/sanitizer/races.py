"""LDS races: accesses of two waves to one place without a barrier between them.

A shadow of LDS holds, for every dword (every byte if the kernel has narrower accesses), who wrote
and who read it last and how many barriers that wave had signalled by then. Another wave's access is
ordered behind it if that wave has completed more barriers than that. Writes that do not change what
is there race with nobody. Loads straight into LDS count as written when a wait of their wave has
made sure of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flydsl_emu.decode import Instruction
from flydsl_emu.numpy_tier.engine import Batch
from flydsl_emu.sanitizer.counters import CounterModel, counter_model
from flydsl_emu.sanitizer.meeting import of_cluster
from flydsl_emu.sanitizer.places import Findings

__all__ = ["RaceCheck"]

Array = Any

_NOBODY = -1
_MANY = -2
_IN_FLIGHT = 1 << 30
_NARROW = ("_b8", "_b16", "_u8", "_i8", "_u16", "_i16", "_byte", "_short")
_HINT = "put a barrier (with a wait for LDS before it) between the two accesses"
_TRANSFER_HINT = "wait for the load into LDS, then pass a barrier, before reading"


@dataclass(slots=True)
class _Transfer:
    """Loads into LDS that no wait has covered yet."""

    waves: Array
    numbers: Array
    units: Array


class RaceCheck:
    """Watches the LDS accesses of one batch.

    Args:
        batch: The batch.
        findings: Where findings go.
    """

    def __init__(self, batch: Batch, findings: Findings) -> None:
        self.findings = findings
        machine = batch.machine
        self._lanes = batch.state.lanes
        self._waves = batch.state.waves
        self._machine = machine
        self._state = batch.state
        self._group = batch.workgroup
        self._instructions = batch.program.instructions
        self._index = {i.pc: n for n, i in enumerate(self._instructions)}
        self.unit = 1 if any(_is_narrow(i) for i in self._instructions) else 4
        units = len(machine.local["lds"].data) // self.unit + 4
        self._writer = np.full(units, _NOBODY, np.int32)
        self._written = np.zeros(units, np.int32)
        self._write_at = np.zeros(units, np.int32)
        self._atomic = np.zeros(units, np.bool_)
        self._reader = np.full(units, _NOBODY, np.int32)
        self._read = np.zeros(units, np.int32)
        self._read_at = np.zeros(units, np.int32)
        self._signals = np.zeros(self._waves, np.int32)
        self._passed = np.zeros(self._waves, np.int32)
        self._now: Instruction = self._instructions[0]
        self._model: CounterModel = counter_model(batch.program.kernel.arch)
        self._issued = np.zeros(self._waves, np.int64)
        self._transfers: list[_Transfer] = []
        self._stream = self._transfer_stream()

    def _transfer_stream(self) -> int:
        """Return the stream of the kernel's loads into LDS, or -1."""
        for i in self._instructions:
            event = self._model.event(i)
            if event is not None and event.to_lds:
                return event.streams[0]
        return -1

    # Following the waves -------------------------------------------------------------------------
    def wrap(self, i: Instruction, step: Callable[[], Any]) -> Callable[[], Any]:
        """Return `step` with what it means for the shadow."""
        if of_cluster(i):
            return self._of_cluster(i, step)
        if i.name == "s_barrier":
            return self._counting(step, self._signals, self._passed)
        if i.name.startswith("s_barrier_signal"):
            return self._counting(step, self._signals)
        if i.name == "s_barrier_wait":
            return self._counting(step, self._passed)
        event = self._model.event(i)
        if event is not None:
            counts = self._stream in event.streams
            return self._accessing(i, step, counts)
        named = self._model.waits(i) if self._stream >= 0 else {}
        counter = self._model.streams[self._stream].counter if self._stream >= 0 else ""
        if counter in named:
            return self._waiting(step, named[counter])
        return step

    def _current(self) -> Array:
        state = self._state
        return state.live if state.active is None else state.active

    def _counting(self, step: Callable[[], Any], *counts: Array) -> Callable[[], Any]:
        def run() -> Any:
            current = self._current()
            for count in counts:
                np.add(count, current, out=count)
            return step()

        return run

    def _of_cluster(self, i: Instruction, step: Callable[[], Any]) -> Callable[[], Any]:
        """Count a cluster's barrier, at which one wave arrives for all of its workgroup."""
        if i.name == "s_barrier_wait":
            return self._counting(step, self._passed)

        def run() -> Any:
            arrived = np.unique(self._group[self._current()])
            np.add(self._signals, np.isin(self._group, arrived), out=self._signals)
            return step()

        return run

    def _accessing(
        self, i: Instruction, step: Callable[[], Any], counts: bool
    ) -> Callable[[], Any]:
        event = self._model.event(i)
        transfers = event is not None and event.to_lds

        def run() -> Any:
            self._now = i
            if counts:
                self._issued += self._current()
            self._transferring = transfers
            return step()

        return run

    _transferring = False

    def _waiting(self, step: Callable[[], Any], value: int) -> Callable[[], Any]:
        def run() -> Any:
            if self._transfers:
                self._complete(value)
            return step()

        return run

    def _complete(self, value: int) -> None:
        done_up_to = np.where(self._current(), self._issued - value, -1)
        remaining = []
        for transfer in self._transfers:
            done = transfer.numbers <= done_up_to[transfer.waves]
            units, waves = transfer.units[done], transfer.waves[done]
            mine = (self._writer[units] == waves) & (self._written[units] == _IN_FLIGHT)
            self._written[units[mine]] = self._signals[waves[mine]]
            if not done.all():
                left = ~done
                remaining.append(
                    _Transfer(transfer.waves[left], transfer.numbers[left], transfer.units[left])
                )
        self._transfers = remaining

    # Accesses ------------------------------------------------------------------------------------
    def read(self, space: str, offsets: Array, total: int, lanes: Array | None) -> None:
        """See a load."""
        if space == "lds" and len(offsets):
            waves = self._wave_of(lanes)
            for k in range(max(1, total // self.unit)):
                self._reading(offsets // self.unit + k, waves, lanes, False)

    def write(
        self, space: str, offsets: Array, size: int, values: Sequence[Array], lanes: Array | None
    ) -> None:
        """See a store."""
        if space != "lds" or not len(offsets):
            return
        waves = self._wave_of(lanes)
        data = self._machine.local["lds"].data
        for k, value in enumerate(values):
            at = offsets + k * size
            if self.unit == 4:
                new = value.astype(np.uint32)
                self._writing(at // 4, new, data.view(np.uint32), waves, lanes)
                continue
            for byte in range(size):
                new = np.right_shift(value, np.uint32(8 * byte)).astype(np.uint8)
                self._writing(at + byte, new, data, waves, lanes)

    def update(self, space: str, offsets: Array, size: int, lanes: Array | None) -> None:
        """See an atomic access."""
        if space != "lds" or not len(offsets):
            return
        waves = self._wave_of(lanes)
        for k in range(max(1, size // self.unit)):
            units = offsets // self.unit + k
            self._reading(units, waves, lanes, True)
            # Any earlier plain read by another wave might have seen the new value.
            self._against_readers(units, waves, lanes, np.ones(len(units), np.bool_))
            self._set_writer(units, waves, True)

    def _wave_of(self, lanes: Array | None) -> Array:
        if lanes is None:
            return np.repeat(np.arange(self._waves), self._lanes)
        return lanes // self._lanes

    def _reading(self, units: Array, waves: Array, lanes: Array | None, atomic: bool) -> None:
        writer, written = self._writer[units], self._written[units]
        foreign = (writer != waves) & (writer >= 0)
        early = written == _IN_FLIGHT
        bad = (foreign & (written >= self._passed[waves])) | (early & (writer >= 0))
        if atomic:
            bad &= ~self._atomic[units]
        if bad.any():
            n = int(np.argmax(bad))
            what = "reads LDS while the transfer into it is outstanding"
            text = what if early[n] else "reads LDS that another wave writes without a barrier"
            hint = _TRANSFER_HINT if early[n] else _HINT
            other = (self._instructions[int(self._write_at[units[n]])], int(writer[n]), -1)
            self.findings.report("FLY-U733", text, self._spot(n, waves, lanes), other, hint)
        if atomic:
            return
        own = self._signals[waves]
        shared = (self._reader[units] != waves) & (self._read[units] == own)
        shared &= self._reader[units] != _NOBODY
        self._reader[units] = np.where(shared, _MANY, waves)
        self._read[units] = own
        self._read_at[units] = self._index[self._now.pc]
        # Several waves that read one place in this instruction: the last one is in the shadow.
        clash = self._reader[units] != waves
        self._reader[units[clash]] = _MANY

    def _writing(
        self, units: Array, new: Array, data: Array, waves: Array, lanes: Array | None
    ) -> None:
        if self._transferring:
            self._transfer(units, waves, lanes)
            return
        changed = (data[units] != new) | (self._writer[units] == _NOBODY)
        writer, written = self._writer[units], self._written[units]
        bad = changed & (writer != waves) & (writer >= 0) & (written >= self._passed[waves])
        if bad.any():
            n = int(np.argmax(bad))
            other = (self._instructions[int(self._write_at[units[n]])], int(writer[n]), -1)
            text = "writes LDS that another wave writes without a barrier between them"
            self.findings.report("FLY-U733", text, self._spot(n, waves, lanes), other, _HINT)
        self._against_readers(units, waves, lanes, changed)
        at, by = units[changed], waves[changed]
        self._set_writer(at, by, False)
        lost = self._writer[at] != by
        if lost.any():
            self._collision(at, by, new[changed], lanes, changed, lost)

    def _collision(
        self, at: Array, by: Array, new: Array, lanes: Array | None, changed: Array, lost: Array
    ) -> None:
        """Report waves that write different values to one place in one instruction."""
        order = np.argsort(at, kind="stable")
        same = (at[order][1:] == at[order][:-1]) & (by[order][1:] != by[order][:-1])
        differ = same & (new[order][1:] != new[order][:-1])
        if not differ.any() or not lost.any():
            return
        n = int(np.argmax(differ))
        first, second = order[n], order[n + 1]
        numbers = np.flatnonzero(changed)
        flat = numbers if lanes is None else lanes[numbers]
        spots = [
            (self._now, int(flat[k]) // self._lanes, int(flat[k]) % self._lanes)
            for k in (first, second)
        ]
        text = "waves write different values to one place in LDS without a barrier between them"
        self.findings.report("FLY-U733", text, spots[0], spots[1], _HINT)

    def _against_readers(
        self, units: Array, waves: Array, lanes: Array | None, changed: Array
    ) -> None:
        reader = self._reader[units]
        bad = changed & (reader != waves) & (reader != _NOBODY)
        bad &= self._read[units] >= self._passed[waves]
        if bad.any():
            n = int(np.argmax(bad))
            wave = int(reader[n])
            if wave == _MANY:
                # Some other wave of the workgroup; name the first one that is not the writer.
                first = int(waves[n]) // self.findings.geometry.waves * self.findings.geometry.waves
                wave = first if first != int(waves[n]) else first + 1
            other = (self._instructions[int(self._read_at[units[n]])], wave, -1)
            text = "writes LDS that another wave reads without a barrier between them"
            self.findings.report("FLY-U733", text, self._spot(n, waves, lanes), other, _HINT)

    def _set_writer(self, units: Array, waves: Array, atomic: bool) -> None:
        self._writer[units] = waves
        self._written[units] = self._signals[waves]
        self._write_at[units] = self._index[self._now.pc]
        self._atomic[units] = atomic

    def _transfer(self, units: Array, waves: Array, lanes: Array | None) -> None:
        """Note a load straight into LDS."""
        self._against_readers(units, waves, lanes, np.ones(len(units), np.bool_))
        self._set_writer(units, waves, False)
        self._written[units] = _IN_FLIGHT
        self._transfers.append(_Transfer(waves, self._issued[waves], units))

    def _spot(self, n: int, waves: Array, lanes: Array | None) -> tuple[Instruction, int, int]:
        lane = (n if lanes is None else int(lanes[n])) % self._lanes
        return self._now, int(waves[n]), lane


def _is_narrow(i: Instruction) -> bool:
    if not i.name.startswith(("ds_", "flat_")):
        return False
    return any(part in i.name for part in _NARROW)
