"""One tile of `flash`, its instructions in the order in which they are to be issued.

Matrix instructions are the warp: the scores of the next tile, then the product with the values of
this one. Woven between them are the exponentials of this tile, the maxima of the next one's scores,
the loads of operands from LDS some steps ahead of their use, and those of later tiles into LDS.
The scheduler is kept from changing the order; it would put all of a kind together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import flydsl.expr as fx
from flydsl_kernels.attention.device.matrix import ELEMENTS, PIECE, UNITS, paired
from flydsl_kernels.attention.device.softmax import narrow_pair, power, summed
from flydsl_kernels.attention.device.streams import loads, read_keys, read_values
from flydsl_rocdl.kernels.scheduling import spread

__all__ = ["woven"]
__flydsl_internal__ = True
"""Runs as it is written: everything here is decided while tracing."""

_BATCH = 4
"""Operands that are read together, a batch ahead of their use. The one read last is used first, so
that one wait serves all."""
_LEAD = 3
"""Steps before its use that an operand is read at the latest."""
_LAST = 1 << 30
_ROOM = 7
"""Instructions that are issued while the matrix unit is busy with one of 8 passes."""
_ROOM_BEFORE = 20
"""Instructions before the first one, while its operands are on their way."""
Task = Callable[[], None]


@dataclass(slots=True)
class Weave:
    """The state of a tile while its instructions are made.

    Attributes:
        tiles: The tiles.
        queries: Operands of the queries.
        cursor: Which buffers and places are next.
        scores: Scores of the tile per block of queries.
        scale: Their factor.
        references: References of the rows.
        sums: Sums of the weights.
        parts: Blocks of the result.
        following: Scores of the next tile.
        tops: Their maxima.
        operands: Operands that have been read.
        made: Pairs of weights.
        words: Pairs of weights as operands.
    """

    tiles: Any
    queries: Any
    cursor: Any
    scores: Any
    scale: Any
    references: list[Any]
    sums: list[Any]
    parts: list[list[Any]]
    following: list[list[Any]] = field(default_factory=list)
    tops: list[Any] = field(default_factory=list)
    operands: dict[Any, Any] = field(default_factory=dict)
    made: dict[Any, Any] = field(default_factory=dict)
    words: dict[Any, Any] = field(default_factory=dict)

    def shift_pair(self, column: int, pair: int) -> None:
        """Subtract the reference from two scores."""
        unit = UNITS[self.tiles.plan.unit]
        block, register = divmod(2 * pair, unit.registers)
        values = self.scores[column][block]
        factor, start = (
            fx.Vector.filled((2,), x, fx.Float32) for x in (self.scale, -self.references[column])
        )
        shifted = fx.math.fma(values.shuffle(values, (register, register + 1)), factor, start)
        self.made[column, pair] = shifted

    def weigh_pair(self, column: int, pair: int) -> None:
        """Make two weights of shifted scores."""
        shifted = self.made[column, pair]
        self.made[column, pair] = fx.Vector.from_elements([power(x) for x in shifted])

    def use_pair(self, column: int, pair: int) -> None:
        """Add two weights to their sum, and narrow them: not at once after they are made."""
        plan = self.tiles.plan
        weights = self.made.pop((column, pair))
        word = narrow_pair(weights, plan)
        self.words[column, pair] = word
        self.sums[column] = summed(self.sums[column], weights, word, plan)

    def weights(self, column: int, piece: int) -> Any:
        """Return the operand of eight weights."""
        words = fx.Vector.from_elements([self.words[column, 4 * piece + i] for i in range(4)])
        plan = self.tiles.plan
        return paired(words.bitcast(ELEMENTS[plan.element]), UNITS[plan.unit], None)

    def score(self, block: int, piece: int, column: int) -> None:
        """Add a piece to the scores of the next tile."""
        unit = UNITS[self.tiles.plan.unit]
        self.following[column][block] = unit.multiply(
            self.operands["k", block, piece], self.queries[column][piece],
            self.following[column][block],
        )  # fmt: skip

    def weigh(self, piece: int, number: int, column: int) -> None:
        """Add a piece to a block of the result."""
        unit = UNITS[self.tiles.plan.unit]
        self.parts[column][number] = unit.multiply(
            self.operands["v", piece, number], self.weights(column, piece),
            self.parts[column][number],
        )  # fmt: skip

    def read_key(self, block: int, piece: int) -> None:
        """Read an operand of the next tile's keys."""
        rows = UNITS[self.tiles.plan.unit].rows
        found = read_keys(self.tiles, 1 - self.cursor.turn, block * rows, piece)
        self.operands["k", block, piece] = found

    def read_value(self, piece: int, number: int) -> None:
        """Read an operand of the tile's values."""
        rows = UNITS[self.tiles.plan.unit].rows
        found = read_values(self.tiles, self.cursor.turn, number * rows, piece)
        self.operands["v", piece, number] = found

    def raise_top(self, column: int, block: int, register: int) -> None:
        """Take two scores of the next tile into account."""
        scores = self.following[column][block]
        pair = (scores[register], scores[register + 1])
        before = self.tops[column]
        items = pair if before is None else (before, *pair)
        self.tops[column] = fx.max(*items, fastmath="nnan")


@dataclass(frozen=True, slots=True)
class Chore:
    """Something to be done beside the steps.

    Attributes:
        stages: What is to be done and its number of instructions, stage after stage; each but the
            first a step after the one before.
        first: Step before which it may be begun at the earliest.
        last: Step before which it has to be done.
    """

    stages: tuple[tuple[Task, int], ...]
    first: int
    last: int

    @property
    def due(self) -> int:
        """Step before which the next stage has to be done."""
        return max(self.first, self.last - len(self.stages) + 1)


