"""Missing waits, for all paths of a kernel, without running it.

Dataflow over the blocks: for every register that a memory operation will still write, how many
younger operations of its stream have been issued. Where paths meet, the smaller distance counts.
A wait for counter <= n completes the operations of an ordered stream at distance n and above; see
`flydsl_emu.sanitizer.counters.Stream`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from flydsl_emu.decode import Instruction
from flydsl_emu.sanitizer.counters import CounterModel, Event
from flydsl_emu.sanitizer.flow import FlowBlock, fixed_point
from flydsl_emu.sanitizer.registers import Effects, registers_of

__all__ = ["WaitHazard", "missing_waits"]

# Things other than registers that an operation may have outstanding.
LDS_WRITE = -1
FIRST_TO_LDS = -2

_NONE: Mapping[int, int] = MappingProxyType({})

_BARRIERS = frozenset(("s_barrier", "s_barrier_signal", "s_barrier_signal_isfirst"))
# Modifiers of loads that look past the caches for what other waves write.
_SHARED = ("sc0", "sc1", "glc", "scope", "th")
_INVALIDATES = frozenset(("buffer_inv", "buffer_gl0_inv", "buffer_gl1_inv", "global_inv"))


@dataclass(frozen=True, slots=True)
class WaitHazard:
    """One operation that is not known to be complete where it must be.

    Attributes:
        at: Index of the instruction that needs it.
        kind: ``"read"``, ``"write"`` (of a register still to be written), ``"barrier"`` (with LDS
            writes outstanding), ``"lds"`` (an LDS read before the transfer into LDS), ``"order"``
            (caches emptied while a load of shared data is outstanding).
        register: The register, or a negative marker.
        stream: Number of the stream.
        distance: Younger operations of the stream: the wait that is missing.
        source: Index of the operation that is outstanding, the last one in the code.
    """

    at: int
    kind: str
    register: int
    stream: int
    distance: int
    source: int


class _Step(NamedTuple):
    """What the analysis needs of one instruction."""

    number: int
    touched: tuple[int, ...]
    uses: tuple[int, ...]
    results: tuple[int, ...]
    event: Event | None
    waits: tuple[tuple[tuple[int, ...], int], ...]
    kind: str
    shared: bool
    # Half that a load fills (1 low, 2 high), 0 for whole registers.
    fills: int = 0
    # Registers of which the instruction touches one half only, with that half.
    halves: Mapping[int, int] = _NONE


# Distance and origin of what is pending, by stream.
_Pending = tuple[dict[int, tuple[int, int]], ...]


@dataclass(frozen=True, slots=True)
class _State:
    pending: _Pending
    transfers_begun: bool


def missing_waits(
    instructions: Sequence[Instruction],
    registers: Sequence[Effects],
    blocks: Sequence[FlowBlock],
    model: CounterModel,
) -> list[WaitHazard]:
    """Return the operations that are used before a wait makes sure of them, by instruction."""
    steps = [_step(n, i, registers[n], model) for n, i in enumerate(instructions)]
    analysis = _Analysis(steps, model, any(i.name.startswith("ds_write") for i in instructions))
    entry = _State(tuple({} for _ in model.streams), False)
    states = fixed_point(
        blocks,
        entry,
        lambda k, state: analysis.run(blocks[k], state, None),
        analysis.merge,
    )
    found: list[WaitHazard] = []
    for block, state in zip(blocks, states, strict=True):
        if state is not None:
            analysis.run(block, state, found)
    return found


def _step(n: int, i: Instruction, effects: Effects, model: CounterModel) -> _Step:
    uses, defs, partial = effects
    if i.name.startswith("v_"):
        return _Step(n, uses + defs, uses, (), None, (), "", False, 0, _halves_of(i))
    event = model.event(i)
    if partial and event is not None:
        # A load into half a register merges when it returns, in the order of its stream.
        read = list(uses)
        for r in defs:
            read.remove(r)
        uses = tuple(read)
    waits: tuple[tuple[tuple[int, ...], int], ...] = ()
    if i.name.startswith("s_wait"):
        waits = tuple(
            (tuple(s for s, stream in enumerate(model.streams) if stream.counter == counter), value)
            for counter, value in model.waits(i).items()
        )
    kind = ""
    if i.name in _BARRIERS:
        kind = "barrier"
    elif i.name.startswith(("ds_read", "ds_load")):
        kind = "lds"
    elif i.name in _INVALIDATES:
        kind = "invalidate"
    results = defs if event is not None else ()
    shared = event is not None and any(i.mods.get(bit) for bit in _SHARED)
    fills = 0
    if "_d16" in i.name:
        fills = 2 if "_d16_hi" in i.name else 1
    return _Step(n, uses + defs, uses, results, event, waits, kind, shared, fills, _halves_of(i))


def _halves_of(i: Instruction) -> Mapping[int, int]:
    """Return the registers that an instruction touches one half of (gfx11 and later)."""
    found: dict[int, int] = {}
    whole: set[int] = set()
    for o in i.operands:
        if not o.half:
            whole.update(registers_of(o))
            continue
        for r in registers_of(o):
            if found.setdefault(r, o.half) != o.half:
                whole.add(r)
    return {r: half for r, half in found.items() if r not in whole} if found else _NONE


class _Analysis:
    def __init__(self, steps: list[_Step], model: CounterModel, filled_by_writes: bool) -> None:
        self._steps = steps
        self._ordered = tuple(s.ordered for s in model.streams)
        self._limits = tuple(model.limits[s.counter] for s in model.streams)
        self._filled_by_writes = filled_by_writes

    def run(self, block: FlowBlock, state: _State, found: list[WaitHazard] | None) -> _State:
        """Return the state after a block; append its hazards to `found`."""
        # Inside a block an operation has a sequence number: distance = issued so far - number.
        pending = [
            {r: (-distance, at) for r, (distance, at) in stream.items()} for stream in state.pending
        ]
        issued = [0] * len(pending)
        hot = {r for stream in pending for r in stream}
        begun = state.transfers_begun
        for step in self._steps[block.first : block.last]:
            if step.waits:
                for streams, value in step.waits:
                    for s in streams:
                        self._wait(pending[s], s, value, issued[s])
                hot = {r for stream in pending for r in stream}
                continue
            if hot and (step.kind or not hot.isdisjoint(step.touched)):
                if found is not None:
                    self._report(step, pending, issued, found)
                self._overwrite(step, pending)
            event = step.event
            if event is None:
                continue
            for s in event.streams:
                issued[s] += 1
                mark = (issued[s], step.number)
                for r in self._outstanding(step, event, begun):
                    pending[s][r] = mark
                    hot.add(r)
            begun = begun or event.to_lds
        return _State(self._distances(pending, issued), begun)

    def _outstanding(self, step: _Step, event: Event, begun: bool) -> tuple[int, ...]:
        more = step.results
        if event.writes_lds:
            more += (LDS_WRITE,)
        if event.to_lds and not begun and not self._filled_by_writes:
            more += (FIRST_TO_LDS,)
        return more

    def _wait(self, stream: dict[int, tuple[int, int]], s: int, value: int, issued: int) -> None:
        if not stream:
            return
        if value == 0:
            stream.clear()
        elif self._ordered[s]:
            last = issued - value
            for r in [r for r, (number, _) in stream.items() if number <= last]:
                del stream[r]

    def _distances(self, pending: list[dict[int, tuple[int, int]]], issued: list[int]) -> _Pending:
        out = []
        for s, stream in enumerate(pending):
            now, limit = issued[s], self._limits[s]
            if self._ordered[s]:
                out.append({r: (now - n, at) for r, (n, at) in stream.items() if now - n < limit})
            else:
                out.append({r: (0, at) for r, (_, at) in stream.items()})
        return tuple(out)

    def _overwrite(self, step: _Step, pending: list[dict[int, tuple[int, int]]]) -> None:
        """Forget what a result replaces: reported once, and no longer of interest."""
        own = step.event.streams if step.event is not None else ()
        for s, stream in enumerate(pending):
            if stream and s not in own:
                for r in step.touched:
                    stream.pop(r, None)

    def _report(
        self,
        step: _Step,
        pending: list[dict[int, tuple[int, int]]],
        issued: list[int],
        found: list[WaitHazard],
    ) -> None:
        own = step.event.streams if step.event is not None and step.results else ()
        for s, stream in enumerate(pending):
            if not stream:
                continue
            for r in dict.fromkeys((*step.touched, *self._needs(step, stream))):
                mark = stream.get(r)
                if mark is None:
                    continue
                fills = self._steps[mark[1]].fills
                if fills and step.halves.get(r, fills) != fills:
                    continue
                kind = "read" if r in step.uses else "write"
                if kind == "write" and s in own and self._ordered[s] and r >= 0:
                    continue
                kind = self._special(r) if r < 0 or step.kind == "invalidate" else kind
                distance = issued[s] - mark[0] if self._ordered[s] else 0
                found.append(WaitHazard(step.number, kind, r, s, distance, mark[1]))

    @staticmethod
    def _special(register: int) -> str:
        if register == LDS_WRITE:
            return "barrier"
        return "lds" if register == FIRST_TO_LDS else "order"

    def _needs(self, step: _Step, stream: dict[int, tuple[int, int]]) -> Sequence[int]:
        if step.kind == "barrier":
            return (LDS_WRITE,)
        if step.kind == "lds":
            return (FIRST_TO_LDS,)
        if step.kind == "invalidate":
            return [r for r, (_, at) in stream.items() if r >= 0 and self._steps[at].shared]
        return ()

    @staticmethod
    def merge(known: _State, new: _State) -> _State | None:
        """Join two states; None if `new` adds nothing to `known`."""
        changed = new.transfers_begun and not known.transfers_begun
        joined: list[dict[int, tuple[int, int]]] = []
        for old, fresh in zip(known.pending, new.pending, strict=True):
            merged = old
            for r, mark in fresh.items():
                present = merged.get(r)
                if present is None or mark[0] < present[0]:
                    if merged is old:
                        merged = dict(old)
                    merged[r] = mark
            changed = changed or merged is not old
            joined.append(merged)
        if not changed:
            return None
        return _State(tuple(joined), known.transfers_begun or new.transfers_begun)
