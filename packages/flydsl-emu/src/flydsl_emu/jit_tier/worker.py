"""One host thread of a launch, and the turns that waves take on it.

A thread executes runs of workgroups in one block of memory. A workgroup whose waves use up their
turns may wait for others: it keeps its memory, and the thread begins further workgroups beside it,
twice as many whenever a round changes no register of any of them. When no thread can begin another
workgroup and a round of each changes nothing, they wait for one another forever, or for a launch on
another device, which gets some time.
"""

from __future__ import annotations

import ctypes
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flydsl.errors import TargetError, UserError
from flydsl_emu.decode.instruction import SCC
from flydsl_emu.execution.barriers import SplitBarriers
from flydsl_emu.execution.explain import explained
from flydsl_emu.execution.launch import Launch
from flydsl_emu.jit_tier.context import JUMP, SPLIT
from flydsl_emu.jit_tier.driver_text import DONE, EVENT, WAITING
from flydsl_emu.jit_tier.faulting import MISSING, fault_of
from flydsl_emu.jit_tier.kernel import CompiledKernel
from flydsl_emu.jit_tier.library import Library
from flydsl_emu.jit_tier.memory import ROUTINE
from flydsl_emu.jit_tier.memory_blocks import (
    ENDED,
    HELD,
    RUNNING,
    GroupMemory,
    LaunchTables,
    ThreadContext,
)
from flydsl_emu.jit_tier.outlining import routine_messages
from flydsl_emu.jit_tier.translate import Translation

__all__ = ["Session", "Worker"]

Array = Any

_SLICE = 1 << 16
_STRIDE = 1 << 24
_PATIENCE = 64
_MOMENT = 0.001

_RUN = ctypes.CFUNCTYPE(
    ctypes.c_uint64, *(ctypes.c_void_p,) * 3, *(ctypes.c_uint64,) * 3, use_errno=False
)
_GROUP = ctypes.CFUNCTYPE(ctypes.c_uint64, *(ctypes.c_void_p,) * 3)
_BEGIN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)


class Session:
    """What the threads of one launch share.

    Args:
        launch: The launch.
        tables: Its tables.

    Attributes:
        active: Threads that have work.
        error: What ended the launch early.
    """

    def __init__(self, launch: Launch, tables: LaunchTables) -> None:
        self.launch = launch
        self.tables = tables
        self.active = 1
        self.error: BaseException | None = None
        self._next = 0
        self._lock = threading.Lock()
        self._used: dict[int, int] = {}
        self._epoch = 0
        self._stalled: dict[int, int] = {}
        self._stopped = False

    def take(self, most: int) -> range:
        """Return the numbers of workgroups to run next; empty when there are none left."""
        with self._lock:
            first = self._next
            self._next = min(first + most, self.launch.geometry.workgroups)
            return range(first, self._next)

    def stop(self) -> None:
        """Make all threads return soon."""
        self._stopped = True

    def fail(self, error: BaseException) -> None:
        """Note an error, if it is the first, and stop."""
        with self._lock:
            self.error = self.error or error
        self.stop()

    @property
    def stopped(self) -> bool:
        """Whether threads should return."""
        return self._stopped

    def account(self, worker: int, used: int) -> bool:
        """Note the wave-instructions of a thread; return whether the launch has too many."""
        with self._lock:
            self._used[worker] = used
            return sum(self._used.values()) > self.launch.steps

    # Waiting for one another ---------------------------------------------------------------------
    @property
    def epoch(self) -> int:
        """Number of times that a thread got on."""
        return self._epoch

    def moved(self) -> None:
        """Note that a thread got on."""
        with self._lock:
            self._epoch += 1

    def stalled(self, worker: int, since: int) -> bool:
        """Note a round that began at epoch `since` and changed nothing; return if it is the end."""
        with self._lock:
            if since != self._epoch:
                return False
            self._stalled[worker] = since
            same = sum(1 for epoch in self._stalled.values() if epoch == since)
            return same >= self.active

    def leave(self) -> None:
        """Note that a thread has no work left."""
        with self._lock:
            self.active -= 1
            self._epoch += 1


