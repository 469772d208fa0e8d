"""What generated code and Python share: the thread's context, and the memory of a workgroup."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from flydsl_emu.codeobject import Kernel

__all__ = [
    "BARRIER",
    "END",
    "JUMP",
    "MAX_WAVES",
    "NO_FUEL",
    "SCALARS",
    "SPLIT",
    "TABLE",
    "TRAP",
    "YIELD",
    "Context",
    "WaveLayout",
    "at",
]

NO_FUEL = -(1 << 62)
"""Fuel that ends a wave's turn at the next branch; far from where subtracting would wrap around."""

END, YIELD, BARRIER, JUMP, TRAP, SPLIT = -1, -2, -3, -4, -5, -6
"""What a kernel function returns; the wave's header tells where it goes on."""

MAX_WAVES = 32
SCALARS = 256
_Q = ctypes.c_uint64


class Context(ctypes.Structure):
    """State of one host thread that runs workgroups.

    Attributes:
        fuel: Wave-instructions that the running wave may still execute before it gives way.
        slice: What `fuel` is set to for each turn.
        used: Wave-instructions that ended turns have executed.
        fault: Error kind (`flydsl_emu.jit_tier.faulting`), 0 for none.
        fault_pc: Offset of the faulting instruction in the kernel.
        fault_address, fault_lane, fault_size, fault_write: The access.
        wave: The wave that runs, or ran last.
        lds, lds_size: LDS of the workgroup.
        scratch, scratch_size: Private memory of the wave; bytes of each lane.
        code: Address of the kernel's first instruction.
        readable, readable_count, writable, writable_count: Tables of ``(start, end)``.
        read_start, read_end, write_start, write_end: The ranges hit last.
        counts: Executions of each block.
        jump: Target address of an indirect jump.
        kernel: The kernel function.
        state_size, waves, lds_clear, scratch_stride: Sizes in bytes, and waves of a workgroup.
        template: Scalar registers of a new wave; then v0 and EXEC of each wave.
        ids, id_count: Where workgroup numbers go: ``(scalar offset, axis, shift)``.
        grid_x, grid_y: Extents of the grid.
        entry: Block that a wave starts at.
        group: The workgroup that ran last.
        result: What the kernel function returned last.
        site: Offset of the instruction whose routine was called last.
    """

    _fields_ = [
        (name, _Q if not name.startswith("-") else ctypes.c_int64)
        for name in (
            "fuel slice used fault fault_pc fault_address fault_lane fault_size fault_write wave "
            "lds lds_size scratch scratch_size code readable readable_count writable "
            "writable_count read_start read_end write_start write_end counts jump kernel "
            "state_size waves lds_clear scratch_stride template ids id_count grid_x grid_y entry "
            "group result site"
        ).split()
    ]


TABLE = ctypes.sizeof(Context)
"""Offset of the table of support routines, which follows the context."""


def at(name: str) -> int:
    """Return the byte offset of a field of the context."""
    return int(getattr(Context, name).offset)


@dataclass(frozen=True, slots=True)
class WaveLayout:
    """Where the registers of a wave lie, in bytes from its start.

    Attributes:
        lanes: Lanes of the wave.
        vectors: Vector registers.
        accumulators: Accumulation registers.
    """

    lanes: int
    vectors: int
    accumulators: int

    @property
    def register(self) -> int:
        """Bytes of one vector register."""
        return 4 * self.lanes

    @property
    def scalars(self) -> int:
        """Offset of the scalar registers, by encoding."""
        return (self.vectors + self.accumulators) * self.register

    @property
    def resume(self) -> int:
        """Offset of the block that the wave goes on at."""
        return self.scalars + 4 * SCALARS

    @property
    def status(self) -> int:
        """Offset of the wave's status: 0 runs, 1 waits at a barrier, 2 has ended, 3 is held."""
        return self.resume + 4

    @property
    def size(self) -> int:
        """Bytes of a wave's registers, kept apart from those of other waves by a cache line."""
        return (self.resume + 8 + 63 & ~63) + 64

    @classmethod
    def of(cls, kernel: Kernel) -> WaveLayout:
        """Return the layout for a kernel."""
        if kernel.agprs:
            return cls(kernel.wave_size, 264, 256)
        return cls(kernel.wave_size, min(kernel.vgprs + 8, 1024), 0)
