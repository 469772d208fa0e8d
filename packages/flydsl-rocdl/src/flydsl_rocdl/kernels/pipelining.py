"""Loops over tiles whose loads run ahead of their use, for any number of tiles.

`pipelined` runs a body that loads one tile and uses another, both interleaved by hand;
`load_ahead` makes such a body of a function that loads and one that uses. In either, slots of
memory or registers take turns and are compile-time numbers, the loop over the tiles is a run-time
one, and the first loads and last uses are peeled off, so that nothing is loaded that is not used.
Waits for loads into local data share are those of ``fx.rocdl.pipeline``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flydsl.compiler as flyc
from flydsl.errors import ConfigError
from flydsl.expr import max as larger
from flydsl.expr import range_constexpr
from flydsl.expr.numeric import Int32, as_numeric
from flydsl_rocdl.expr.pipelining import pipeline

__all__ = ["MOST_STAGES", "load_ahead", "pipelined"]

MOST_STAGES = 8
Body = Callable[[Any, int, Any, bool], Any]
"""``body(step, slot, state, more)`` returns the new state; `more`: a later tile is to be loaded."""


def _static(steps: Any) -> int | None:
    """Return the number of steps if it is known while tracing."""
    number = as_numeric(steps)
    return int(number) if number is not None and number.is_static() else None


def _check(stages: int) -> None:
    if not 2 <= stages <= MOST_STAGES:
        raise ConfigError("a software pipeline has 2 stages or more", code="FLY-C605",
                          value=stages, allowed=f"2 to {MOST_STAGES}")  # fmt: skip


def pipelined(
    steps: Any,
    body: Body,
    state: Any,
    *,
    stages: int = 2,
    ahead: int | None = None,
    closed: bool = False,
) -> Any:
    """Run ``state = body(step, slot, state, more)`` for every step, slots taking turns.

    The caller has loaded the first `ahead` tiles; a body with `more` loads the tile of step +
    ahead, into the slot before its own.

    Args:
        steps: Number of tiles, compile-time or run-time; 0 or less runs nothing.
        body: The body; `slot` (step modulo `stages`) and `more` are compile-time.
        state: What bodies hand on: numbers, vectors, lists and the like.
        stages: Slots.
        ahead: How many tiles are loaded ahead; default ``stages - 1``.
        closed: Run all full turns in the loop, the last one too: half the code, but a body with
            `more` then has to keep loads of steps that do not exist from reading anything. Only
            for a compile-time number of steps; others are peeled.

    Returns:
        The last state.

    Raises:
        ConfigError: Too few or too many stages, or as many tiles ahead as there are slots.
    """
    _check(stages)
    ahead = stages - 1 if ahead is None else ahead
    if not 1 <= ahead < stages:
        raise ConfigError("tiles are loaded ahead into other slots than the one in use",
                          code="FLY-C605", value=ahead, allowed=f"1 to {stages - 1}")  # fmt: skip
    count = _static(steps)
    if count is None:
        return _run_time(Int32(steps), body, state, stages, ahead)
    main = max(0, count - ahead)
    looped = max(0, count) // stages if closed else main // stages
    if looped:
        state = _groups(looped, body, state, stages)
    for step in range(looped * stages, max(0, count)):
        state = body(step, step % stages, state, step < main)
    return state


@flyc.jit
def _groups(groups: Any, body: Body, state: Any, stages: int) -> Any:
    """Run full turns of all slots."""
    for group in range(groups):
        for slot in range_constexpr(stages):
            state = body(group * stages + slot, slot, state, True)
    return state


@flyc.jit
def _run_time(steps: Any, body: Body, state: Any, stages: int, ahead: int) -> Any:
    """Run a number of steps that is known on the device."""
    main = larger(steps - ahead, 0)
    groups = main // stages
    state = _groups(groups, body, state, stages)
    done, rest = groups * stages, main % stages
    for whole in range_constexpr(stages):
        if rest == whole:
            for slot in range_constexpr(whole):
                state = body(done + slot, slot, state, True)
            for last in range_constexpr(ahead):
                if main + last < steps:
                    state = body(main + last, (whole + last) % stages, state, False)
    return state


def load_ahead(
    steps: Any,
    load: Callable[[Any, int], object],
    use: Callable[[Any, int, Any], Any],
    state: Any = None,
    *,
    stages: int = 2,
    synchronize: bool = True,
) -> Any:
    """Run ``state = use(step, slot, state)`` for every step, loading ``stages - 1`` tiles ahead.

    ``load(step, slot)`` issues the loads of a tile into a slot: loads into local data share, or
    into register tensors of the slot. The pipeline commits after each, and waits for a tile before
    its use.

    Args:
        steps: Number of tiles, compile-time or run-time; 0 or less runs nothing.
        load: Issues the loads of one tile.
        use: Computes with a tile that has arrived; returns the new state.
        state: The first state.
        stages: Slots, 2 to 8.
        synchronize: Slots are in local data share: barriers keep the waves of a workgroup from
            using a tile before all of it is there, and from loading over one that is still read.

    Returns:
        The last state.

    Raises:
        ConfigError: Too few or too many stages.
    """
    _check(stages)
    ahead = stages - 1
    pipe = pipeline(ahead - 1)
    count = _static(steps)

    def begin(step: Any, slot: int) -> None:
        load(step, slot)
        pipe.commit()

    def body(step: Any, slot: int, carried: Any, more: bool) -> Any:
        # Issued after the wait: the slot before this one was last read one step ago.
        pipe.wait(ahead - 1 if more else 0, synchronize=synchronize)
        if more:
            begin(step + ahead, (slot + ahead) % stages)
        return use(step, slot, carried)

    def whole(carried: Any) -> Any:
        for step in range(ahead if count is None else min(ahead, max(0, count))):
            begin(step, step)
        return pipelined(steps, body, carried, stages=stages)

    def alone(step: int, carried: Any) -> Any:
        begin(step, step)
        pipe.wait(0, synchronize=synchronize)
        return use(step, step, carried)

    if count is not None:
        return whole(state)
    return _long_or_short(Int32(steps), whole, alone, state, ahead)


@flyc.jit
def _long_or_short(
    steps: Any,
    whole: Callable[[Any], Any],
    alone: Callable[[int, Any], Any],
    state: Any,
    ahead: int,
) -> Any:
    """Run the pipeline, or fewer tiles than are loaded ahead one by one."""
    if steps >= ahead:
        state = whole(state)
    else:
        for step in range_constexpr(ahead - 1):
            if step < steps:
                state = alone(step, state)
    return state
