"""Which tier runs a launch.

The numpy tier starts at once, the JIT tier is 5 to 50 times faster once it has machine code. So
``auto`` compiles a kernel when code for it is at hand or when interpreting, as far as can be told
before running, takes longer than compiling; what launches of the kernel have taken already counts.
Launches that somebody watches go to the numpy tier, which observers look into, and so do kernels
that run in other float modes than the usual one, index vector registers or use the tensor data
mover, and launches in clusters: compiled code is for the usual mode and runs workgroups one by one.
"""

from __future__ import annotations

import os
import time

from flydsl_emu.execution.launch import Launch, LaunchRecord
from flydsl_emu.execution.program import Program, needs_interpreter
from flydsl_emu.jit_tier import JitTier
from flydsl_emu.jit_tier.products import shared_products
from flydsl_emu.numpy_tier import NumpyTier
from flydsl_emu.settings import THREADS, TIER

__all__ = ["Tiers"]

_COMPILE_BASE, _COMPILE_EACH = 0.3, 0.001
"""Seconds to compile a kernel, and for each of its instructions (benchmarks/emulator.py)."""
_STEP, _STEP_EACH = 15e-6, 0.1e-6
"""Seconds for an instruction of a batch on the numpy tier, and for each of the batch's waves."""
_BATCH = 256
_LOOP = 16
"""Times that a loop is taken to run when nothing is known."""


class Tiers:
    """The tiers of one kernel.

    Args:
        program: The kernel.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._numpy: NumpyTier | None = None
        self._jit: JitTier | None = None
        self._interpreted = 0.0
        self._interpreter = needs_interpreter(program)

    def run(self, launch: Launch) -> LaunchRecord:
        """Run a launch on the tier that the settings name or its size suggests.

        Raises:
            UserError: The kernel accessed memory it may not, or never ends.
            TargetError: Something the emulator does not implement.
        """
        interpreted = self._interpreter or launch.geometry.cluster_size > 1
        if launch.observer is None and not interpreted and self._compiles(launch):
            return self._jit_tier().run(launch, THREADS.get() or os.cpu_count() or 1)
        if self._numpy is None:
            self._numpy = NumpyTier(self.program, shared_products())
        started = time.perf_counter()
        record = self._numpy.run(launch)
        self._interpreted += time.perf_counter() - started
        return record

    @property
    def held(self) -> int:
        """Bytes that the interpreter keeps for later launches."""
        return self._numpy.held if self._numpy is not None else 0

    def release(self) -> None:
        """Let the interpreter keep nothing for later launches."""
        if self._numpy is not None:
            self._numpy.release()

    def _jit_tier(self) -> JitTier:
        if self._jit is None:
            self._jit = JitTier(self.program)
        return self._jit

    def _compiles(self, launch: Launch) -> bool:
        chosen = TIER.get()
        if chosen != "auto":
            return chosen == "jit"
        if not JitTier.available():
            return False
        size = len(self.program.instructions)
        compiling = _COMPILE_BASE + _COMPILE_EACH * size
        if self._interpreted + self._estimate(launch) > compiling:
            return True
        return self._jit_tier().ready(launch.entry)

    def _estimate(self, launch: Launch) -> float:
        """Return about how many seconds the numpy tier needs."""
        waves = launch.geometry.waves * launch.geometry.workgroups
        batches = -(-waves // _BATCH)
        looping = any(i.target is not None and i.target <= i.pc for i in self.program.instructions)
        steps = len(self.program.instructions) * (_LOOP if looping else 1)
        return steps * (batches * _STEP + waves * _STEP_EACH)
