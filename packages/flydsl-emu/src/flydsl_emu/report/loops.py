"""Loops of a kernel: what a backward branch encloses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flydsl_emu.decode import Instruction

__all__ = ["Loop", "find_loops"]


@dataclass(frozen=True, slots=True)
class Loop:
    """An address range that ends with a branch to its beginning.

    Attributes:
        start: Address of the first instruction.
        end: Address after the last one.
        depth: Loops around it.
    """

    start: int
    end: int
    depth: int = 0

    def __contains__(self, pc: int) -> bool:
        return self.start <= pc < self.end


def find_loops(instructions: Iterable[Instruction]) -> tuple[Loop, ...]:
    """Return the loops in address order, outer ones first.

    Backward branches to one address belong to one loop, which ends with the last of them.
    """
    ends: dict[int, int] = {}
    for i in instructions:
        if i.target is not None and i.target <= i.pc:
            ends[i.target] = max(ends.get(i.target, 0), i.pc + i.size)
    ranges = sorted(ends.items(), key=lambda r: (r[0], -r[1]))
    return tuple(
        Loop(start, end, sum(a <= start and end <= b and (a, b) != (start, end) for a, b in ranges))
        for start, end in ranges
    )