@dataclass(slots=True)
class _Resident:
    """A workgroup that has begun."""

    index: int
    memory: GroupMemory
    split: SplitBarriers | None = None
    before: Array = field(default=None)


class Worker:
    """Runs workgroups on one thread.

    Args:
        session: The launch.
        kernel: Its machine code.
        library: Support routines.
        number: Number of the thread.
    """

    def __init__(
        self, session: Session, kernel: CompiledKernel, library: Library, number: int
    ) -> None:
        self.session = session
        self.launch = session.launch
        self.library = library
        self.number = number
        self.context = ThreadContext(session.launch, session.tables, kernel.layout)
        self.counted: list[tuple[CompiledKernel, Array]] = []
        self._run_groups = _RUN(library.address(kernel.driver))
        self._run_group = _GROUP(library.address(kernel.driver, f"{kernel.driver}.group"))
        self._begin = _BEGIN(library.address(kernel.driver, f"{kernel.driver}.begin"))
        self._use(kernel)
        self.context.prepare(_SLICE)
        self._backlog: list[int] = []

    def _use(self, kernel: CompiledKernel) -> None:
        self.kernel = kernel
        entry = self.launch.entry - self.launch.program.base
        start = kernel.starts.index(entry)
        self.context.use(kernel.address, kernel.routines(), len(kernel.starts), start)
        self.counted.append((kernel, self.context.counts))

    def add_counts(self, counts: dict[int, int]) -> None:
        """Add the executions of each block, by address, to `counts`."""
        base = self.launch.program.base
        for kernel, numbers in self.counted:
            own = numbers.astype(np.int64)
            for n, following in enumerate(kernel.continued):
                if following >= 0:
                    own[following] -= int(numbers[n])
            for start, count in zip(kernel.starts, own, strict=True):
                if count:
                    counts[base + start] = counts.get(base + start, 0) + int(count)

    # Runs ----------------------------------------------------------------------------------------
    def run(self) -> None:
        """Run workgroups until there are none left; errors go to the session."""
        try:
            self._work()
        except KeyboardInterrupt:
            self.session.stop()
            raise
        except BaseException as error:  # noqa: BLE001 - raised in the launching thread
            self.session.fail(error)
        finally:
            self.session.leave()

    def _work(self) -> None:
        geometry = self.launch.geometry
        most = max(1, min(64, geometry.workgroups // (16 * self.session.active)))
        memory = self._memory()
        while not self.session.stopped:
            some = self._take(most)
            if not some:
                return
            at = some.start
            while at < some.stop and not self.session.stopped:
                result, at = self._several(memory, at, some.stop)
                if result in (WAITING, EVENT):
                    # What is left of the run may be what this workgroup waits for.
                    self._backlog = [*range(at + 1, some.stop), *self._backlog]
                    self._beside(_Resident(at, memory), result)
                    memory = self._memory()
                    break

    def _take(self, most: int) -> range:
        if self._backlog:
            first = self._backlog.pop(0)
            last = first + 1
            while self._backlog and self._backlog[0] == last and last - first < most:
                last = self._backlog.pop(0) + 1
            return range(first, last)
        return self.session.take(most)

    def _memory(self) -> GroupMemory:
        f = self.context.fields
        return GroupMemory(
            self.kernel.layout, self.launch.geometry.waves, f.lds_clear, f.scratch_stride
        )

    def _several(self, memory: GroupMemory, first: int, last: int) -> tuple[int, int]:
        """Run workgroups in one block of memory; return the result and where it came to."""
        f = self.context.fields
        f.lds = memory.lds.address
        places = self.context.address, memory.registers.address, memory.scratch.address
        result = self._run_groups(*places, first, last, f.used + _STRIDE)
        self._check_limit([])
        return result, int(f.group)

    def _check_limit(self, residents: list[_Resident]) -> None:
        if self.session.account(self.number, int(self.context.fields.used)):
            raise UserError(
                f"kernel {self.launch.kernel.name!r} ran more than {self.launch.steps} "
                "wave-instructions; it may never end",
                code="FLY-U714",
                value=self._where(residents),
                hint="raise FLYDSL_EMU_STEP_LIMIT if the kernel is just long",
            )

    def _where(self, residents: list[_Resident]) -> str:
        base = self.launch.program.base
        pcs = {
            base + self.kernel.starts[int(n)]
            for r in residents
            for n, status in zip(r.memory.resume, r.memory.status, strict=True)
            if status != ENDED
        }
        return "waves at pc " + ", ".join(f"{pc:#x}" for pc in sorted(pcs)[:8])

    # Workgroups side by side ---------------------------------------------------------------------
    def _beside(self, first: _Resident, result: int) -> None:
        """Run a workgroup that did not end, and others beside it, until all have ended."""
        residents = [first]
        if result == EVENT and self._settle(first, residents) == DONE:
            residents.remove(first)
        quiet = 0
        waiting_since = time.monotonic()
        while residents and not self.session.stopped:
            since = self.session.epoch
            still = True
            for resident in list(residents):
                ended = self._turn(resident, residents) == DONE
                if ended:
                    residents.remove(resident)
                still = still and not ended and self._unchanged(resident)
                self._check_limit(residents)
            if not still:
                self.session.moved()
                waiting_since = time.monotonic()
            quiet = 0 if len(residents) == 0 else quiet + 1
            if still or quiet >= _PATIENCE:
                quiet = 0
                if (
                    not self._widen(residents)
                    and still
                    and self.session.stalled(self.number, since)
                    and not self._wait_for_others(waiting_since)
                ):
                    raise self._deadlock(residents)

    def _wait_for_others(self, since: float) -> bool:
        """Give other devices a moment; return False when they had their time."""
        if time.monotonic() - since >= self.launch.patience:
            return False
        time.sleep(_MOMENT)
        return True

    def _deadlock(self, residents: list[_Resident]) -> TargetError:
        return TargetError(
            f"kernel {self.launch.kernel.name!r}: its waves wait for one another forever",
            code="FLY-U713",
            value=self._where(residents),
        )

    def _widen(self, residents: list[_Resident]) -> bool:
        """Begin as many workgroups again as there are; return whether there were any."""
        numbers: list[int] = []
        while len(numbers) < len(residents):
            some = self._take(len(residents) - len(numbers))
            if not some:
                break
            numbers += some
        for n in numbers:
            resident = _Resident(n, self._memory())
            self._focus(resident)
            self._begin(self.context.address, resident.memory.registers.address, n)
            residents.append(resident)
        return bool(numbers)

    def _focus(self, resident: _Resident) -> None:
        self.context.fields.lds = resident.memory.lds.address
        self.context.fields.group = resident.index

    def _turn(self, resident: _Resident, residents: list[_Resident]) -> int:
        """Give each wave of a workgroup a turn."""
        self._focus(resident)
        memory = resident.memory
        result = int(
            self._run_group(self.context.address, memory.registers.address, memory.scratch.address)
        )
        if result == EVENT:
            return self._settle(resident, residents)
        if resident.split is not None and result == WAITING:
            self._follow_ends(resident)
            status = memory.status
            if not (status == RUNNING).any():
                raise self._deadlock(residents)
        return result

    @staticmethod
    def _unchanged(resident: _Resident) -> bool:
        """Return whether no register has changed since the last call."""
        now = resident.memory.registers.data
        same = resident.before is not None and np.array_equal(now, resident.before)
        resident.before = now.copy()
        return same

    # Events --------------------------------------------------------------------------------------
    def _settle(self, resident: _Resident, residents: list[_Resident]) -> int:
        """Deal with what stopped a workgroup, and go on with it."""
        while not self.session.stopped:
            f = self.context.fields
            if f.fault:
                raise self._fault(resident)
            code = ctypes.c_int64(f.result).value
            if code == JUMP:
                self._extend(int(f.jump), int(f.wave), residents)
            elif code == SPLIT:
                self._split(resident, int(f.wave), int(f.jump))
            self._check_limit(residents)
            self._focus(resident)
            memory = resident.memory
            result = int(
                self._run_group(
                    self.context.address, memory.registers.address, memory.scratch.address
                )
            )
            if result != EVENT:
                return result
        return WAITING

    def _fault(self, resident: _Resident) -> BaseException:
        f = self.context.fields
        instruction = self.launch.program.at(self.launch.program.base + int(f.fault_pc))
        if f.fault == MISSING and instruction is not None:
            entry = self.launch.entry - self.launch.program.base
            translation = Translation(self.launch.program, self.kernel.layout, entry)
            error = translation.complaint(instruction)
            if error is not None:
                return error
        messages = self.kernel.messages
        if f.fault >= ROUTINE and instruction is not None:
            kernel = self.launch.kernel
            messages = routine_messages(instruction, kernel.arch, kernel.wave_size)
        fault = fault_of(f, self.launch.memory, messages)
        if instruction is not None:
            fault.args = (*fault.args, instruction)
        return explained(fault, self.launch, resident.index, int(f.wave))

    def _extend(self, address: int, wave: int, residents: list[_Resident]) -> None:
        """Compile the code that an indirect jump leads to, and let the wave go on there."""
        program = self.launch.program
        offset = address - program.base
        if program.at(address) is None:
            raise TargetError(
                f"kernel {self.launch.kernel.name!r} left its own code",
                code="FLY-U715",
                value=f"pc {address:#x}",
            )
        old = self.kernel
        entry = self.launch.entry - program.base
        extra = frozenset((*old.extra, offset))
        self._use(CompiledKernel(program, self.library, entry, extra, old.level))
        index = int(self.context.fields.group)
        for resident in residents:
            offsets = [old.starts[int(n)] for n in resident.memory.resume]
            resident.memory.resume[:] = [self.kernel.starts.index(o) for o in offsets]
            if resident.index == index:
                resident.memory.resume[wave] = self.kernel.starts.index(offset)

    # Split barriers ------------------------------------------------------------------------------
    def _follow_ends(self, resident: _Resident) -> None:
        split = resident.split
        assert split is not None
        status = resident.memory.status
        split.ended(status != ENDED)
        self._hold(resident)

    def _hold(self, resident: _Resident) -> None:
        assert resident.split is not None
        status, held = resident.memory.status, resident.split.held
        status[held & (status == RUNNING)] = HELD
        status[~held & (status == HELD)] = RUNNING

    def _split(self, resident: _Resident, wave: int, value: int) -> None:
        """Carry out a split-barrier instruction."""
        memory = resident.memory
        if resident.split is None:
            resident.split = SplitBarriers(np.zeros(memory.waves, np.int64), 1)
        live = memory.status != ENDED
        resident.split.ended(live)
        current = np.zeros(memory.waves, np.bool_)
        current[wave] = True
        values = np.full(memory.waves, value, np.int64)
        name = self._split_name(int(memory.resume[wave]))
        first = resident.split.execute(name, values, current, live)
        if first is not None:
            memory.scalar(SCC)[wave] = int(first[wave])
        self._hold(resident)

    def _split_name(self, following: int) -> str:
        """Return the mnemonic of the split-barrier instruction before a block."""
        # The block before ends with it; blocks are in address order.
        program, starts = self.launch.program, self.kernel.starts
        sequence = program.sequence(program.base + starts[following])
        assert sequence is not None
        instructions, at = sequence
        return instructions[at - 1].name
