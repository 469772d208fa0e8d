"""A part of a tile of `flash`, its instructions in the order in which they are to be issued.

A part is a block of keys, as many as a result has rows. Matrix instructions are the warp: the
scores of the next part, then the product with the values of this one. Woven between them are the
exponentials of this part, the maxima of the next one's scores, the reads of the next part's
operands from LDS, and loads of later tiles into LDS. All operands of a part are read during the one
before, so that the wait before its barrier is the only one. The scheduler is kept from changing the
order; it would put all of a kind together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import flydsl.expr as fx
from flydsl_kernels.attention.device.matrix import ELEMENTS, PIECE, UNITS, paired
from flydsl_kernels.attention.device.softmax import narrow_pair, power, summed
from flydsl_kernels.attention.device.streams import Cursor, loads, read_keys, read_values
from flydsl_rocdl.kernels.scheduling import spread

__all__ = ["Operands", "first_operands", "part_values", "woven"]
__flydsl_internal__ = True
"""Runs as it is written: everything here is decided while tracing."""

_LAST = 1 << 30
_ROOM = 7
"""Instructions that are issued while the matrix unit is busy with one of 8 passes."""
_TAIL = 6
"""Steps before the end that operands of the next part are read at the latest, if there are many."""
Task = Callable[[], None]
Operands = tuple[list[Any], list[Any]]
"""What the matrix instructions of a part take from LDS: the pieces of the keys, and the blocks of
the values of one piece after the other."""


@dataclass(slots=True)
class Weave:
    """The state of a part while its instructions are made.

    Attributes:
        tiles: The tiles.
        queries: Operands of the queries.
        operands: Operands of the part.
        scores: Its scores per block of queries.
        scale: Their factor.
        references: References of the rows.
        sums: Sums of the weights.
        parts: Blocks of the result.
        following: Scores of the next part.
        tops: Their maxima.
        next: Operands of the next part.
        made: Pairs of weights.
        words: Pairs of weights as operands.
    """

    tiles: Any
    queries: Any
    operands: Operands
    scores: list[Any]
    scale: Any
    references: list[Any]
    sums: list[Any]
    parts: list[list[Any]]
    following: list[Any]
    tops: list[Any]
    next: Operands = field(default_factory=lambda: ([], []))
    made: dict[Any, Any] = field(default_factory=dict)
    words: dict[Any, Any] = field(default_factory=dict)

    def shift_pair(self, column: int, pair: int) -> None:
        """Subtract the reference from two scores."""
        values = self.scores[column]
        factor, start = (
            fx.Vector.filled((2,), x, fx.Float32) for x in (self.scale, -self.references[column])
        )
        two = values.shuffle(values, (2 * pair, 2 * pair + 1))
        self.made[column, pair] = fx.math.fma(two, factor, start)

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

    def score(self, piece: int, column: int) -> None:
        """Add a piece to the scores of the next part."""
        unit = UNITS[self.tiles.plan.unit]
        self.following[column] = unit.multiply(
            self.operands[0][piece], self.queries[column][piece], self.following[column]
        )

    def weigh(self, piece: int, number: int, column: int) -> None:
        """Add a piece to a block of the result."""
        unit, blocks = UNITS[self.tiles.plan.unit], len(self.parts[column])
        self.parts[column][number] = unit.multiply(
            self.operands[1][piece * blocks + number], self.weights(column, piece),
            self.parts[column][number],
        )  # fmt: skip

    def raise_top(self, column: int, register: int) -> None:
        """Take two scores of the next part into account."""
        scores = self.following[column]
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


def ordered(steps: int, chores: list[Chore], room: int) -> list[list[Task]]:
    """Return what is done before each step: what has to be, then the most urgent that there is.

    Args:
        steps: Number of steps.
        chores: What there is to do; of equally urgent ones the first in the list comes first.
        room: Instructions for which there is time beside a step.
    """
    waiting, out = list(chores), []
    for step in range(steps):
        now: list[Task] = []
        left = room
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


def reads(tiles: Any, cursor: Cursor, half: int, into: Operands) -> list[tuple[Task, int]]:
    """Return what reads the operands of a part, and the instructions of each.

    Args:
        tiles: The tiles.
        cursor: The cursor of the part before.
        half: Which part of its tile the one before is.
        into: Where to.
    """
    plan = tiles.plan
    unit = UNITS[plan.unit]
    # Scores are a part ahead: those of the next part belong to keys two parts from here.
    values, after = (cursor.turn, 1) if half == 0 else (1 - cursor.turn, 0)
    pieces = plan.wide_qk // PIECE

    def value(piece: int, number: int) -> None:
        into[1].append(read_values(tiles, values, number * unit.rows, piece))

    def key(piece: int) -> None:
        into[0].append(read_keys(tiles, 1 - cursor.turn, half * unit.rows, piece))

    depth = unit.rows // PIECE
    blocks = range(plan.wide_v // unit.rows)
    of_values = [(partial(value, after * depth + p, n), 2) for p in range(depth) for n in blocks]
    return [*of_values, *((partial(key, piece), 1) for piece in range(pieces))]


def first_operands(tiles: Any, cursor: Cursor) -> Operands:
    """Return the operands of the first part of the first tile."""
    plan, unit = tiles.plan, UNITS[tiles.plan.unit]
    keys = [
        read_keys(tiles, cursor.turn, unit.rows, piece) for piece in range(plan.wide_qk // PIECE)
    ]
    return keys, part_values(tiles, cursor, 0)


def part_values(tiles: Any, cursor: Cursor, half: int) -> list[Any]:
    """Return the operands of the values of a part of the tile at hand."""
    plan, unit = tiles.plan, UNITS[tiles.plan.unit]
    depth = unit.rows // PIECE
    return [
        read_values(tiles, cursor.turn, number * unit.rows, half * depth + piece)
        for piece in range(depth) for number in range(plan.wide_v // unit.rows)
    ]  # fmt: skip


def _steps(weave: Weave) -> tuple[list[Any], list[int], int]:
    """Return the steps, the step that first uses each piece's weights, and the end of scores."""
    plan = weave.tiles.plan
    unit, columns = UNITS[plan.unit], range(plan.columns)
    scores = [partial(weave.score, p, c) for p in range(plan.wide_qk // PIECE) for c in columns]
    pieces, numbers = range(unit.rows // PIECE), range(plan.wide_v // unit.rows)
    weights = [partial(weave.weigh, p, n, c) for p in pieces for n in numbers for c in columns]
    middle, each = len(scores), len(weights) // len(pieces)
    return [*scores, *weights], [middle + piece * each for piece in pieces], middle


def _chores(weave: Weave, moves: list[Task], gets: list[tuple[Task, int]], count: int,
            needed: list[int], there: int) -> list[Chore]:  # fmt: skip
    """Return what there is to do.

    Args:
        weave: The part.
        moves: Loads into LDS.
        gets: Reads of the next part's operands.
        count: Number of steps.
        needed: Steps that use weights, as `_steps` returns them.
        there: Step after which the next part's scores are complete.
    """
    unit, columns = UNITS[weave.tiles.plan.unit], range(weave.tiles.plan.columns)
    out = []
    places = spread(len(gets), 0, max(count - _TAIL, 0))
    for (task, cost), when in zip(gets, places, strict=True):
        out.append(Chore(((task, cost),), when, when))
    for piece, step in enumerate(needed):
        for pair in range(4 * piece, 4 * piece + 4):
            for column in columns:
                stages = ((weave.shift_pair, 2), (weave.weigh_pair, 2), (weave.use_pair, 2))
                named = tuple((partial(task, column, pair), cost) for task, cost in stages)
                out.append(Chore(named, 0, step - 1))
    out += [
        Chore(((partial(weave.raise_top, column, register), 1),), there + 1, _LAST)
        for register in range(0, unit.registers, 2) for column in columns
    ]  # fmt: skip
    places = spread(len(moves), 2, there)
    return out + [Chore(((m, 3),), at, at + 4) for m, at in zip(moves, places, strict=True)]


def woven(
    tiles: Any, state: list[Any], scores: tuple[Any, Any], queries: Any,
    place: tuple[Any, Cursor, int, Operands],
) -> tuple[list[Any], Any, Any, Operands]:  # fmt: skip
    """Return (state, scores of the next part, their maxima, its operands) after a part.

    Args:
        tiles: The tiles.
        state: State with references raised for the scores.
        scores: Scores of the part, and their factor.
        queries: Operands of the queries.
        place: First key of the tile, the cursor, which part of the tile, and its operands.
    """
    unit = UNITS[tiles.plan.unit]
    first, cursor, half, operands = place
    found, scale = scores
    zero = fx.Vector.filled((unit.registers,), 0.0, fx.Float32)
    weave = Weave(
        tiles, queries, operands, [mine[0] for mine in found], scale,
        [column[0] for column in state], [column[1] for column in state],
        [list(column[2]) for column in state], [zero for _ in state], [None for _ in state],
    )  # fmt: skip
    steps, needed, there = _steps(weave)
    gets = reads(tiles, cursor, half, weave.next)
    chores = _chores(weave, loads(tiles, first, cursor, half), gets, len(steps), needed, there)
    *before, after = ordered(len(steps), chores, _ROOM)
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
    return made, [[mine] for mine in weave.following], weave.tops, weave.next
