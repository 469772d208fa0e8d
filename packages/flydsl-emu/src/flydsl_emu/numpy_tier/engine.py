"""Running a batch of workgroups: scheduling of waves, barriers, divergence.

All waves of a batch execute together while they are at one PC. When they part, the group with the
lowest PC runs and the others are masked, so that they meet again at the earliest common block; a
group that keeps branching backward gives way to the others now and then, because it may wait for
them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from flydsl.errors import TargetError, UserError
from flydsl_emu.decode import Instruction
from flydsl_emu.decode.instruction import M0
from flydsl_emu.execution.barriers import SplitBarriers
from flydsl_emu.execution.faults import KernelFault
from flydsl_emu.execution.program import Block, Program
from flydsl_emu.numpy_tier.binding import Binder
from flydsl_emu.numpy_tier.memory import MemoryAccess
from flydsl_emu.semantics.modes import INDEX_MODE, changes_mode, initial_mode

__all__ = ["Batch", "BoundBlock", "Limits"]

Array = Any

_PATIENCE = 64


Closure = Callable[[], Any]
Wrap = Callable[[Instruction, Callable[[], Any]], Callable[[], Any]]
Observe = Callable[[str, Array, int, Array, bool], None]


def _nothing() -> None:
    return None


def _both(first: Observe, second: Observe) -> Observe:
    def call(space: str, addresses: Array, size: int, waves: Array, write: bool) -> None:
        first(space, addresses, size, waves, write)
        second(space, addresses, size, waves, write)

    return call


@dataclass(slots=True)
class Limits:
    """How much a launch may execute: wave-instructions, and how many it has."""

    steps: int
    used: int = 0


class BoundBlock:
    """A block with a closure per instruction, and how often waves ran it."""

    __slots__ = ("block", "body", "changes_mode", "count", "finish", "waves")

    def __init__(
        self, block: Block, body: list[Callable[[], Any]], finish: Callable[[], Any] | None
    ) -> None:
        self.block = block
        self.body = body
        self.finish = finish
        self.count = len(block.instructions)
        self.changes_mode = bool(block.body) and changes_mode(block.body[-1])
        self.waves = 0


class Batch:
    """Waves of several workgroups, bound to a program.

    Args:
        program: The kernel.
        machine: Registers and memory.
        workgroup: Index within the batch of each wave's workgroup.
        cluster: Workgroups of a cluster.

    Attributes:
        first: Index in the launch of the batch's first workgroup.
        size: Bytes of its registers and local memories.
    """

    def __init__(
        self, program: Program, machine: MemoryAccess, workgroup: Array, cluster: int = 1
    ) -> None:
        self.program = program
        self.machine = machine
        self.state = machine.state
        self.workgroup = workgroup
        self.groups = int(workgroup.max()) + 1 if len(workgroup) else 0
        self.parked = np.zeros(self.state.waves, np.bool_)
        self.cluster = cluster
        self.split = SplitBarriers(workgroup, self.groups, cluster)
        self.first = 0
        state, local = self.state, machine.local.values()
        self.size = state.vector.nbytes + state.accumulation.nbytes + state.scalar.nbytes
        self.size += sum(memory.data.nbytes for memory in local)
        self._initial_mode = initial_mode(program.kernel)
        self._bound_by_mode: dict[int, tuple[Binder, dict[int, BoundBlock]]] = {}
        self._many_modes = False
        self._select_mode(self._initial_mode)
        self._backward = 0
        self._turn = 0
        self._wraps: tuple[Wrap, ...] = ()
        self._closures: dict[tuple[int, int], tuple[list[Closure], Closure | None]] = {}

    # Modes ---------------------------------------------------------------------------------------
    def _select_mode(self, mode: int) -> None:
        """Use the blocks that are bound for a mode, as `flydsl_emu.semantics.modes` defines it."""
        found = self._bound_by_mode.get(mode)
        if found is None:
            kernel = self.program.kernel
            found = Binder(self.machine, kernel.name, kernel.arch, mode), {}
            self._bound_by_mode[mode] = found
        self.binder, self.blocks = found

    def _mode_keys(self) -> Array:
        """Return each wave's MODE, with the indexed operands from M0 above it in index mode."""
        modes = self.state.modes[:, 0].astype(np.int64)
        operands = self.state.scalar[M0, :, 0].astype(np.int64) >> 12 & 15
        return np.where(modes & INDEX_MODE, modes | operands << 32, modes)

    def _mode_written(self, following: int) -> int | None:
        """Go on after an instruction that may have changed MODE."""
        keys, current = self._mode_keys(), self._current()
        first = int(keys[current][0])
        self._many_modes = True
        if (keys[current] == first).all():
            self._select_mode(first)
            return self._go(following)
        self.state.pc[current] = following
        return self._schedule()

    def executed(self) -> Iterator[tuple[int, int]]:
        """Yield, for every bound block, its address and how many waves have executed it."""
        for _, blocks in self._bound_by_mode.values():
            for pc, bound in blocks.items():
                yield pc, bound.waves

    def forget_counts(self) -> None:
        """Set the counts of `executed` to zero."""
        for _, blocks in self._bound_by_mode.values():
            for bound in blocks.values():
                bound.waves = 0

    def _forget_blocks(self) -> None:
        for _, blocks in self._bound_by_mode.values():
            blocks.clear()

    # Blocks --------------------------------------------------------------------------------------
    def instrument(self, wrap: Wrap) -> None:
        """Run instructions through `wrap` as well, until `plain` is called.

        Args:
            wrap: Called once for each instruction with the closure that executes it (one that does
                nothing for instructions that the scheduler executes); returns the closure to run
                instead, which must return what the original returns.
        """
        self._forget_blocks()
        self._wraps = (*self._wraps, wrap)

    def observe(self, function: Observe) -> None:
        """Call `function` with every memory access as well, until `plain` is called.

        Its arguments are those of `MemoryAccess.observe`.
        """
        if self.machine.observe is not None:
            function = _both(self.machine.observe, function)
        self.machine.observe = function

    def plain(self) -> None:
        """Drop what `instrument` and `observe` set up."""
        if self._wraps:
            self._forget_blocks()
        self._wraps = ()
        self.machine.observe = None
        self.machine.watch = None

    def _bound(self, pc: int) -> BoundBlock:
        block = self.program.block(pc)
        body, finish = self._closures_of(block)
        for wrap in self._wraps:
            body = [wrap(i, run) for i, run in zip(block.instructions, body, strict=False)]
            if finish is not None and block.last is not None:
                finish = wrap(block.last, finish)
            elif block.last is not None and len(body) == len(block.body):
                body.append(wrap(block.last, _nothing))
        bound = self.blocks[pc] = BoundBlock(block, body, finish)
        return bound

    def _closures_of(self, block: Block) -> tuple[list[Closure], Closure | None]:
        """Return the plain closures of a block, made once for each of its binders."""
        key = id(self.binder), block.start
        found = self._closures.get(key)
        if found is None:
            body = [self.binder.bind(i) for i in block.body]
            finish = None
            if block.end in ("conditional", "jump", "split") and block.last is not None:
                finish = self.binder.bind(block.last)
            found = self._closures[key] = body, finish
        return found

    # Running -------------------------------------------------------------------------------------
    def run(self, entry: int, limits: Limits) -> None:
        """Run all waves from `entry` to their end.

        Raises:
            KernelFault: With the wave and lane; `fault_pc` tells the instruction.
            TargetError: An instruction or set-up that the emulator does not implement.
            UserError: The step limit is reached.
        """
        state = self.state
        state.pc[...] = entry
        state.active = None
        state.live[...] = True
        self.parked[...] = False
        self.split = SplitBarriers(self.workgroup, self.groups, self.cluster)
        state.refresh()
        state.modes[...] = self._initial_mode
        self._many_modes = False
        self._select_mode(self._initial_mode)
        pc: int | None = entry
        while pc is not None:
            bound = self.blocks.get(pc)
            if bound is None:
                bound = self._bound(pc)
            self._account(bound, limits)
            self._execute(bound)
            pc = self._advance(bound)

    def _account(self, bound: BoundBlock, limits: Limits) -> None:
        state = self.state
        active = state.live if state.active is None else state.active
        waves = int(np.count_nonzero(active))
        bound.waves += waves
        limits.used += waves * bound.count
        if limits.used > limits.steps:
            raise UserError(
                f"kernel {self.program.kernel.name!r} ran more than {limits.steps} "
                "wave-instructions; it may never end",
                code="FLY-U714",
                value=self._where(),
                hint="raise FLYDSL_EMU_STEP_LIMIT if the kernel is just long",
            )

    def _where(self) -> str:
        state = self.state
        live = state.live
        pcs = sorted({int(x) for x in state.pc[live]})
        return "waves at pc " + ", ".join(f"{pc:#x}" for pc in pcs[:8])

    def _execute(self, bound: BoundBlock) -> None:
        steps = iter(bound.body)
        try:
            for step in steps:
                step()
        except KernelFault as fault:
            at = len(bound.body) - operator.length_hint(steps) - 1
            fault.args = (*fault.args, bound.block.instructions[at])
            raise

    def _advance(self, bound: BoundBlock) -> int | None:
        """Return the address of the next block to run, or None when all waves have ended."""
        block, state = bound.block, self.state
        if block.end == "fall":
            if bound.changes_mode:
                return self._mode_written(block.next)
            return self._go(block.next)
        if block.end == "branch" and block.last is not None:
            return self._go(block.last.target or 0, block.start)
        if block.end == "conditional" and bound.finish is not None and block.last is not None:
            return self._conditional(bound.finish(), block.last.target or 0, block)
        if block.end == "end":
            active = state.live if state.active is None else state.active
            state.live &= ~active
            self.split.ended(state.live)
            return self._schedule()
        if block.end == "barrier":
            return self._barrier(block.next)
        if block.end == "split" and bound.finish is not None and block.last is not None:
            return self._split(bound.finish(), block)
        if block.end == "jump" and bound.finish is not None:
            target = np.broadcast_to(bound.finish(), (state.waves, 1))[:, 0].astype(np.int64)
            state.pc[self._current()] = target[self._current()]
            return self._schedule()
        fault = KernelFault("the kernel reached a trap instruction", "FLY-U718")
        fault.args = (*fault.args, block.last)
        fault.wave = int(np.argmax(self._current()))
        raise fault

    def _current(self) -> Array:
        state = self.state
        return state.live if state.active is None else state.active

    def _go(self, target: int, source: int = -1) -> int | None:
        """All active waves continue at `target`."""
        state = self.state
        if state.active is None:
            return target
        state.pc[state.active] = target
        if source >= target:
            self._backward += 1
        return self._schedule()

    def _conditional(self, condition: Array, target: int, block: Block) -> int | None:
        state = self.state
        taken = np.broadcast_to(condition, (state.waves, 1))[:, 0]
        current = self._current()
        going = taken & current
        if not going.any():
            return self._go(block.next)
        if going.sum() == current.sum():
            return self._go(target, block.start)
        state.pc[current] = np.where(taken, target, block.next)[current]
        if target <= block.start:
            self._backward += 1
        return self._schedule()

    def _barrier(self, following: int) -> int | None:
        state = self.state
        if state.active is None:
            return following
        state.pc[state.active] = following
        self.parked |= state.active
        waiting = np.bincount(self.workgroup, self.parked & state.live, self.groups)
        living = np.bincount(self.workgroup, state.live, self.groups)
        released = (waiting == living)[self.workgroup]
        self.parked &= ~released
        return self._schedule()

    def _split(self, value: Array, block: Block) -> int | None:
        """Carry out a split-barrier instruction, which ends `block`."""
        state, current = self.state, self._current()
        operand = np.broadcast_to(value, (state.waves, 1))[:, 0].astype(np.int64)
        name = block.last.name if block.last is not None else ""
        try:
            first = self.split.execute(name, operand, current, state.live)
        except KernelFault as fault:
            fault.args = (*fault.args, block.last)
            raise
        if first is not None:
            np.copyto(state.scc[:, 0], first, where=current)
        state.pc[current] = block.next
        if state.active is None and not self.split.held.any():
            return block.next
        return self._schedule()

    def _schedule(self) -> int | None:
        """Choose the next group of waves; None when no wave is left."""
        state = self.state
        if not state.live.any():
            return None
        held = self.parked | self.split.held
        runnable = state.live & ~held
        if not runnable.any():
            self._release()
            runnable = state.live & ~(self.parked | self.split.held)
            if not runnable.any():
                raise TargetError(
                    f"kernel {self.program.kernel.name!r}: all waves wait at barriers",
                    code="FLY-U713",
                    value=self._where(),
                )
        pcs = state.pc[runnable]
        pc = int(pcs.min())
        if self._backward > _PATIENCE:
            self._backward = 0
            choices = np.unique(pcs)
            self._turn += 1
            pc = int(choices[self._turn % len(choices)])
        chosen = runnable & (state.pc == pc)
        if self._many_modes:
            keys = self._mode_keys()
            mode = int(keys[chosen][0])
            chosen &= keys == mode
            self._select_mode(mode)
        state.active = None if np.array_equal(chosen, state.live) else chosen
        state.refresh()
        return pc

    def _release(self) -> None:
        """Open the barriers of workgroups whose remaining waves all wait."""
        live = self.state.live
        waiting = np.bincount(self.workgroup, self.parked & live, self.groups)
        living = np.bincount(self.workgroup, live, self.groups)
        self.parked &= ~(waiting == living)[self.workgroup]
