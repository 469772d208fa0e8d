"""Memory of workgroups and of host threads, as generated code sees it."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from flydsl_emu.execution.host import PRIVATE_APERTURE, SHARED_APERTURE
from flydsl_emu.execution.launch import Launch
from flydsl_emu.execution.setup import user_sgprs, work_items, workgroup_registers
from flydsl_emu.jit_tier.context import SCALARS, TABLE, Context, WaveLayout

__all__ = ["Aligned", "GroupMemory", "LaunchTables", "ThreadContext"]

Array = Any

RUNNING, PARKED, ENDED, HELD = 0, 1, 2, 3
"""Status of a wave."""


class Aligned:
    """Zeroed bytes at a multiple of 64.

    Args:
        size: Bytes.
    """

    def __init__(self, size: int) -> None:
        raw = np.zeros(size + 64, np.uint8)
        start = -raw.ctypes.data % 64
        self.data = raw[start : start + size]
        self.address = int(self.data.ctypes.data) if size else int(raw.ctypes.data) + start
        self._raw = raw


class GroupMemory:
    """Registers, LDS and private memory of one workgroup.

    Args:
        layout: Registers of a wave.
        waves: Waves.
        lds: Bytes of LDS.
        scratch: Bytes of private memory of a lane.
    """

    def __init__(self, layout: WaveLayout, waves: int, lds: int, scratch: int) -> None:
        self.layout = layout
        self.waves = waves
        self.registers = Aligned(layout.size * waves)
        self.lds = Aligned(lds)
        self.scratch = Aligned(max(64, scratch * layout.lanes * waves))
        self.rows = self.registers.data.reshape(waves, layout.size)

    def _words(self, offset: int) -> Array:
        return self.rows[:, offset : offset + 4].view(np.uint32)[:, 0]

    @property
    def status(self) -> Array:
        """Status of each wave, a view."""
        return self._words(self.layout.status)

    @property
    def resume(self) -> Array:
        """Block that each wave goes on at, a view."""
        return self._words(self.layout.resume)

    def scalar(self, code: int) -> Array:
        """One scalar register of each wave, a view."""
        return self._words(self.layout.scalars + 4 * code)


class LaunchTables:
    """What all threads of a launch read: initial registers and the memory that may be accessed.

    Args:
        launch: The launch.
        layout: Registers of a wave.
    """

    def __init__(self, launch: Launch, layout: WaveLayout) -> None:
        geometry, kernel = launch.geometry, launch.kernel
        scalars = np.zeros(SCALARS, np.uint32)
        scalars[236], scalars[238] = SHARED_APERTURE, PRIVATE_APERTURE
        words, at = user_sgprs(kernel, launch.arguments)
        scalars[: len(words)] = np.array(words, np.uint32)
        item, inside = work_items(geometry)
        bits = np.packbits(inside, axis=1, bitorder="little")
        masks = np.zeros((geometry.waves, 8), np.uint8)
        masks[:, : bits.shape[1]] = bits
        waves = np.concatenate((np.ascontiguousarray(item).view(np.uint8), masks), axis=1)
        self.template = np.concatenate((scalars.view(np.uint8), waves.reshape(-1)))
        places = workgroup_registers(kernel, at)
        self.ids = np.array([(4 * code, axis, shift) for code, axis, shift in places], np.uint64)
        self.readable = np.ascontiguousarray(launch.memory.table(False))
        self.writable = np.ascontiguousarray(launch.memory.table(True))
        assert layout.lanes == geometry.lanes


class ThreadContext:
    """The context of one host thread.

    Args:
        launch: The launch.
        tables: Its tables.
        layout: Registers of a wave.
    """

    def __init__(self, launch: Launch, tables: LaunchTables, layout: WaveLayout) -> None:
        self._tables = tables
        self._launch = launch
        self._layout = layout
        self.counts: Array = np.zeros(0, np.uint64)
        self._memory = Aligned(TABLE)
        self.fields = Context.from_address(self._memory.address)

    @property
    def address(self) -> int:
        """Address of the context."""
        return self._memory.address

    def use(self, kernel: int, routines: list[int], blocks: int, entry: int) -> None:
        """Set everything that depends on the compiled kernel; keeps what was counted elsewhere."""
        old = bytes(self.fields)
        self._memory = Aligned(TABLE + 8 * len(routines))
        self.fields = Context.from_address(self._memory.address)
        ctypes.memmove(self._memory.address, old, len(old))
        table = np.array(routines, np.uint64)
        self._memory.data[TABLE:] = table.view(np.uint8)
        self.counts = np.zeros(blocks, np.uint64)
        f = self.fields
        f.kernel, f.entry = kernel, entry
        f.counts = self.counts.ctypes.data

    def prepare(self, slice_: int) -> None:
        """Set everything that depends on the launch only."""
        f, launch, tables = self.fields, self._launch, self._tables
        geometry, descriptor = launch.geometry, launch.kernel.descriptor
        f.slice = slice_
        f.lds_size = descriptor.group_segment + geometry.dynamic_lds
        f.lds_clear = max(64, (f.lds_size + 63) & ~63)
        f.scratch_size = f.scratch_stride = (descriptor.private_segment + 15) & ~15
        f.code = launch.program.base
        for name, rows in (("readable", tables.readable), ("writable", tables.writable)):
            setattr(f, name, rows.ctypes.data)
            setattr(f, f"{name}_count", len(rows))
        f.state_size, f.waves = self._layout.size, geometry.waves
        f.template, f.ids = tables.template.ctypes.data, tables.ids.ctypes.data
        f.id_count = len(tables.ids)
        f.grid_x, f.grid_y = geometry.grid[0], geometry.grid[1]
