"""One wave of a running batch: its registers and memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from flydsl.errors import UserError
from flydsl_emu.decode import Operand
from flydsl_emu.decode.instruction import EXEC, M0, SCC, VCC
from flydsl_emu.execution.host import flat_view
from flydsl_emu.numpy_tier.engine import Batch

__all__ = ["WaveView", "wave_index"]

Array = Any
_FIRST_ADDRESS = 4096


def wave_index(batch: Batch, workgroup: int, wave: int) -> int:
    """Return the row of a wave in a batch, or -1 when the batch does not hold it.

    Args:
        batch: The batch.
        workgroup: Workgroup, counted through the launch.
        wave: Wave of the workgroup.
    """
    rows = np.flatnonzero(batch.workgroup == workgroup - batch.first)
    return int(rows[wave]) if wave < len(rows) else -1


class WaveView:
    """Registers and memory of one wave, to read and to change.

    Vector registers are arrays of one dword a lane; scalar registers are integers.
    """

    def __init__(self, batch: Batch, row: int) -> None:
        self._batch = batch
        self._row = row

    @property
    def exec(self) -> int:
        """EXEC as an integer, lane 0 in bit 0."""
        bits = np.packbits(self._batch.state.exec[self._row], bitorder="little")
        return int.from_bytes(bits.tobytes(), "little")

    @property
    def active_lanes(self) -> Array:
        """Truth value per lane: whether EXEC holds it."""
        return self._batch.state.exec[self._row].copy()

    @property
    def scc(self) -> int:
        """The scalar condition code."""
        return int(self._batch.state.scc[self._row, 0])

    @property
    def vcc(self) -> int:
        """VCC as an integer, lane 0 in bit 0."""
        return self.sgpr(VCC) | self.sgpr(VCC + 1) << 32

    @property
    def m0(self) -> int:
        """M0."""
        return self.sgpr(M0)

    def vgpr(self, number: int, dtype: Any = np.uint32) -> Array:
        """Return a copy of a vector register, one value of a 32-bit `dtype` per lane."""
        return self._vector(self._batch.state.vector, "VGPR", number).copy().view(dtype)

    def agpr(self, number: int, dtype: Any = np.uint32) -> Array:
        """Return a copy of an accumulation register, one value of a 32-bit `dtype` per lane."""
        return self._vector(self._batch.state.accumulation, "AGPR", number).copy().view(dtype)

    def sgpr(self, number: int) -> int:
        """Return a scalar register."""
        scalar = self._batch.state.scalar
        return int(scalar[self._checked("SGPR", number, len(scalar)), self._row, 0])

    def set_vgpr(self, number: int, values: Any) -> None:
        """Write a vector register: one 32-bit value for all lanes, or one per lane."""
        target = self._vector(self._batch.state.vector, "VGPR", number)
        target[...] = _dwords(values)

    def set_sgpr(self, number: int, value: int) -> None:
        """Write a scalar register; 106 and 107 are VCC, 126 and 127 EXEC, 124 M0."""
        state = self._batch.state
        state.scalar[self._checked("SGPR", number, len(state.scalar)), self._row] = value
        if number in (EXEC, EXEC + 1):
            state.exec_written()

    def lds(self, offset: int, size: int, dtype: Any = np.uint8) -> Array:
        """Return a copy of `size` bytes of the workgroup's LDS as an array of `dtype`.

        Raises:
            UserError: The range is not in the group segment.
        """
        memory = self._batch.machine.local["lds"]
        if offset < 0 or offset + size > memory.size:
            raise UserError(
                "not in the workgroup's LDS",
                code="FLY-U722",
                value=f"{size} bytes at {offset}",
                allowed=f"0 to {memory.size}",
            )
        rows = np.broadcast_to(memory.base, (self._batch.state.waves, 1))
        start = int(rows[self._row, 0]) + offset
        return memory.data[start : start + size].copy().view(dtype)

    def memory(self, address: int, size: int, dtype: Any = np.uint8) -> Array:
        """Return a copy of `size` bytes of global memory as an array of `dtype`.

        Raises:
            UserError: The launch may not read the range.
        """
        allocations = self._batch.machine.allocations
        if allocations.check(np.array([address], np.uint64), size, False) is not None:
            raise UserError(
                "the launch may not read this memory",
                code="FLY-U722",
                value=f"{size} bytes at {address:#x}",
                allowed=", ".join(
                    f"{r.name}: {r.start:#x} to {r.end:#x}"
                    for r in allocations.ranges
                    if not r.name.startswith(".")
                ),
            )
        start = address - _FIRST_ADDRESS
        return flat_view(1)[start : start + size].copy().view(dtype)

    def read(self, operand: Operand) -> Array:
        """Return an operand's registers: ``[register, lane]``, or ``[register, 1]`` of scalars."""
        state, row = self._batch.state, self._row
        if operand.kind == "s" and operand.index == SCC:
            return state.scc[row].astype(np.uint32).reshape(1, 1)
        files = {"v": state.vector, "a": state.accumulation, "s": state.scalar}
        file = files[operand.kind]
        return file[operand.index : operand.index + operand.count, row].copy()

    def _vector(self, file: Array, kind: str, number: int) -> Array:
        return file[self._checked(kind, number, len(file)), self._row]

    @staticmethod
    def _checked(kind: str, number: int, count: int) -> int:
        if not 0 <= number < count:
            raise UserError(
                f"the kernel has no such {kind}",
                code="FLY-U722",
                value=number,
                allowed=f"0 to {count - 1}",
            )
        return number


def _dwords(values: Any) -> Array:
    if isinstance(values, int):
        return np.uint32(values & 0xFFFFFFFF)
    array = np.asarray(values)
    if array.dtype.itemsize != 4:
        raise UserError(
            "a vector register takes 32-bit values", code="FLY-U722", value=array.dtype.name
        )
    return array.view(np.uint32)
