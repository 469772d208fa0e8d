"""Split barriers of gfx12: signalling and waiting are two instructions.

A barrier completes when as many waves have signalled as it has members; that sets a flag in each
member, which the member's wait consumes. The workgroup's barrier (number -1) has the workgroup's
living waves as members; a named barrier (1 to 16) has the number that its initialisation gave, and
the waves that joined it get the flag. The cluster's barrier (number -3) completes when each of its
workgroups has signalled once, which one wave of a workgroup does for all; outside clusters it is
nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flydsl_emu.execution.faults import KernelFault

__all__ = ["SPLIT_BARRIERS", "SplitBarriers"]

Array = Any

SPLIT_BARRIERS = frozenset(
    (
        "s_barrier_signal",
        "s_barrier_signal_isfirst",
        "s_barrier_wait",
        "s_barrier_init",
        "s_barrier_join",
        "s_barrier_leave",
    )
)
"""Instructions that `SplitBarriers.execute` carries out."""

_NAMED = 17
_CLUSTER, _CLUSTER_COLUMN = -3, 2


class SplitBarriers:
    """State of the barriers of a batch of workgroups.

    Args:
        workgroup: Index of each wave's workgroup.
        groups: Workgroups.
        cluster: Workgroups of a cluster, which have neighbouring indices.

    Attributes:
        held: Waves that wait.
    """

    def __init__(self, workgroup: Array, groups: int, cluster: int = 1) -> None:
        waves = len(workgroup)
        self.workgroup = workgroup
        self.cluster = cluster
        self._arrived = np.zeros(-(-groups // cluster), np.int64)
        # Column 0 is the workgroup's barrier.
        self.members = np.zeros((groups, _NAMED), np.int64)
        self.signals = np.zeros((groups, _NAMED), np.int64)
        self.joined = np.zeros(waves, np.int64)
        self.complete = np.zeros((waves, 3), np.bool_)
        self.waiting = np.full(waves, -1, np.int64)

    @property
    def held(self) -> Array:
        """Truth values: which waves wait."""
        return self.waiting >= 0

    def execute(self, name: str, value: Array, current: Array, live: Array) -> Array | None:
        """Carry out one instruction for the waves in `current`.

        Args:
            name: Mnemonic, one of `SPLIT_BARRIERS`.
            value: Operand of each wave: ``(waves,)`` integers; the immediate of a wait.
            current: Waves that execute it.
            live: Waves that have not ended.

        Returns:
            For ``s_barrier_signal_isfirst`` and ``s_barrier_leave`` what SCC becomes, else None.

        Raises:
            KernelFault: A barrier that does not exist here.
        """
        if name == "s_barrier_wait":
            self._wait(int(value.flat[0]), current)
            return None
        if name == "s_barrier_leave":
            return self._leave(current, live)
        signed = value.astype(np.uint32).view(np.int32)
        if name == "s_barrier_join":
            self.joined[current] = self._number(signed, current)[current]
            return None
        if signed[current][0] == _CLUSTER and name.startswith("s_barrier_signal"):
            return self._signal_cluster(current, live)
        number = self._number(signed, current)
        if name == "s_barrier_init":
            at = np.flatnonzero(current)
            self.members[self.workgroup[at], number[at]] = value[at] >> 16 & 63
            self.signals[self.workgroup[at], number[at]] = 0
            return None
        first = self._signal(number, value, current, live)
        return first if name.endswith("isfirst") else None

    def _number(self, signed: Array, current: Array) -> Array:
        """Return columns: 0 for the workgroup's barrier, else the number of a named one."""
        number = np.where(signed == -1, 0, signed & 31)
        wrong = current & ((signed < -1) | (number >= _NAMED))
        if wrong.any():
            fault = KernelFault(
                f"the emulator does not model barrier {int(signed[wrong][0])}", "FLY-T705"
            )
            fault.wave = int(np.argmax(wrong))
            raise fault
        return number

    def _signal(self, number: Array, value: Array, current: Array, live: Array) -> Array:
        first = np.zeros(len(current), np.bool_)
        self._count(live)
        for column in np.unique(number[current]):
            mine = np.flatnonzero(current & (number == column))
            given = value[mine] >> 16 & 63
            if column and given.any():
                self.members[self.workgroup[mine], column] = given
            before = self.signals[:, column].copy()
            leaders = np.unique(self.workgroup[mine], return_index=True)[1]
            first[mine[leaders]] = before[self.workgroup[mine[leaders]]] == 0
            np.add.at(self.signals[:, column], self.workgroup[mine], 1)
        self._complete(live)
        return first

    def _leave(self, current: Array, live: Array) -> Array:
        """Take waves out of the barriers that they have joined; return which had joined one."""
        leaving = current & (self.joined > 0)
        np.subtract.at(self.members, (self.workgroup[leaving], self.joined[leaving]), 1)
        self.joined[leaving] = 0
        self._complete(live)
        return leaving

    def _signal_cluster(self, current: Array, live: Array) -> Array | None:
        """Count the signals of a cluster's workgroups; nothing outside clusters."""
        first = np.zeros(len(current), np.bool_)
        if self.cluster > 1:
            clusters = self.workgroup // self.cluster
            mine, leaders = np.unique(clusters[current], return_index=True)
            first[np.flatnonzero(current)[leaders]] = self._arrived[mine] == 0
            np.add.at(self._arrived, clusters[current], 1)
            self._complete_clusters(live)
        return first

    def _complete_clusters(self, live: Array) -> None:
        clusters = self.workgroup // self.cluster
        living = np.zeros(len(self.members), np.bool_)
        living[self.workgroup[live]] = True
        members = np.add.reduceat(living, np.arange(0, len(living), self.cluster))
        done = (self._arrived >= members) & (self._arrived > 0)
        if not done.any():
            return
        self.complete[:, _CLUSTER_COLUMN] |= done[clusters] & live
        self._arrived[done] = 0
        self._release(live)

    def _count(self, live: Array) -> None:
        self.members[:, 0] = np.bincount(self.workgroup, live, len(self.members))

    def _complete(self, live: Array) -> None:
        done = (self.signals >= self.members) & (self.signals > 0)
        if not done.any():
            return
        self.complete[:, 0] |= done[self.workgroup, 0] & live
        named = self.joined > 0
        self.complete[:, 1] |= named & done[self.workgroup, self.joined] & live
        self.signals[done] = 0
        self._release(live)

    def _release(self, live: Array) -> None:
        ready = self.held & self.complete[np.arange(len(live)), np.maximum(self.waiting, 0)]
        self.complete[ready, self.waiting[ready]] = False
        self.waiting[ready] = -1

    def _wait(self, immediate: int, current: Array) -> None:
        """Hold the waves whose barrier is not complete: -1 the workgroup's, -3 the cluster's."""
        signed = ((immediate & 0xFFFF) ^ 0x8000) - 0x8000
        if signed < -1 and signed != _CLUSTER:
            raise KernelFault(f"the emulator does not model barrier {signed}", "FLY-T705")
        if signed == _CLUSTER and self.cluster == 1:
            return
        column = {-1: 0, _CLUSTER: _CLUSTER_COLUMN}.get(signed, 1)
        ready = current & self.complete[:, column]
        self.complete[ready, column] = False
        self.waiting[current & ~ready] = column

    def ended(self, live: Array) -> None:
        """Follow the end of waves: they are no longer waited for."""
        self._count(live)
        self._complete(live)
        if self.cluster > 1:
            self._complete_clusters(live)
        self.waiting[~live] = -1
