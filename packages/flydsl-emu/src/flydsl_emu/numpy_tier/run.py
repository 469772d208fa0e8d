"""Running a launch batch by batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from flydsl_emu.execution.explain import explained
from flydsl_emu.execution.faults import KernelFault
from flydsl_emu.execution.geometry import Geometry
from flydsl_emu.execution.host import PRIVATE_APERTURE, SHARED_APERTURE, Allocations
from flydsl_emu.execution.launch import Launch, LaunchRecord
from flydsl_emu.execution.program import Program
from flydsl_emu.execution.setup import (
    cluster_registers,
    user_sgprs,
    work_items,
    workgroup_registers,
)
from flydsl_emu.numpy_tier.engine import Batch, Limits
from flydsl_emu.numpy_tier.matrices import Products
from flydsl_emu.numpy_tier.memory import LocalMemory
from flydsl_emu.numpy_tier.state import State
from flydsl_emu.numpy_tier.tensors import Clusters, TransferAccess

__all__ = ["NumpyTier"]

Array = Any

BATCH_LANES = 256 * 64


class NumpyTier:
    """Runs launches of one kernel; keeps bound batches for later launches.

    Args:
        program: The kernel.
        products: What multiplies large batches of matrices, or None for numpy alone.
    """

    def __init__(self, program: Program, products: Products | None = None) -> None:
        self.program = program
        self.products = products
        self._batches: dict[tuple[Geometry, int], Batch] = {}

    def run(self, launch: Launch) -> LaunchRecord:
        """Run a launch on its whole grid.

        Raises:
            UserError: The kernel accessed memory it may not, or never ends.
            TargetError: Something the emulator does not implement.
        """
        geometry = launch.geometry
        record = LaunchRecord(launch.kernel, geometry, self.program)
        per_batch = max(1, BATCH_LANES // (geometry.waves * geometry.lanes))
        per_batch = max(1, per_batch // geometry.cluster_size) * geometry.cluster_size
        limits = Limits(launch.steps)
        with np.errstate(all="ignore"):
            for first in range(0, geometry.workgroups, per_batch):
                count = min(per_batch, geometry.workgroups - first)
                batch = self._batch(geometry, count)
                batch.machine.allocations = launch.memory
                fill(batch, launch, first)
                batch.forget_counts()
                batch.first = first
                batch.plain()
                if launch.observer is not None:
                    launch.observer.batch(batch)
                try:
                    batch.run(launch.entry, limits)
                except KernelFault as fault:
                    group = int(batch.workgroup[fault.wave]) + first if fault.wave >= 0 else -1
                    raise explained(fault, launch, group, fault.wave % geometry.waves) from None
                for pc, waves in batch.executed():
                    record.counts[pc] = record.counts.get(pc, 0) + waves
                # What observers bound to the instructions may be as large as the batch.
                batch.plain()
        return record

    @property
    def held(self) -> int:
        """Bytes of registers and local memories that are kept for later launches."""
        return sum(batch.size for batch in tuple(self._batches.values()))

    def release(self) -> None:
        """Keep nothing for later launches."""
        self._batches.clear()

    def _batch(self, geometry: Geometry, groups: int) -> Batch:
        key = (geometry, groups)
        found = self._batches.get(key)
        if found is None:
            if len(self._batches) >= 4:
                self._batches.clear()
            found = self._batches[key] = self._new_batch(geometry, groups)
        return found

    def _new_batch(self, geometry: Geometry, groups: int) -> Batch:
        kernel = self.program.kernel
        waves = groups * geometry.waves
        # The unified file of CDNA3 holds AGPRs above the vector registers; count them apart.
        agprs = 256 if kernel.agprs else 0
        lane_count = geometry.lanes
        vgprs = min(kernel.vgprs + 8, 1024) if not agprs else 264
        state = State(waves, vgprs, agprs, lane_count)
        group = np.repeat(np.arange(groups), geometry.waves)
        lds_size = kernel.descriptor.group_segment + geometry.dynamic_lds
        stride = (lds_size + 15) & ~15
        lds = LocalMemory(
            np.zeros(max(16, groups * stride), np.uint8),
            (group * stride).astype(np.int64)[:, None],
            lds_size,
            "FLY-U712",
            "LDS",
        )
        private = (kernel.descriptor.private_segment + 15) & ~15
        lanes = np.arange(waves * lane_count, dtype=np.int64).reshape(waves, lane_count)
        scratch = LocalMemory(
            np.zeros(max(16, waves * lane_count * private), np.uint8),
            lanes * private,
            private,
            "FLY-U717",
            "scratch",
        )
        machine = TransferAccess(state, Allocations(()), lds, scratch)
        machine.products = self.products
        machine.clusters = Clusters(group, geometry.cluster_size, stride)
        return Batch(self.program, machine, group, geometry.cluster_size)


def fill(batch: Batch, launch: Launch, first: int) -> None:
    """Set registers and LDS of a batch for workgroups `first` and up."""
    state, geometry = batch.state, launch.geometry
    state.vector.fill(0)
    state.accumulation.fill(0)
    state.scalar.fill(0)
    state.scc.fill(False)
    batch.machine.local["lds"].data.fill(0)
    state.scalar[236] = SHARED_APERTURE
    state.scalar[238] = PRIVATE_APERTURE
    ids = np.arange(first, first + batch.groups)
    # In clusters the trap temporaries name the cluster; the kernel adds the place in it.
    workgroup = geometry.clusters(ids)
    words, at = user_sgprs(launch.kernel, launch.arguments)
    for k, word in enumerate(words):
        state.scalar[k] = word
    for code, axis, shift in workgroup_registers(launch.kernel, at):
        number = workgroup[axis][batch.workgroup].astype(np.uint32)
        state.scalar[code, :, 0] |= number << np.uint32(shift)
    wave = np.tile(np.arange(geometry.waves), batch.groups)
    places = cluster_registers(launch.kernel, geometry, ids[batch.workgroup], wave)
    for code, value in places.items():
        state.scalar[code, :, 0] = value
    item, inside = work_items(geometry)
    state.vector[0] = np.tile(item, (batch.groups, 1))
    state.active = None
    state.live[...] = True
    state.set_exec(np.tile(inside, (batch.groups, 1)))
