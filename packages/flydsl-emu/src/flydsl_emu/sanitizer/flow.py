"""Control flow of a kernel, and a fixed point over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeVar

from flydsl_emu.decode import Instruction

__all__ = ["FlowBlock", "blocks_of", "fixed_point"]

State = TypeVar("State")

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
