"""A kernel as basic blocks of decoded instructions."""

from __future__ import annotations

from dataclasses import dataclass, field

from flydsl.errors import TargetError
from flydsl_emu.codeobject import Kernel
from flydsl_emu.decode import Instruction, decode, decode_one
from flydsl_emu.execution.barriers import SPLIT_BARRIERS
from flydsl_emu.execution.high_registers import with_high_registers
from flydsl_emu.semantics.control import END
from flydsl_emu.semantics.modes import changes_mode, initial_mode, is_usual, uses_mode

__all__ = ["Block", "Program", "ending", "needs_interpreter"]

_EXITS = frozenset(("s_setpc_b64", "s_endpgm", "s_branch"))
_JUMPS = frozenset(("s_setpc_b64", "s_swappc_b64", "s_call_b64"))


@dataclass(frozen=True, slots=True)
class Block:
    """Straight-line code and how it ends.

    Attributes:
        start: Address of the first instruction.
        next: Address after the last one.
        body: Instructions before the ending one (all of them for ``"fall"``).
        end: ``"fall"``, ``"branch"``, ``"conditional"``, ``"end"``, ``"barrier"``, ``"split"``
            (one of `SPLIT_BARRIERS`), ``"jump"`` or ``"trap"``.
        last: The ending instruction, None for ``"fall"``.
    """

    start: int
    next: int
    body: tuple[Instruction, ...]
    end: str
    last: Instruction | None

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """All instructions of the block."""
        return self.body if self.last is None else (*self.body, self.last)


@dataclass(slots=True)
class Program:
    """A decoded kernel at its load address.

    Attributes:
        kernel: The kernel.
        base: Address at which its first instruction was loaded.
        instructions: The kernel's own, in address order. Functions that it calls are decoded when
            they are first run.
    """

    kernel: Kernel
    base: int
    instructions: list[Instruction] = field(init=False)
    _index: dict[int, tuple[list[Instruction], int]] = field(init=False, default_factory=dict)
    _leaders: set[int] = field(init=False, default_factory=set)
    _blocks: dict[int, Block] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        code = decode(self.kernel.arch, self.kernel.code, self.base)
        self.instructions = with_high_registers(code)
        self._enter(self.instructions)

    def _enter(self, instructions: list[Instruction]) -> None:
        for n, i in enumerate(instructions):
            self._index[i.pc] = instructions, n
            if i.target is not None:
                self._leaders.add(i.target)

    def _function(self, pc: int) -> bool:
        """Decode the function at `pc`, if there is one in the kernel's section."""
        kernel = self.kernel
        start = self.base - kernel.address + kernel.text_address
        at, found = pc - start, list[Instruction]()
        farthest = 0
        while 0 <= at < len(kernel.text):
            i = decode_one(kernel.arch, kernel.text[at : at + 16], start + at)
            found.append(i)
            farthest = max(farthest, i.target or 0)
            at += i.size
            # What follows an exit belongs to it only if something before jumps there.
            if i.name in _EXITS and farthest < start + at:
                break
        self._enter(with_high_registers(found))
        return bool(found)

    def leads(self, pc: int) -> bool:
        """Return whether a branch goes to `pc`."""
        return pc in self._leaders

    def at(self, pc: int) -> Instruction | None:
        """Return the instruction at an address, or None."""
        found = self.sequence(pc)
        return None if found is None else found[0][found[1]]

    def sequence(self, pc: int) -> tuple[list[Instruction], int] | None:
        """Return the instructions among which the one at `pc` is, and its index; or None."""
        if pc not in self._index:
            self._function(pc)
        return self._index.get(pc)

    def block(self, pc: int) -> Block:
        """Return the block that starts at `pc`.

        Raises:
            TargetError: `pc` is not an instruction of the kernel.
        """
        found = self._blocks.get(pc)
        if found is None:
            found = self._blocks[pc] = self._build(pc)
        return found

    def _build(self, pc: int) -> Block:
        if pc not in self._index and not self._function(pc):
            raise TargetError(
                f"kernel {self.kernel.name!r} left its own code",
                code="FLY-U715",
                value=f"pc {pc:#x}",
            )
        instructions, at = self._index[pc]
        body: list[Instruction] = []
        for i in instructions[at:]:
            if i.pc != pc and i.pc in self._leaders:
                return Block(pc, i.pc, tuple(body), "fall", None)
            end = ending(i)
            if end is not None:
                return Block(pc, i.pc + i.size, tuple(body), end, i)
            body.append(i)
            if changes_mode(i):
                return Block(pc, i.pc + i.size, tuple(body), "fall", None)
        end_pc = instructions[-1].pc + instructions[-1].size
        return Block(pc, end_pc, tuple(body), "fall", None)


def ending(i: Instruction) -> str | None:
    """Return how an instruction ends its block (see `Block.end`), or None if it does not."""
    if i.name in END:
        return "end"
    if i.name == "s_branch":
        return "branch"
    if i.name.startswith("s_cbranch_"):
        return "conditional"
    if i.name == "s_barrier":
        return "barrier"
    if i.name in SPLIT_BARRIERS:
        return "split"
    if i.name in _JUMPS:
        return "jump"
    if i.name == "s_trap":
        return "trap"
    return None


_INTERPRETED = ("tensor_", "cluster_")
_WAVE_NUMBER = 116
"""TTMP8, which has the number of the wave in its workgroup (gfx12)."""


def _for_interpreter(i: Instruction) -> bool:
    if uses_mode(i) or i.name.startswith(_INTERPRETED):
        return True
    return any(o.kind == "s" and o.index == _WAVE_NUMBER for o in i.operands)


def needs_interpreter(program: Program) -> bool:
    """Return whether compiled code cannot run a kernel.

    It starts in an unusual mode, or it or what it calls may use MODE; or it has tensor transfers,
    loads for a cluster, or the wave's number.
    """
    kernel = program.kernel
    if not is_usual(initial_mode(kernel)) or any(map(_for_interpreter, program.instructions)):
        return True
    if all(i.name != "s_swappc_b64" for i in program.instructions):
        return False
    for at in range(0, len(kernel.text), 4):
        try:
            if _for_interpreter(decode_one(kernel.arch, kernel.text[at : at + 16])):
                return True
        except TargetError:
            continue
    return False
