"""One step along K: matrix instructions with the next step's memory operations among them.

Items are pairs (group of chunks, block of rows) in order; each takes `per_item` instructions. What
an item reads of A is read `ahead` batches of items before; the B of a group is loaded again for the
next step as soon as its last item is done, into the same registers. The next step's A comes into
registers early in the step, goes to local data share before the last batches, and its first ones
are read behind the barrier during those: the matrix unit never waits for a whole latency.

Waits are explicit and cover a batch or a group at once; what the compiler inserts for itself stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import flydsl.expr as fx
from flydsl_kernels.gemm.device.preshuffle.operands import ARows, BBlocks, ScaleWords, Stage
from flydsl_kernels.gemm.device.preshuffle.plan import IN_DTYPES, SCALED_K, PreshufflePlan
from flydsl_rocdl.kernels.matrix_steps import MatrixStep
from flydsl_rocdl.kernels.scheduling import spread
from flydsl_rocdl.kernels.word_buffers import OUTSIDE

__all__ = ["State", "TileBody"]

__flydsl_internal__ = True  # plain Python: nothing here decides on run-time values

State = tuple[list[Any], list[Any], list[Any], list[Any]]
"""Accumulators, B of the step, A of the step's first batches, and words of scales."""
_MOST_OUTSTANDING = 63
_MOST_LDS = 15
_LDS_PASSES = 32
"""Matrix passes, of four clocks, that a read of local data share should have."""


