"""The JIT tier: launches of one kernel, on one or more host threads."""

from __future__ import annotations

import threading
import time

from flydsl_emu.execution.launch import Launch, LaunchRecord
from flydsl_emu.execution.program import Program
from flydsl_emu.jit_tier.context import WaveLayout
from flydsl_emu.jit_tier.host_code import host_supported
from flydsl_emu.jit_tier.kernel import CompiledKernel, kernel_key
from flydsl_emu.jit_tier.library import Library, shared_library
from flydsl_emu.jit_tier.memory_blocks import LaunchTables
from flydsl_emu.jit_tier.worker import Session, Worker

__all__ = ["JitTier"]

_OPTIMISED_SIZE = 2000
_OPTIMISED_STEPS = 10_000_000
"""Kernels up to that size are compiled at level 1 for launches of that many wave-instructions."""


class JitTier:
    """Runs launches of one kernel; keeps its machine code.

    Args:
        program: The kernel.
        library: Support routines; those of the process by default.
    """

    def __init__(self, program: Program, library: Library | None = None) -> None:
        self.program = program
        self.library = library or shared_library()
        self._kernels: dict[tuple[int, int], CompiledKernel] = {}

    @staticmethod
    def available() -> bool:
        """Return whether this host can run the tier."""
        return host_supported()

    def ready(self, entry: int) -> bool:
        """Return whether machine code for a kernel that starts at `entry` is at hand."""
        offset = entry - self.program.base
        return any(
            (offset, level) in self._kernels
            or self.library.cache.has(kernel_key(self.program, offset, level=level))
            for level in (0, 1)
        )

    def kernel(self, entry: int, level: int = 0) -> CompiledKernel:
        """Return the kernel that starts at address `entry`, compiled at a level of 0 or 1."""
        key = entry - self.program.base, level
        found = self._kernels.get(key)
        if found is None:
            found = CompiledKernel(self.program, self.library, key[0], level=level)
            self._kernels[key] = found
        return found

    def _level(self, launch: Launch) -> int:
        """Return the level that pays off: code of level 1 is faster and compiles slower."""
        size = len(self.program.instructions)
        geometry = launch.geometry
        steps = geometry.workgroups * geometry.waves * size
        return int(size <= _OPTIMISED_SIZE and steps >= _OPTIMISED_STEPS)

    def run(self, launch: Launch, threads: int = 1, level: int | None = None) -> LaunchRecord:
        """Run a launch on its whole grid.

        Args:
            launch: The launch; it must have no observer.
            threads: Host threads.
            level: Optimisation level; by default as the size of the launch asks.

        Raises:
            UserError: The kernel accessed memory it may not, or never ends.
            TargetError: Something the emulator does not implement, or waves that wait forever.
        """
        kernel = self.kernel(launch.entry, self._level(launch) if level is None else level)
        session = Session(launch, LaunchTables(launch, WaveLayout.of(launch.kernel)))
        count = max(1, min(threads, launch.geometry.workgroups))
        workers = [Worker(session, kernel, self.library, n) for n in range(count)]
        session.active = count
        if count == 1:
            workers[0].run()
        else:
            self._together(workers, session)
        if session.error is not None:
            raise session.error
        record = LaunchRecord(launch.kernel, launch.geometry, self.program)
        for worker in workers:
            worker.add_counts(record.counts)
        return record

    @staticmethod
    def _together(workers: list[Worker], session: Session) -> None:
        threads = [threading.Thread(target=w.run, daemon=True) for w in workers]
        begun: list[threading.Thread] = []
        try:
            for thread in threads:
                begun.append(thread)
                thread.start()
            for thread in threads:
                # A timeout lets the main thread see interrupts.
                while thread.is_alive():
                    thread.join(0.1)
        except BaseException:
            session.stop()
            for thread in begun:
                # An interrupt may have come while the thread was starting.
                for _ in range(100):
                    if thread.ident is not None:
                        thread.join()
                        break
                    time.sleep(0.01)
            raise
