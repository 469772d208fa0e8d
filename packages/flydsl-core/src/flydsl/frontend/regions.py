"""Tracing Python functions into the regions of ``scf.if``, ``scf.for`` and ``scf.while``.

A body is traced into a block of a detached operation first, because which variables it changes, and
to what types, is known only afterwards; then the real operation is created with the right result
types and takes over the block.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flydsl.errors import CompilerBug
from flydsl.expr.ambient import IRValue, Session
from flydsl.frontend.carry import Spec, flatten, join, rebuild
from flydsl.frontend.missing import ABSENT, Missing, Unset
from flydsl.frontend.mutation import CellSlot, Image, Slot, Snapshot

__all__ = ["Carried", "Scratch", "region_if", "region_loop", "variable_slots"]

_MAX_TRIES = 8


def variable_slots(
    functions: Iterable[types.FunctionType], names: Sequence[str]
) -> dict[str, CellSlot]:
    """Return the places of the variables `names` that the region functions share."""
    cells: dict[str, types.CellType] = {}
    for function in functions:
        cells.update(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    return {name: CellSlot(name, cells[name]) for name in names if name in cells}


class Scratch:
    """Blocks of a detached operation to trace into; what is not moved goes with it.

    Every statement has an operation of its own: Python's handles of what is in a block keep the
    operation alive, also where the block has moved, so that one for several statements would
    outlive blocks that use its values.

    Attributes:
        here: Location of the statement.
    """

    __slots__ = ("_blocks", "_holder", "_session", "here")

    def __init__(self, session: Session) -> None:
        self._session = session
        self.here = session.locations.here()
        self._holder = session.create("scf.execute_region", (), (), None, None, 1, self.here, False)
        self._blocks = self._holder.regions[0].blocks

    def block(self, argument_types: Sequence[Any] = ()) -> Any:
        """Return a new block."""
        locations = [self.here] * len(argument_types)
        return self._blocks.append(*argument_types, arg_locs=locations)

    def tracing(self, block: Any) -> _Inside:
        """Return a context in which operations go into `block`, inside a dynamic region."""
        return _Inside(self._session, block)


class _Inside:
    """The context of `Scratch.tracing`; a class, because entering a generator costs more."""

    __slots__ = ("_point", "_session")

    def __init__(self, session: Session, block: Any) -> None:
        self._session = session
        self._point = session.ir.InsertionPoint(block)

    def __enter__(self) -> None:
        self._point.__enter__()
        self._session.depth += 1

    def __exit__(self, *error: object) -> None:
        self._session.depth -= 1
        self._point.__exit__(*error)


@dataclass(slots=True)
class Carried:
    """The places that a loop carries, their specs and the values on entry."""

    slots: list[Slot] = field(default_factory=list)
    specs: list[Spec] = field(default_factory=list)
    entry: list[Any] = field(default_factory=list)

    def add(self, slot: Slot, value: Any) -> None:
        """Carry `slot`, which holds `value` on entry."""
        self.slots.append(slot)
        self.entry.append(value)
        self.specs.append(join(slot.name, value, value, True))

    def keys(self) -> set[tuple[int, object]]:
        """Return the identities of the places."""
        return {slot.key() for slot in self.slots}

    def operands(self, values: Sequence[Any]) -> list[IRValue]:
        """Return the IR values of the Python values `values`, one per place."""
        out: list[IRValue] = []
        for slot, spec, value in zip(self.slots, self.specs, values, strict=True):
            out.extend(flatten(slot.name, spec, value))
        return out

    def assign(self, values: Sequence[IRValue]) -> None:
        """Store region arguments or results in the places."""
        iterator = iter(values)
        for slot, spec in zip(self.slots, self.specs, strict=True):
            slot.set(rebuild(spec, iterator))

    def current(self) -> list[Any]:
        """Return what the places hold."""
        return [slot.get() for slot in self.slots]

    def widen(self, results: Sequence[Any]) -> bool:
        """Join the specs with an iteration's results; return whether one changed."""
        changed = False
        for index, (slot, result) in enumerate(zip(self.slots, results, strict=True)):
            gone = Missing(slot.name, "it was deleted in the loop", "do not delete it")
            after = gone if result is ABSENT else result
            spec = join(slot.name, self.entry[index], after, True)
            if not spec.same(self.specs[index]):
                self.specs[index] = spec
                changed = True
        return changed