class TileBody:
    """Emits steps.

    Args:
        plan: The configuration.
        step: The matrix instruction.
        a: Rows of A in memory.
        b: Blocks of B in memory.
        stage: A in local data share.
        unpack: Turns a loaded share of B into fragments of Int32x4.
        scales: Scales in memory, where blocks of K have some.
    """

    def __init__(
        self, plan: PreshufflePlan, step: MatrixStep, a: ARows, b: BBlocks, stage: Stage,
        unpack: Callable[[Any], Any], scales: ScaleWords | None = None,
    ) -> None:  # fmt: skip
        self.plan, self.step, self.a, self.b, self.stage = plan, step, a, b, stage
        self.unpack, self.scales = unpack, scales
        self.unit = step.multiplier()
        self.kinds = IN_DTYPES[plan.in_dtype][:2]
        self.groups = plan.tile_k // SCALED_K if plan.scaled else plan.chunks // step.fragments
        self.a_each = plan.chunks // self.groups
        self.b_each = plan.b_chunks // self.groups
        self.items = self.groups * plan.row_blocks
        self.per_item = plan.column_blocks * step.per_fragment
        pairs = self.items % 2 == 0 and self.items > 2 and self.a_each == 1
        self.batch = 2 if pairs else 1
        self.batches = self.items // self.batch
        passes = self.batch * self.per_item * (step.shape.passes or 4)
        self.ahead = max(1, min(-(-_LDS_PASSES // passes), self.batches - 1, 3))

    def start(self) -> State:
        """Load the first step, and return the state before it."""
        plan = self.plan
        rows = []
        if plan.direct:
            self._bring_first()
        else:
            rows = [self.a.load(number, 0) for number in range(plan.passes)]
        # In the order of the loop: else its waits would be for the worse of both orders.
        self.fence()
        words = [load() for load in self.scales.loads(0)] if self.scales else []
        at, b = self.b.at(0), []
        for index in range(self._blocks()):
            self.fence()
            b.append(self.b.load(*self._block(index), at))
        self.fence()
        for number, row in enumerate(rows):
            self.stage.write(0, number, row)
        if plan.direct:
            fx.rocdl.wait_asyncmark(0)
        self._arrive()
        acc = [self.step.zero() for _ in range(plan.row_blocks * plan.column_blocks)]
        first = range(self.ahead * self.batch)
        return acc, b, [word for item in first for word in self.read_item(0, item)], words

    def run(self, step: Any, slot: int, state: State, more: bool) -> State:
        """Emit one step, `slot` its number modulo 2; with `more` also the loads of the next one."""
        return _Emission(self, step, slot, state, more).run()

    def tail(self, acc: list[Any], step: int, slot: int) -> list[Any]:
        """Emit the last chunks, fewer than a step has."""
        plan, chunks = self.plan, self.plan.tail_chunks
        rows = [
            self.a.load_part(number, step * plan.row_bytes, chunks * 4)
            for number in range(plan.passes)
        ]
        at = self.b.at(step)
        count = plan.tail_k // plan.b_chunk_k * plan.column_blocks
        b = [self.b.load(*self._block(index), at) for index in range(count)]
        words = [load() for load in self.scales.loads(step)] if self.scales else []
        fx.rocdl.lds_barrier()
        for number, row in enumerate(rows):
            self.stage.write(slot % plan.stages, number, row)
        self._arrive()
        assert chunks % self.a_each == 0, "tails are whole groups of chunks"
        for group in range(chunks // self.a_each):
            operands = self.b_operands(b, group)
            for block in range(plan.row_blocks):
                a = self.read_item(slot % plan.stages, group * plan.row_blocks + block)
                scales = self.scales_of(words, group, step, block)
                self.multiply(acc, block, (self.a_operands(a), operands, scales))
        return acc

    def scales_of(self, words: list[Any], group: int, slot: int, block: int) -> list[Any]:
        """Return the scales of an item's instructions, per block of columns."""
        columns = range(self.plan.column_blocks)
        if self.scales is None:
            return [() for _ in columns]
        own = group + (slot % 2 if self.plan.tile_k == SCALED_K else 0)
        return [self.scales.of(words, own, column, block) for column in columns]

    def fence(self) -> None:
        """Keep instructions from moving across, if the plan says so."""
        if self.plan.fenced:
            fx.rocdl.sched_barrier()

    def _blocks(self) -> int:
        return self.plan.b_chunks * self.plan.column_blocks

    def _block(self, index: int) -> tuple[int, int]:
        """Return (block, chunk) of B's share `index`; chunks are outermost."""
        return index % self.plan.column_blocks, index // self.plan.column_blocks

    def _arrive(self) -> None:
        fx.rocdl.lds_barrier()

    def _bring_first(self) -> None:
        for number in range(self.plan.passes):
            lane = self.a.direct_lane(number)
            self.a.bring(number, lane, 0, self.stage.place(0, number))
        fx.rocdl.asyncmark()

    def read_item(self, slot: int, item: int) -> list[Any]:
        """Read what an item needs of A."""
        group, block = divmod(item, self.plan.row_blocks)
        first = group * self.a_each
        return [self.stage.read(slot, block, first + i) for i in range(self.a_each)]

    def a_operands(self, words: Sequence[Any]) -> list[Any]:
        """Return the operands of an item's A, one per instruction."""
        return self.step.operands(words, self.kinds[0])

    def b_operands(self, b: Sequence[Any], group: int) -> list[list[Any]]:
        """Return B's operands of a group: per block, one per instruction."""
        count, columns = self.b_each, self.plan.column_blocks
        return [
            self.step.operands(
                [self.unpack(b[(group * count + i) * columns + block]) for i in range(count)],
                self.kinds[1],
            )
            for block in range(columns)
        ]

    def multiply(
        self, acc: list[Any], block: int, operands: tuple[list[Any], list[list[Any]], list[Any]],
        before: Callable[[int], None] = lambda _: None,
    ) -> None:  # fmt: skip
        """Emit an item's instructions; columns change fastest, so that sums do not wait.

        Args:
            acc: All sums.
            block: The item's block of rows.
            operands: Those of A, of B per block of columns, and scales per block of columns.
            before: Called before each instruction with its number.
        """
        columns = self.plan.column_blocks
        a, b, scales = operands
        for number in range(self.per_item):
            part, column = divmod(number, columns)
            before(number)
            place = block * columns + column
            acc[place] = self.unit.run(b[column][part], a[part], acc[place], scales[column])


class _Emission:
    """One step being emitted: operations by position, loads on their way."""

    def __init__(self, body: TileBody, step: Any, slot: int, state: State, more: bool) -> None:
        self.body, self.step, self.turn, self.more = body, step, slot, more
        acc, self.b, self.first, self.scales = state
        self.acc = list(acc)
        self.slot = slot % body.plan.stages
        self.next_slot = (self.slot + 1) % body.plan.stages
        self.next_scales: list[Any] = []
        self.fenced = False
        # The loop's last step loads a step that does not exist: from outside all buffers.
        self.away: Any = 0
        if more and slot == 1 and body.plan.steps % 2 == 0:
            there = fx.Int32(step) + 1 < body.plan.steps
            self.away = there.select(fx.Int32(0), fx.Int32(OUTSIDE))
        self.next_b: dict[int, Any] = {}
        self.next_a: dict[int, Any] = {}
        self.next_first: list[Any] = []
        self.actions: dict[int, list[Callable[[], None]]] = {}
        self.loads = [("b", g) for g in range(body.groups) for _ in range(self._group_size())]
        self.words: dict[int, list[Any]] = {
            item: self.first[item * self._each : (item + 1) * self._each]
            for item in range(body.ahead * body.batch)
        }
        reads = body.batch * self._each
        self.lds = [("a", batch) for batch in range(body.ahead) for _ in range(reads)]

    @property
    def _each(self) -> int:
        return self.body.a_each

    def _group_size(self) -> int:
        return self.body.b_each * self.body.plan.column_blocks

    def _at(self, position: int, action: Callable[[], None]) -> None:
        self.actions.setdefault(min(position, self.total), []).append(action)

    @property
    def total(self) -> int:
        """Matrix instructions of the step."""
        return self.body.items * self.body.per_item

    def run(self) -> State:
        """Emit the step and return the state after it."""
        body = self.body
        self._place_reads()
        if self.more:
            self._place_a()
            self._place_scales()
            self._place_b()
        b: list[list[Any]] = []
        for item in range(body.items):
            group, block = divmod(item, body.plan.row_blocks)
            batch, within = divmod(item, body.batch)
            if within == 0:
                self._begin(batch, group if block == 0 else self._next_group(item))
            if block == 0:
                b = body.b_operands(self.b, group)
            a = body.a_operands(self.words.pop(item))
            first = item * body.per_item
            scales = body.scales_of(self.scales, group, self.turn, block)
            body.multiply(self.acc, block, (a, b, scales), partial(self._act_after, first))
        self._act(self.total)
        self.body.fence()
        if not self.more:
            return self.acc, self.b, self.first, self.scales
        next_b = [self.next_b[i] for i in range(len(self.b))]
        return self.acc, next_b, self.next_first, self.next_scales

    def _next_group(self, item: int) -> int | None:
        """Return the group that begins within the batch of an item, if one does."""
        rows = self.body.plan.row_blocks
        for other in range(item, item + self.body.batch):
            if other % rows == 0:
                return other // rows
        return None

    def _act_after(self, first: int, number: int) -> None:
        """Emit the operations before an item's instruction."""
        self._act(first + number)

    def _act(self, position: int) -> None:
        """Emit the operations at a position."""
        actions = self.actions.pop(position, None)
        fenced, self.fenced = self.fenced, False
        if not actions:
            return
        if not fenced:
            self.body.fence()
        for action in actions:
            action()
        self.body.fence()

    def _begin(self, batch: int, group: int | None) -> None:
        """Wait for what a batch of items needs; meet the other waves before the last ones."""
        body = self.body
        meet = self.more and batch == body.batches - body.ahead
        waits = {"lgkmcnt": 0 if meet else _newer(self.lds, ("a", batch), _MOST_LDS)}
        if group is not None:
            waits["vmcnt"] = _newer(self.loads, ("b", group), _MOST_OUTSTANDING)
        if meet and body.plan.direct:
            newer = _newer(self.loads, ("a", body.plan.passes - 1), _MOST_OUTSTANDING)
            waits["vmcnt"] = min(newer if body.plan.fenced else 0, waits.get("vmcnt", newer))
        self.body.fence()
        fx.rocdl.s_waitcnt(**waits)
        if meet:
            fx.rocdl.lds_barrier()
        self.body.fence()
        self.fenced = True

    def _place_reads(self) -> None:
        """Place the reads of each batch of A, `ahead` batches before."""
        body = self.body
        span = body.batch * body.per_item
        for batch in range(body.ahead, body.batches + (body.ahead if self.more else 0)):
            later = batch >= body.batches
            number = batch - body.batches if later else batch
            items = range(number * body.batch, (number + 1) * body.batch)
            start = (batch - body.ahead) * span
            first = start + min(1, span - 1)
            until = max(first, start + span // 2)
            for item, position in zip(items, spread(len(items), first, until), strict=True):
                self._at(position, self._reading(item, later, batch))

    def _reading(self, item: int, later: bool, batch: int) -> Callable[[], None]:
        """Return what reads an item of this step, or of the next one."""

        def action() -> None:
            found = self.body.read_item(self.next_slot if later else self.slot, item)
            self.lds += [("a", batch)] * len(found)
            if later:
                self.next_first += found
            else:
                self.words[item] = found

        return action

    def _place_a(self) -> None:
        """Place the loads of the next step's A, and its writes before the last batch."""
        body, passes = self.body, self.body.plan.passes
        span = body.batch * body.per_item
        last = self.total - span * body.ahead
        offset = (self.step + 1) * body.plan.row_bytes
        lane: list[Any] = []

        def load(number: int) -> Callable[[], None]:
            def action() -> None:
                if not lane:
                    lane.append(body.a.lane + self.away)
                self.next_a[number] = body.a.buffers[number].load(lane[0], offset)
                self.loads.append(("a", number))

            return action

        def write(number: int) -> Callable[[], None]:
            def action() -> None:
                if number == 0:
                    newer = _newer(self.loads, ("a", passes - 1), _MOST_OUTSTANDING)
                    fx.rocdl.s_waitcnt(vmcnt=newer)
                    if body.plan.stages == 1:  # all of this step's A has been read by every wave
                        fx.rocdl.lds_barrier()
                body.stage.write(self.next_slot, number, self.next_a[number])
                self.lds.append(("write", number))

            return action

        def bring(number: int) -> Callable[[], None]:
            def action() -> None:
                # The wait counts the loads after these, so none may change sides.
                fx.rocdl.sched_barrier()
                place = body.a.direct_lane(number) + self.away
                body.a.bring(number, place, offset, body.stage.place(self.next_slot, number))
                fx.rocdl.sched_barrier()
                self.loads.append(("a", number))

            return action

        late = min(last - 1, last - span // 2)
        early = min(late, max(passes, last // 6))
        for number, position in enumerate(spread(passes, min(1, early), early)):
            self._at(position, bring(number) if body.plan.direct else load(number))
        for number, position in enumerate(spread(passes, late, last - 1)):
            if not body.plan.direct:
                self._at(position, write(number))

    def _place_scales(self) -> None:
        """Place the loads of the next step's scales behind those of its A."""
        body = self.body
        if body.scales is None:
            return
        first = min(self.total - 1, body.plan.passes)
        places = spread(body.scales.count, first, max(first, self.total // 4))
        # The loads' addresses are made at the first of them.
        loads: list[Callable[[], Any]] = []

        def action(number: int) -> None:
            if not loads:
                found = body.scales.loads(self.step + 1, self.away)  # type: ignore[union-attr]
                loads.extend(found)
            self.next_scales.append(loads[number]())
            self.loads.append(("scale", number))

        for number, position in enumerate(places):
            self._at(position, partial(action, number))

    def _place_b(self) -> None:
        """Place the loads of the next step's B, each after its registers' last use."""
        body = self.body
        at: list[Any] = []

        def load(index: int, group: int) -> Callable[[], None]:
            def action() -> None:
                if not at:
                    at.append(body.b.at(self.step + 1, self.away))
                self.next_b[index] = body.b.load(*body._block(index), at[0])
                self.loads.append(("b", group))

            return action

        length = body.plan.row_blocks * body.per_item
        size = self._group_size()
        for group in range(body.groups):
            first = (group + 1) * length if body.groups > 1 else length // 8
            part = {1: 4, 2: 2}.get(body.groups, 6)
            until = min(self.total, first + length * part // 8)
            for i, position in enumerate(spread(size, min(first + 1, until), until)):
                self._at(position, load(group * size + i, group))


def _newer(queue: list[tuple[str, int]], tag: tuple[str, int], most: int) -> int:
    """Return how many operations were issued after the last one of a kind, at most `most`."""
    places = [number for number, found in enumerate(queue) if found == tag]
    return min(most, len(queue) - 1 - places[-1]) if places else most
