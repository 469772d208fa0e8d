"""Watching memory accesses and barriers while a kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from flydsl_emu.decode import Instruction
from flydsl_emu.numpy_tier.engine import Batch
from flydsl_emu.report.constants import ModelConstant

__all__ = ["AccessCounter", "Barriers", "Traffic"]

Array = Any

_SMALL_LINE = 64
_BARRIERS = ("s_barrier", "s_barrier_wait")


@dataclass(slots=True)
class Traffic:
    """Totals of one instruction in one space and direction.

    Attributes:
        waves: Wave executions that accessed anything.
        accesses: Lanes that accessed, summed over executions.
        requested: Bytes asked for.
        lines64: 64-byte lines of each wave's access, summed.
        lines128: 128-byte lines, likewise.
        clocks: For LDS: clocks of the banks, conflicts included.
        ideal_clocks: For LDS: clocks without conflicts.
    """

    waves: int = 0
    accesses: int = 0
    requested: int = 0
    lines64: int = 0
    lines128: int = 0
    clocks: int = 0
    ideal_clocks: int = 0

    def add(self, other: Traffic) -> None:
        """Add another total."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def _distinct(values: Array) -> Array:
    """Return the different values, sorted; faster on nearly sorted ones than `numpy.unique`."""
    ordered = np.sort(values)
    keep = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=keep[1:])
    return ordered[keep]


class Barriers:
    """How unevenly the waves of workgroups arrive at barriers, in executed instructions.

    Attributes:
        waited: Instructions that waves were short of the last one of their workgroup, summed.
        possible: Instructions of the last one times the waves, summed.
        arrivals: Wave executions of barriers.
    """

    def __init__(self) -> None:
        self.waited = 0
        self.possible = 0
        self.arrivals = 0
        self._done = np.zeros(0, np.int64)
        self._since = np.zeros(0, np.int64)
        self._turn = np.zeros(0, np.int64)
        self._pending: dict[tuple[int, int], tuple[int, int, int]] = {}

    def start(self, waves: int) -> None:
        """Begin with a batch of so many waves."""
        self._settle()
        self._done, self._since, self._turn = (np.zeros(waves, np.int64) for _ in range(3))

    def step(self, active: Array) -> None:
        """Count one instruction of the active waves."""
        self._done += active

    def arrive(self, active: Array, workgroup: Array) -> None:
        """Note that the active waves are at a barrier."""
        for row in np.flatnonzero(active):
            worked = int(self._done[row] - self._since[row])
            key = int(workgroup[row]), int(self._turn[row])
            count, total, most = self._pending.get(key, (0, 0, 0))
            self._pending[key] = count + 1, total + worked, max(most, worked)
            self._since[row] = self._done[row]
            self._turn[row] += 1
            self.arrivals += 1

    def _settle(self) -> None:
        for count, total, most in self._pending.values():
            self.possible += count * most
            self.waited += count * most - total
        self._pending.clear()

    @property
    def imbalance(self) -> float:
        """Share of the time between barriers that waves wait for the last one: 0 is even."""
        self._settle()
        return self.waited / self.possible if self.possible else 0.0


