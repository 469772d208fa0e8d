"""Where memory operations go among the matrix instructions of a loop.

Two ways to say it: a `Timeline` emits the operations at their places, with fences that keep the
compiler from moving them; `hints` asks the scheduler of LLVM for the same pattern and leaves the
code as it is written. Both begin with counts of real instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from flydsl_rocdl.expr.scheduling import SCHED_MASKS, sched_barrier, sched_group_barrier

__all__ = ["Timeline", "hints", "pattern", "spread"]

Action = Callable[[], object]


def spread(count: int, first: int, last: int) -> tuple[int, ...]:
    """Return `count` positions spread evenly over first to last, both included, in order.

    Raises:
        ValueError: A negative count, or last before first.
    """
    if count < 0 or last < first:
        raise ValueError(f"cannot spread {count} operations over {first} to {last}")
    if count <= 1:
        return (first,) * count
    return tuple(first + (last - first) * number // (count - 1) for number in range(count))


class Timeline:
    """Operations of a loop body by the matrix instruction that they precede.

    Args:
        steps: Number of matrix instructions.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self._actions: dict[int, list[Action]] = {}

    def at(self, position: int, action: Action) -> None:
        """Run `action` before instruction `position`; out of range is the nearest end."""
        place = min(max(position, 0), self.steps)
        self._actions.setdefault(place, []).append(action)

    def evenly(self, actions: Sequence[Action], first: int, last: int) -> None:
        """Run `actions` in order, spread evenly over positions first to last."""
        for position, action in zip(spread(len(actions), first, last), actions, strict=True):
            self.at(position, action)

    def run(self, step: Callable[[int], object]) -> None:
        """Emit everything: before ``step(i)``, for every i in order, the actions at i.

        No instruction moves across a place where there are actions, so they stay among the matrix
        instructions where they were put.
        """
        for position in range(self.steps + 1):
            actions = self._actions.get(position, ())
            if actions:
                sched_barrier()
                for action in actions:
                    action()
                sched_barrier()
            if position < self.steps:
                step(position)


def pattern(mfma: int, others: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return groups ``(class, size)`` that spread other instructions evenly among matrix ones.

    Args:
        mfma: Matrix instructions of the loop body.
        others: Instruction class (a name of ``SCHED_MASKS``) -> how many of them there are.

    Raises:
        ValueError: A negative count or an unknown class.
    """
    if mfma < 0 or any(count < 0 for count in others.values()):
        raise ValueError("instruction counts are not negative")
    unknown = [name for name in others if name not in SCHED_MASKS]
    if unknown:
        raise ValueError(f"unknown instruction classes {unknown}")
    wanted: dict[int, list[str]] = {}
    for name, count in others.items():
        for number in range(count):
            wanted.setdefault((2 * number + 1) * mfma // (2 * count), []).append(name)
    out: list[tuple[str, int]] = []
    done = 0
    for position in sorted(wanted):
        if position > done:
            out.append(("mfma", position - done))
            done = position
        for name in wanted[position]:
            if out and out[-1][0] == name:
                out[-1] = (name, out[-1][1] + 1)
            else:
                out.append((name, 1))
    if mfma > done:
        out.append(("mfma", mfma - done))
    return tuple(out)


def hints(mfma: int, others: Mapping[str, int], *, group: int = 0) -> None:
    """Ask LLVM's scheduler to spread the instructions of this block as `pattern` says.

    Args:
        mfma: Matrix instructions of the block.
        others: Class -> count, as for `pattern`.
        group: Sequence number of the groups.
    """
    for name, size in pattern(mfma, others):
        sched_group_barrier(name, size, group)
    sched_barrier()