def ordered(steps: int, chores: list[Chore], room: int, before: int) -> list[list[Task]]:
    """Return what is done before each step: what has to be, then the most urgent that there is.

    Args:
        steps: Number of steps.
        chores: What there is to do; of equally urgent ones the first in the list comes first.
        room: Instructions for which there is time beside a step.
        before: The same before the first one.
    """
    waiting, out = list(chores), []
    for step in range(steps):
        now: list[Task] = []
        left = before if step == 0 else room
        while ready := [c for c in waiting if c.first <= step]:
            chore = min(ready, key=lambda c: c.due)
            (task, cost), *rest = chore.stages
            if chore.due > step and cost > left:
                break
            waiting.remove(chore)
            now.append(task)
            left -= cost
            if rest:
                waiting.insert(0, Chore(tuple(rest), step + 1, chore.last))
        out.append(now)
    out.append([task for chore in waiting for task, _ in chore.stages])
    return out


def _steps(weave: Weave) -> tuple[list[Any], list[Chore], list[int], list[int]]:
    """Return the steps, the reads of their operands, and two lists of steps.

    The first has for each piece the step that first uses its weights, or those of a later one; the
    second for each block of the next tile's scores the step after which it is complete.
    """
    plan = weave.tiles.plan
    unit, columns = UNITS[plan.unit], range(plan.columns)
    steps: list[Any] = []
    chores: list[Chore] = []

    def batches(read: Any, use: Any, places: list[tuple[int, int]], cost: int) -> None:
        for start in range(0, len(places), _BATCH):
            batch, here = places[start : start + _BATCH], len(steps)
            ahead = here - 2 * _BATCH * plan.columns
            chores.extend(Chore(((partial(read, *p), cost),), ahead, here - _LEAD) for p in batch)
            steps.extend(partial(use, *p, c) for p in reversed(batch) for c in columns)

    blocks, pieces = range(plan.tile // unit.rows), range(plan.wide_qk // PIECE)
    batches(weave.read_key, weave.score, [(b, p) for b in blocks for p in pieces], 1)
    middle = len(steps)
    numbers, pieces = range(plan.wide_v // unit.rows), range(plan.tile // PIECE)
    batches(weave.read_value, weave.weigh, [(p, n) for p in pieces for n in numbers], 2)
    used = [step.args[0] for step in steps[middle:]]
    needed = [middle + min(used.index(q) for q in pieces if q >= p) for p in pieces]
    made = [step.args[0] for step in steps[:middle]]
    return steps, chores, needed, [middle - made[::-1].index(b) for b in blocks]


def _chores(weave: Weave, first: Any, needed: list[int], there: list[int]) -> list[Chore]:
    """Return what else there is to do.

    Args:
        weave: The tile.
        first: Its first key.
        needed: Steps that use weights, as `_steps` returns them.
        there: Steps after which scores are complete.
    """
    tiles, plan = weave.tiles, weave.tiles.plan
    unit, columns = UNITS[plan.unit], range(plan.columns)
    out = []
    for piece in range(plan.tile // PIECE):
        for pair in range(4 * piece, 4 * piece + 4):
            for column in columns:
                stages = ((weave.shift_pair, 2), (weave.weigh_pair, 2), (weave.use_pair, 2))
                named = tuple((partial(task, column, pair), cost) for task, cost in stages)
                out.append(Chore(named, 0, needed[piece] - 1))
    for block, step in enumerate(there):
        out += [
            Chore(((partial(weave.raise_top, column, block, register), 1),), step + 1, _LAST)
            for register in range(0, unit.registers, 2) for column in columns
        ]  # fmt: skip
    moves = loads(tiles, first, weave.cursor)
    out += [
        Chore(((task, 3),), when, when + 4)
        for task, when in zip(moves, spread(len(moves), 2, needed[0]), strict=True)
    ]
    return out


def woven(
    tiles: Any, state: list[Any], scores: tuple[Any, Any], queries: Any, place: tuple[Any, Any]
) -> tuple[list[Any], Any, Any]:
    """Return (state, scores of the next tile, their maxima) after a tile.

    Args:
        tiles: The tiles.
        state: State with references raised for the scores.
        scores: Scores of the tile, and their factor.
        queries: Operands of the queries.
        place: First key of the tile, and the cursor.
    """
    plan, unit = tiles.plan, UNITS[tiles.plan.unit]
    zero = fx.Vector.filled((unit.registers,), 0.0, fx.Float32)
    weave = Weave(
        tiles, queries, place[1], *scores, [column[0] for column in state],
        [column[1] for column in state], [list(column[2]) for column in state],
        [[zero] * (plan.tile // unit.rows) for _ in state], [None] * len(state),
    )  # fmt: skip
    steps, chores, needed, there = _steps(weave)
    chores += _chores(weave, place[0], needed, there)
    *before, after = ordered(len(steps), chores, _ROOM, _ROOM_BEFORE)
    for chosen, step in zip(before, steps, strict=True):
        for task in chosen:
            task()
        step()
        fx.rocdl.sched_barrier()
    for task in after:
        task()
    made = [
        (column[0], total, part)
        for column, total, part in zip(state, weave.sums, weave.parts, strict=True)
    ]
    return made, weave.following, weave.tops
