"""Control flow of a kernel, and a fixed point over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeVar

from flydsl_emu.decode import EXEC, Instruction, Operand
from flydsl_emu.sanitizer.registers import SCALAR, Effects, registers_of

__all__ = ["FlowBlock", "blocks_of", "fixed_point", "without_empty_masks"]

State = TypeVar("State")

_EXEC = SCALAR + EXEC
_ENDS = ("s_endpgm", "s_endpgm_saved", "s_setpc_b64", "s_trap")


@dataclass(frozen=True, slots=True)
class FlowBlock:
    """Straight-line code.

    Attributes:
        first, last: Indices of its first instruction and of the one after its last.
        successors: Blocks that may follow, by number.
    """

    first: int
    last: int
    successors: tuple[int, ...]


def blocks_of(instructions: Sequence[Instruction]) -> list[FlowBlock]:
    """Cut a kernel into blocks, in address order; the first one is the entry.

    Jumps to addresses in registers end a path: what follows them is not looked at.
    """
    at = {i.pc: n for n, i in enumerate(instructions)}
    starts = {0}
    for n, i in enumerate(instructions):
        if i.target is not None and i.target in at:
            starts.add(at[i.target])
        if (i.target is not None or i.name in _ENDS) and n + 1 < len(instructions):
            starts.add(n + 1)
    ordered = sorted(starts)
    number = {start: k for k, start in enumerate(ordered)}
    blocks = []
    for k, first in enumerate(ordered):
        last = ordered[k + 1] if k + 1 < len(ordered) else len(instructions)
        end = instructions[last - 1]
        following: list[int] = []
        if end.target is not None and end.target in at:
            following.append(number[at[end.target]])
        if end.name not in (*_ENDS, "s_branch") and last < len(instructions):
            following.append(k + 1)
        blocks.append(FlowBlock(first, last, tuple(dict.fromkeys(following))))
    return blocks


def without_empty_masks(
    instructions: Sequence[Instruction],
    registers: Sequence[Effects],
    blocks: Sequence[FlowBlock],
    wave_size: int,
) -> list[FlowBlock]:
    """Return blocks without the branches that only a wave without active lanes would take.

    A wave begins with active lanes. LLVM ends branches on values that all lanes share with
    ``s_cbranch_execz``, which is then never taken. Where a mask has been narrowed, as in divergent
    control flow, it may be.

    Args:
        instructions: The kernel.
        registers: What each instruction reads and writes.
        blocks: Its blocks.
        wave_size: Lanes of a wave.
    """
    suffix = "_b64" if wave_size > 32 else "_b32"
    known: list[frozenset[int] | None] = [None] * len(blocks)
    taken: list[tuple[int, ...]] = [()] * len(blocks)
    if blocks:
        known[0] = frozenset((_EXEC,))
    waiting = [0] if blocks else []
    while waiting:
        k = waiting.pop()
        masks = known[k] or frozenset()
        for n in range(blocks[k].first, blocks[k].last):
            masks = _masks_after(instructions[n], registers[n], masks, suffix)
        after = _along(instructions[blocks[k].last - 1], blocks[k].successors, masks)
        taken[k] = tuple(s for s in blocks[k].successors if s in after)
        for following, found in after.items():
            present = known[following]
            joined = found if present is None else present & found
            if joined != present:
                known[following] = joined
                waiting.append(following)
    return [FlowBlock(b.first, b.last, taken[k]) for k, b in enumerate(blocks)]


def _masks_after(
    i: Instruction, effects: Effects, masks: frozenset[int], suffix: str
) -> frozenset[int]:
    """Return the registers that hold a mask of some lanes after an instruction."""
    if i.name.startswith(("s_swappc", "s_call")):
        return frozenset()
    killed = {r for written in effects.defs if written >= SCALAR for r in (written, written - 1)}
    gained: list[int] = []
    if i.name.endswith(suffix):
        action = i.name.removesuffix(suffix)
        some = [_mask_of(o) in masks for o in i.operands]
        if action in ("s_mov", "s_or") and any(some[1:]):
            gained.append(_mask_of(i.operands[0]))
        elif action.endswith("_saveexec"):
            if _EXEC in masks:
                gained.append(_mask_of(i.operands[0]))
            if action == "s_or_saveexec" and (_EXEC in masks or some[1]):
                gained.append(_EXEC)
    return masks - killed | frozenset(gained)


def _mask_of(operand: Operand) -> int:
    """Return the first register of an operand, -1 for a constant."""
    return next(iter(registers_of(operand)), -1)


def _along(
    end: Instruction, successors: tuple[int, ...], masks: frozenset[int]
) -> dict[int, frozenset[int]]:
    """Return the masks known in each of the blocks that may follow, the target coming first."""
    if len(successors) < 2 or end.name not in ("s_cbranch_execz", "s_cbranch_execnz"):
        return dict.fromkeys(successors, masks)
    empty, some = successors if end.name == "s_cbranch_execz" else successors[::-1]
    found = {some: masks | {_EXEC}}
    if _EXEC not in masks:
        found[empty] = masks
    return found


def fixed_point(
    blocks: Sequence[FlowBlock],
    entry: State,
    transfer: Callable[[int, State], State],
    merge: Callable[[State, State], State | None],
) -> list[State | None]:
    """Return the state at the entry of every block; None for blocks that nothing reaches.

    Args:
        blocks: The control flow.
        entry: State at the start of the kernel.
        transfer: ``transfer(block, state)`` gives the state at the block's end.
        merge: ``merge(known, new)`` gives the joined state, or None if `new` adds nothing.
    """
    states: list[State | None] = [None] * len(blocks)
    if not blocks:
        return states
    states[0] = entry
    queue, waiting = [0], {0}
    while queue:
        k = heappop(queue)
        waiting.discard(k)
        state = states[k]
        if state is None:
            continue
        after = transfer(k, state)
        for following in blocks[k].successors:
            known = states[following]
            joined = after if known is None else merge(known, after)
            if joined is None:
                continue
            states[following] = joined
            if following not in waiting:
                waiting.add(following)
                heappush(queue, following)
    return states
