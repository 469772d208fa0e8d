"""Accesses that leave the tensor that their base address points into.

The emulator itself refuses accesses outside every allocation of the launch. Neighbours in memory
(slices of one tensor, say) hide more: an access through a scalar base address must stay in the
allocations that hold the base.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.execution import Allocation
from flydsl_emu.execution.faults import AccessFault
from flydsl_emu.execution.host import FIRST
from flydsl_emu.numpy_tier.engine import Batch
from flydsl_emu.sanitizer.places import Findings

__all__ = ["BoundsCheck"]

Array = Any

_ACCESSES = ("global_", "flat_", "scratch_", "buffer_", "ds_", "s_load_", "s_buffer_load_",
             "tensor_", "cluster_")  # fmt: skip
_TOP = np.uint64((1 << 64) - 1)
_HINT = "check the index arithmetic and the bounds test of this access"
_BUFFER_HINT = "check num_records of the buffer descriptor and the index arithmetic"


class BoundsCheck:
    """Watches the accesses of one batch to global memory.

    Args:
        batch: The batch.
        findings: Where findings go.
        allocations: Memory of the launch.
    """

    def __init__(self, batch: Batch, findings: Findings, allocations: Sequence[Allocation]) -> None:
        self.findings = findings
        self._state = batch.state
        self._lanes = batch.state.lanes
        self._allocations = tuple(allocations)
        self._starts = np.array([a.start for a in allocations], np.uint64)
        self._ends = np.array([a.end for a in allocations], np.uint64)
        self._base: Array = None
        self._now: Instruction = batch.program.instructions[0]

    def wrap(self, i: Instruction, step: Callable[[], Any]) -> Callable[[], Any]:
        """Return `step` with the base address of its access noted."""
        base = _base(i)
        if base is None:
            return self._guarded(i, step)
        low, high = self._state.scalar[base.index], self._state.scalar[base.index + 1]
        upper = 0x1FFFFFF if i.isa == "gfx1250" else 0xFFFF
        bits = np.uint32(upper if i.name.startswith("buffer_") else 0xFFFFFFFF)
        guarded = self._guarded(i, step)

        def run() -> Any:
            self._now = i
            wide = np.left_shift((high & bits).astype(np.uint64), np.uint64(32))
            self._base = np.bitwise_or(wide, low)[:, 0]
            try:
                return guarded()
            finally:
                self._base = None

        return run

    def _guarded(self, i: Instruction, step: Callable[[], Any]) -> Callable[[], Any]:
        """Return `step` that turns faults of accesses into findings before they end the launch."""
        if not i.name.startswith(_ACCESSES):
            return step
        buffer = i.name.startswith("buffer_")

        def run() -> Any:
            try:
                return step()
            except AccessFault as fault:
                if fault.code in ("FLY-U711", "FLY-U712", "FLY-U716", "FLY-U717"):
                    spot = (i, fault.wave, fault.lane)
                    hint = _BUFFER_HINT if buffer else _HINT
                    self.findings.report("FLY-U735", fault.message, spot, None, hint)
                raise

        return run

    # Accesses ------------------------------------------------------------------------------------
    def read(self, space: str, offsets: Array, total: int, lanes: Array | None) -> None:
        """See a load."""
        if space == "global" and self._base is not None and len(offsets):
            self._check(offsets, total, lanes, "reads")

    def write(
        self, space: str, offsets: Array, size: int, values: Sequence[Array], lanes: Array | None
    ) -> None:
        """See a store."""
        if space == "global" and self._base is not None and len(offsets):
            self._check(offsets, size * len(values), lanes, "writes")

    def update(self, space: str, offsets: Array, size: int, lanes: Array | None) -> None:
        """See an atomic access."""
        if space == "global" and self._base is not None and len(offsets):
            self._check(offsets, size, lanes, "updates")

    def _check(self, offsets: Array, total: int, lanes: Array | None, verb: str) -> None:
        addresses = (offsets + FIRST).view(np.uint64)
        # Per wave: the allocations that hold its base, and the range that they span together.
        bases = self._base[:, None]
        holds = (self._starts <= bases) & (bases < self._ends)
        known = holds.any(axis=1)
        low = np.where(holds, self._starts, _TOP).min(axis=1, initial=_TOP)
        high = np.where(holds, self._ends, np.uint64(0)).max(axis=1, initial=np.uint64(0))
        low, high = np.where(known, low, np.uint64(0)), np.where(known, high, _TOP)
        if addresses.min() >= low.max() and addresses.max() + np.uint64(total) <= high.min():
            return
        waves: Array = lanes
        if lanes is None:
            waves = np.arange(self._state.waves * self._lanes)
        waves = waves // self._lanes
        bad = (addresses < low[waves]) | (addresses + np.uint64(total) > high[waves])
        if bad.any():
            n = int(np.argmax(bad))
            self._report(n, addresses, lanes, holds[waves[n]], total, verb)

    def _report(
        self, n: int, addresses: Array, lanes: Array | None, holds: Array, total: int, verb: str
    ) -> None:
        flat = n if lanes is None else int(lanes[n])
        own = self._allocations[int(np.argmax(holds))]
        address = int(addresses[n])
        past = address - own.end
        where = f"{past} bytes past its end" if past >= 0 else f"{own.start - address} bytes before"
        if own.start <= address < own.end:
            where = "across its end"
        text = f"{verb} {total} bytes through a pointer into {own.name}, {where}"
        buffer = self._now.name.startswith("buffer_")
        spot = (self._now, flat // self._lanes, flat % self._lanes)
        hint = _BUFFER_HINT if buffer else _HINT
        self.findings.report("FLY-U735", text, spot, None, hint)


def _base(i: Instruction) -> Operand | None:
    """Return the scalar operand that holds the base address of an access to global memory."""
    if i.name.startswith("buffer_"):
        return next((o for o in i.operands if o.kind == "s" and o.count == 4), None)
    if i.name.startswith("global_"):
        return next((o for o in i.operands if o.kind == "s" and o.count == 2), None)
    return None