class AccessCounter:
    """Sums accesses by instruction, space and direction.

    Args:
        constants: Of the architecture.

    Attributes:
        traffic: By ``(pc, space, direction)``; the pc is an address.
        barriers: Arrivals at barriers.
    """

    def __init__(self, constants: Mapping[str, ModelConstant]) -> None:
        self._banks = int(constants["lds_banks"].value)
        self._rates = {
            False: int(constants["lds_read_bytes"].value),
            True: int(constants["lds_write_bytes"].value),
        }
        self.traffic: dict[tuple[int, str, str], Traffic] = {}
        self.barriers = Barriers()
        self._pc = 0
        self._batch: Batch | None = None
        self._lines: list[Array] = []

    def batch(self, batch: Batch) -> None:
        """Attach to a batch that is about to run."""
        self._batch = batch
        self.barriers.start(batch.state.waves)
        batch.instrument(lambda i, run: self._wrapped(batch, i, run))
        batch.observe(self.access)

    def _wrapped(self, batch: Batch, i: Instruction, run: Callable[[], Any]) -> Callable[[], Any]:
        state, barriers, pc = batch.state, self.barriers, i.pc
        at_barrier = i.name in _BARRIERS

        def counted() -> Any:
            self._pc = pc
            active = state.live if state.active is None else state.active
            barriers.step(active)
            if at_barrier:
                barriers.arrive(active, batch.workgroup)
            return run()

        return counted

    def access(self, space: str, addresses: Array, size: int, waves: Array, write: bool) -> None:
        """Record one instruction's accesses.

        Args:
            space: ``"global"``, ``"lds"``, ``"scratch"`` or ``"scalar"``.
            addresses: Of the lanes that access, wave after wave.
            size: Bytes per lane.
            waves: Wave of each address.
            write: Store or load.
        """
        key = (self._pc, space, "write" if write else "read")
        found = self.traffic.setdefault(key, Traffic())
        found.waves += int(np.count_nonzero(np.diff(waves, prepend=-1)))
        found.accesses += len(addresses)
        found.requested += len(addresses) * size
        if space == "lds":
            self._bank_clocks(found, addresses, size, waves, write)
        elif space == "global":
            self._count_lines(found, addresses, size, waves)

    def totals(self) -> dict[tuple[str, str], Traffic]:
        """Return the sums by space and direction."""
        out: dict[tuple[str, str], Traffic] = {}
        for (_, space, direction), traffic in self.traffic.items():
            out.setdefault((space, direction), Traffic()).add(traffic)
        return out

    # Cache lines ---------------------------------------------------------------------------------
    def _count_lines(self, found: Traffic, addresses: Array, size: int, waves: Array) -> None:
        first = addresses.astype(np.int64) // _SMALL_LINE
        last = (addresses.astype(np.int64) + size - 1) // _SMALL_LINE
        keys = [first * 4096 + waves % 4096]
        if (first != last).any():
            keys.append(last * 4096 + waves % 4096)
        unique = _distinct(np.concatenate(keys))
        lines, wave = unique // 4096, unique % 4096
        found.lines64 += len(unique)
        found.lines128 += len(_distinct(lines // 2 * 4096 + wave))
        self._lines.append(_distinct(lines))
        if len(self._lines) > 64:
            self._lines = [_distinct(np.concatenate(self._lines))]

    def distinct_lines(self, line: int) -> int:
        """Return how many lines of 64 or 128 bytes of global memory the launch touched."""
        if not self._lines:
            return 0
        return len(_distinct(np.concatenate(self._lines) // (line // _SMALL_LINE)))

    # LDS banks -----------------------------------------------------------------------------------
    def _bank_clocks(
        self, found: Traffic, offsets: Array, size: int, waves: Array, write: bool
    ) -> None:
        """Add the clocks of one LDS instruction.

        A clock serves as many neighbouring lanes as fit the LDS rate (128 bytes: 32 lanes of 4
        bytes, 16 of 8, 8 of 16). Lanes of one clock that want different dwords of one bank need
        one clock each.
        """
        group = max(1, self._rates[write] // max(4, size))
        slot = waves * 64 + self._lane_numbers(waves) // group
        dwords = offsets.astype(np.int64)[:, None] // 4 + np.arange(max(1, -(-size // 4)))
        keys = _distinct(((slot[:, None] << 20) + dwords).reshape(-1))
        slots, dword = keys >> 20, keys & 0xFFFFF
        per_bank, counts = np.unique(slots * self._banks + dword % self._banks, return_counts=True)
        starts = np.flatnonzero(np.diff(per_bank // self._banks, prepend=-1))
        found.clocks += int(np.maximum.reduceat(counts, starts).sum())
        _, wanted = np.unique(slots, return_counts=True)
        found.ideal_clocks += int((-(-wanted // self._banks)).sum())

    def _lane_numbers(self, waves: Array) -> Array:
        """Return the lane of each access; its place among the accessing lanes if it is unknown."""
        state = self._batch.state if self._batch is not None else None
        if state is not None and int(np.count_nonzero(state.mask)) == len(waves):
            return np.nonzero(state.mask)[1]
        start = np.flatnonzero(np.diff(waves, prepend=-1))
        lengths = np.diff(np.append(start, len(waves)))
        return np.arange(len(waves)) - np.repeat(start, lengths)
