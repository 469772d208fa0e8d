"""Code objects placed in memory, and launching their kernels."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flydsl.errors import TargetError
from flydsl_emu.codeobject import Kernel, LineTable, LoadableCode, SourceLine
from flydsl_emu.dispatch.choice import Tiers
from flydsl_emu.execution.arguments import Arguments
from flydsl_emu.execution.geometry import Geometry
from flydsl_emu.execution.host import Allocation, Allocations
from flydsl_emu.execution.launch import DEFAULT_STEP_LIMIT, Launch, LaunchRecord
from flydsl_emu.execution.program import Program
from flydsl_emu.settings import DEVICES

__all__ = ["LoadedCode", "LoadedKernel"]

_RELOCATION_ABS64 = 3
_RELOCATION_RELATIVE64 = 13
_PATIENCE = 60.0
"""Seconds that a launch waits for launches on other emulated devices, where there are any."""


class LoadedCode:
    """A code object placed in host memory with its relocations applied."""

    def __init__(self, code: LoadableCode) -> None:
        self.code = code
        size = code.memory_size
        self._memory = ctypes.create_string_buffer(size + 2 * 4096)
        start = ctypes.addressof(self._memory)
        self.base = (start + 4095) & ~4095
        for segment in code.segments:
            ctypes.memmove(self.base + segment.address, segment.data, len(segment.data))
        for r in code.relocations:
            value = self.base + r.addend
            if r.type == _RELOCATION_ABS64:
                value += code.symbol_values[r.symbol]
            elif r.type != _RELOCATION_RELATIVE64:
                raise TargetError(
                    "the code object has a relocation that the emulator does not apply",
                    code="FLY-T701",
                    value=r.type,
                )
            ctypes.memmove(self.base + r.offset, struct.pack("<Q", value & (1 << 64) - 1), 8)
        self.range = Allocation(self.base, self.base + size, True, ".code object")
        self.kernels = {name: LoadedKernel(self, k) for name, k in code.kernels.items()}
        self._lines: LineTable | None = None

    @property
    def lines(self) -> LineTable:
        """Source lines by address in the code object."""
        if self._lines is None:
            self._lines = self.code.line_table()
        return self._lines

    def source_line(self, pc: int) -> SourceLine | None:
        """Return the source line of the instruction loaded at `pc`, or None if it is unknown."""
        return self.lines.find(pc - self.base)


class LoadedKernel:
    """One kernel of a loaded code object."""

    def __init__(self, code: LoadedCode, kernel: Kernel) -> None:
        self.code = code
        self.kernel = kernel
        self._program: Program | None = None
        self._chosen: Tiers | None = None

    @property
    def program(self) -> Program:
        """The decoded kernel."""
        if self._program is None:
            self._program = Program(self.kernel, self.code.base + self.kernel.address)
        return self._program

    @property
    def _tiers(self) -> Tiers:
        if self._chosen is None:
            self._chosen = Tiers(self.program)
        return self._chosen

    @property
    def held(self) -> int:
        """Bytes of registers and local memories that are kept for later launches."""
        return self._chosen.held if self._chosen is not None else 0

    def release(self) -> None:
        """Keep no memory for later launches, which are then as slow to begin as the first."""
        if self._chosen is not None:
            self._chosen.release()

    def launch(
        self,
        geometry: Geometry,
        kernarg: bytes,
        allocations: Iterable[Allocation],
        steps: int = DEFAULT_STEP_LIMIT,
        observer: Any = None,
    ) -> LaunchRecord:
        """Run the kernel on a whole grid.

        Args:
            geometry: Shape of the launch.
            kernarg: Explicit arguments at their offsets; hidden ones are filled in.
            allocations: Host memory that the kernel may access.
            steps: Limit of wave-instructions.
            observer: Object whose ``batch(batch)`` is called before each batch, or None.

        Raises:
            UserError: The kernel accessed memory it may not, or never ends.
            TargetError: Something the emulator does not implement.
        """
        geometry = replace(geometry, lanes=self.kernel.wave_size)
        if geometry.workgroups == 0:
            return LaunchRecord(self.kernel, geometry, self.program)
        arguments = Arguments(self.kernel, self.code.base, geometry, kernarg)
        memory = Allocations((*allocations, *arguments.ranges, self.code.range))
        launch = Launch(
            self.program, geometry, arguments, memory, steps, observer, self.code.source_line,
            _PATIENCE if DEVICES.get() > 1 else 0.0,
        )  # fmt: skip
        return self._tiers.run(launch)
