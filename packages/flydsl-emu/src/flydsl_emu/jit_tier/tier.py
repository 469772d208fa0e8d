"""The JIT tier: launches of one kernel, on one or more host threads."""

from __future__ import annotations

import threading
from functools import cache

from flydsl_emu.execution.launch import Launch, LaunchRecord
from flydsl_emu.execution.program import Program
from flydsl_emu.jit_tier.context import WaveLayout
from flydsl_emu.jit_tier.host_code import CodeCache, host_supported
from flydsl_emu.jit_tier.kernel import CompiledKernel, kernel_key
from flydsl_emu.jit_tier.library import Library
from flydsl_emu.jit_tier.memory_blocks import LaunchTables
from flydsl_emu.jit_tier.worker import Session, Worker

__all__ = ["JitTier"]


@cache
def _library() -> Library:
    """Return the support routines of this process."""
    return Library(CodeCache())


class JitTier:
    """Runs launches of one kernel; keeps its machine code.

    Args:
        program: The kernel.
        library: Support routines; those of the process by default.
    """

    def __init__(self, program: Program, library: Library | None = None) -> None:
        self.program = program
        self.library = library or _library()
        self._kernels: dict[int, CompiledKernel] = {}

    @staticmethod
    def available() -> bool:
        """Return whether this host can run the tier."""
        return host_supported()

    def ready(self, entry: int) -> bool:
        """Return whether machine code for a kernel that starts at `entry` is at hand."""
        offset = entry - self.program.base
        return offset in self._kernels or self.library.cache.has(kernel_key(self.program, offset))

    def kernel(self, entry: int) -> CompiledKernel:
        """Return the compiled kernel that starts at address `entry`."""
        offset = entry - self.program.base
        found = self._kernels.get(offset)
        if found is None:
            found = self._kernels[offset] = CompiledKernel(self.program, self.library, offset)
        return found

    def run(self, launch: Launch, threads: int = 1) -> LaunchRecord:
        """Run a launch on its whole grid.

        Args:
            launch: The launch; it must have no observer.
            threads: Host threads.

        Raises:
            UserError: The kernel accessed memory it may not, or never ends.
            TargetError: Something the emulator does not implement, or waves that wait forever.
        """
        kernel = self.kernel(launch.entry)
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
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                # A timeout lets the main thread see interrupts.
                while thread.is_alive():
                    thread.join(0.1)
        except BaseException:
            session.stop()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
            raise
