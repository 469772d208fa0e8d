"""Transfers by the tensor data mover, and stores to the LDS of a cluster's workgroups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flydsl_emu.execution.faults import AccessFault, KernelFault
from flydsl_emu.execution.host import FIRST, flat_view
from flydsl_emu.numpy_tier.memory import MemoryAccess
from flydsl_emu.numpy_tier.tensor_descriptor import TensorTransfer, decoded

__all__ = ["Clusters", "TransferAccess"]

Array = Any


@dataclass(frozen=True, slots=True)
class Clusters:
    """Where the LDS of a cluster's workgroups is.

    Attributes:
        workgroup: Index in the batch of each wave's workgroup; clusters are neighbours.
        size: Workgroups of a cluster.
        stride: Bytes from one workgroup's LDS to the next one's.
    """

    workgroup: Array
    size: int
    stride: int

    def bases(self, wave: int, mask: int) -> Iterator[int]:
        """Yield the first byte of the LDS of each workgroup that `mask` names to a wave."""
        own = int(self.workgroup[wave])
        if not mask:
            yield own * self.stride
            return
        first = own // self.size * self.size
        for place in range(16):
            if mask >> place & 1:
                if place >= self.size:
                    fault = KernelFault(
                        f"a load for workgroup {place} of a cluster of {self.size}", "FLY-U740"
                    )
                    fault.wave = wave
                    raise fault
                yield (first + place) * self.stride


class TransferAccess(MemoryAccess):
    """Memory with the transfers of gfx1250; see `flydsl_emu.semantics.transfers`.

    Attributes:
        clusters: Where the LDS of other workgroups is.
    """

    clusters: Clusters

    def broadcast(self, mask: Array, address: Array, size: int, values: Sequence[Array]) -> None:
        """Implement `TransferApi.broadcast`."""
        lanes = self._lanes(None)
        if lanes is None:
            lanes = np.arange(self.state.waves * self.lane_count)
        total = size * len(values)
        self._locate("lds", address, lanes, total, True)  # checks the address in the own LDS
        where = self._chosen(address, lanes).astype(np.int64)
        data = [self._chosen(x, lanes) for x in values]
        names = np.broadcast_to(mask, (self.state.waves, 1))[:, 0]
        for wave in np.unique(lanes // self.lane_count):
            mine = lanes // self.lane_count == wave
            for base in self.clusters.bases(int(wave), int(names[wave])):
                rows = [np.right_shift(x[mine], np.uint32(8 * b)).astype(np.uint8)
                        for x in data for b in range(size)]  # fmt: skip
                at = (base + where[mine])[:, None] + np.arange(total)
                self._put(at, np.stack(rows, axis=1), int(wave))

    def tensor_transfer(self, groups: Sequence[Sequence[Array] | None], store: bool) -> None:
        """Implement `TransferApi.tensor_transfer`."""
        state = self.state
        current = state.live if state.active is None else state.active
        words = [
            [np.broadcast_to(word, (state.waves, 1))[:, 0] for word in group]
            for group in groups
            if group is not None
        ]
        for wave in np.flatnonzero(current):
            mine = [[int(word[wave]) for word in group] for group in words]
            try:
                transfer = decoded(mine, store)
                if transfer is not None:
                    self._transfer(transfer, int(wave), store)
            except KernelFault as fault:
                fault.wave = int(wave)
                raise

    def _transfer(self, transfer: TensorTransfer, wave: int, store: bool) -> None:
        local, address, exists = transfer.places()
        element = np.arange(transfer.element)
        self._check_lds(local[exists] if store else local, transfer.element, store)
        there = address[exists].astype(np.uint64)
        self._check_global(there, transfer.element, wave, store)
        remote = (there.astype(np.int64) - FIRST)[:, None] + element
        if store:
            base = next(self.clusters.bases(wave, 0))
            at = (base + local[exists])[:, None] + element
            if self.watch is not None:
                self._show_read(at, wave)
            values = self.local["lds"].data[at]
            if self.watch is not None and len(remote):
                lanes = np.full(len(remote), wave * self.lane_count)
                self.watch.write("global", remote[:, 0], 1, list(values.T.astype(np.uint32)), lanes)
            flat_view(1)[remote] = values
            return
        values = np.zeros((len(local), transfer.element), np.uint8)
        if self.watch is not None and len(remote):
            lanes = np.full(len(remote), wave * self.lane_count)
            self.watch.read("global", remote[:, 0], transfer.element, lanes)
        values[exists] = flat_view(1)[remote]
        for base in self.clusters.bases(wave, transfer.workgroups):
            self._put((base + local)[:, None] + element, values, wave)

    def _check_lds(self, local: Array, size: int, store: bool) -> None:
        lds = self.local["lds"]
        if len(local) and int(local.max()) + size > lds.size:
            at = int(local.max())
            verb = "read" if store else "write"
            text = (
                f"{verb} of {size} bytes at {lds.name} offset {at:#x} by a tensor transfer; the"
                f" kernel has {lds.size} bytes of {lds.name}"
            )
            raise AccessFault(text, lds.code, "lds", at, size, not store)

    def _check_global(self, addresses: Array, size: int, wave: int, store: bool) -> None:
        if self.observe is not None and len(addresses):
            waves = np.full(len(addresses), wave)
            self.observe("global", addresses, size, waves, store)
        bad = self.allocations.check(addresses, size, store)
        if bad is not None:
            raise self.allocations.explain(int(addresses[bad]), size, store)

    def _put(self, at: Array, values: Array, wave: int) -> None:
        """Write rows of bytes to places in the LDS of all workgroups."""
        if self.watch is not None:
            lanes = np.full(at.size, wave * self.lane_count)
            unit = 4 if _in_dwords(at) else 1
            flat, data = at.reshape(-1), np.ascontiguousarray(values).reshape(-1)
            if unit == 4:
                data = data.view(np.uint32)
            shown = flat[::unit]
            self.watch.write("lds", shown, unit, [data.astype(np.uint32)], lanes[: len(shown)])
        self.local["lds"].data[at] = values

    def _show_read(self, at: Array, wave: int) -> None:
        assert self.watch is not None
        unit = 4 if _in_dwords(at) else 1
        flat = at.reshape(-1)[::unit]
        self.watch.read("lds", flat, unit, np.full(len(flat), wave * self.lane_count))


def _in_dwords(at: Array) -> bool:
    """Return whether places, in order, are whole dwords."""
    flat = at.reshape(-1)
    if not len(flat) or len(flat) % 4 or (flat[::4] & 3).any():
        return False
    return bool((np.diff(flat.reshape(-1, 4), axis=1) == 1).all())