def region_if(
    session: Session,
    condition: IRValue,
    arms: Sequence[Callable[[], object]],
    functions: Sequence[types.FunctionType],
    names: Sequence[str],
    carried: Sequence[str],
) -> None:
    """Trace both arms of an ``if`` on a run-time condition and merge what they changed.

    Args:
        session: The trace.
        condition: The ``i1`` condition.
        arms: The arm for true, and the one for false if there is one.
        functions: The functions behind the arms, whose variables are shared.
        names: Variables that an arm assigns.
        carried: Those of them that may be read later.
    """
    slots = variable_slots(functions, names)
    snapshot = Snapshot(functions)
    # Every variable with its key and value before.
    variables = [(slot, slot.key(), slot.get()) for slot in slots.values()]
    places: dict[tuple[int, object], tuple[Slot, Any]] = {
        key: (slot, old) for slot, key, old in variables if slot.name in carried
    }
    scratch = Scratch(session)
    blocks = [scratch.block(), scratch.block()]
    outcomes: list[dict[tuple[int, object], Any]] = []
    images: list[Image] = []
    for index in (0, 1):
        outcome: dict[tuple[int, object], Any] = {}
        if index < len(arms):
            try:
                with scratch.tracing(blocks[index]):
                    arms[index]()
                for slot, old, new in snapshot.changes():
                    places.setdefault(slot.key(), (slot, old))
                    outcome[slot.key()] = new
                for slot, key, _ in variables:
                    outcome[key] = slot.get()
            finally:
                images.append(snapshot.image())
                snapshot.restore()
                for slot, _, old in variables:
                    slot.set(old)
        outcomes.append(outcome)
    if len(images) < 2:
        images.append(snapshot.image())
    merged: list[tuple[Slot, Spec, Any, Any]] = []
    for key, (slot, old) in places.items():
        yes, no = outcomes[0].get(key, old), outcomes[1].get(key, old)
        if yes is old and no is old:
            continue
        if yes is ABSENT or no is ABSENT or isinstance(yes, Missing) or isinstance(no, Missing):
            slot.set(_half_assigned(slot.name))
            continue
        # A container that one arm replaces may be changed by the other.
        yes, no = images[0].seen(yes), images[1].seen(no)
        merged.append((slot, join(slot.name, yes, no), yes, no))
    _create_if(session, condition, scratch, blocks, merged)
    for name, slot in slots.items():
        if name not in carried:
            slot.set(_half_assigned(name))


def _half_assigned(name: str) -> Missing:
    return Missing(
        name,
        "it is assigned in only one arm of a dynamic `if`, or only in a dynamic region",
        "assign it before the region, or in every arm",
    )


def _create_if(
    session: Session,
    condition: IRValue,
    scratch: Scratch,
    blocks: Sequence[Any],
    merged: Sequence[tuple[Slot, Spec, Any, Any]],
) -> None:
    here = scratch.here
    yielded: list[list[IRValue]] = []
    for block, side in zip(blocks, (2, 3), strict=True):
        with scratch.tracing(block):
            values: list[IRValue] = []
            for entry in merged:
                values.extend(flatten(entry[0].name, entry[1], entry[side]))
            session.create("scf.yield", (), values, None, None, 0, here)
        yielded.append(values)
    kinds = [value.type for value in yielded[0]]
    operation = session.create("scf.if", kinds, (condition,), None, None, 2, here)
    regions = operation.regions
    blocks[0].append_to(regions[0])
    if kinds or len(blocks[1].operations) > 1:
        blocks[1].append_to(regions[1])
    results = iter(list(operation.results))
    for slot, spec, _, _ in merged:
        slot.set(rebuild(spec, results))


def region_loop(
    session: Session,
    functions: Sequence[types.FunctionType],
    names: Sequence[str],
    carried: Sequence[str],
    attempt: Callable[[Carried, Scratch], Callable[[], Any] | None],
    extra: Sequence[tuple[Slot, Any]] = (),
) -> None:
    """Trace a loop, finding out which places it has to carry.

    Args:
        session: The trace.
        functions: The functions of the loop, whose variables are shared.
        names: Variables that the loop assigns.
        carried: Those of them that are read by a later iteration or after the loop.
        attempt: Traces the body into scratch blocks for a given set of carried places and calls
            `Carried.widen`; returns None if the types changed (it is then called again), else a
            function that creates the loop operation.
        extra: More places to carry, with their entry values.
    """
    slots = variable_slots(functions, names)
    snapshot = Snapshot(functions)
    before = {name: slot.get() for name, slot in slots.items()}
    state = Carried()
    for slot, value in extra:
        state.add(slot, value)
    for name in carried:
        if name in slots and before[name] is not ABSENT and not isinstance(before[name], Missing):
            state.add(slots[name], before[name])
    mark = None if session.kernel is None else session.kernel.mark()
    for _ in range(_MAX_TRIES):
        if session.kernel is not None:
            session.kernel.rewind(mark or ())
        scratch = Scratch(session)
        try:
            finished = attempt(state, scratch)
            escaped = snapshot.changes()
            if escaped:
                known = state.keys() | {slot.key() for slot in slots.values()}
                escaped = [item for item in escaped if item[0].key() not in known]
        finally:
            snapshot.restore()
            for name, slot in slots.items():
                slot.set(before[name])
        for slot, old, _ in escaped:
            state.add(slot, old)
        if finished is not None and not escaped:
            state.assign(list(finished().results))
            _unbind(slots, state, carried)
            return
    raise CompilerBug("the types of a loop's variables do not settle", code="FLY-B202")


def _unbind(slots: dict[str, CellSlot], state: Carried, carried: Sequence[str]) -> None:
    keys: set[tuple[int, object]] | None = None
    for name, slot in slots.items():
        value = slot.get()
        if name in carried and value is not ABSENT and not isinstance(value, (Unset, Missing)):
            continue
        if keys is None:
            keys = state.keys()
        if slot.key() not in keys and not (name in carried and isinstance(slot.get(), Unset)):
            slot.set(
                Missing(
                    name,
                    "it is assigned only in a dynamic loop, which may run zero times",
                    "assign it before the loop",
                )
            )
