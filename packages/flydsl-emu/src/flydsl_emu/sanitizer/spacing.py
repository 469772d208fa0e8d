"""Missing wait states between two instructions that the hardware does not keep apart.

Dataflow like that of `waits`, with the larger distance where paths meet: for every kind of use and
register, at which wait state it becomes safe. Every instruction is one wait state, ``s_nop n`` is
n + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from flydsl_emu.decode import Instruction
from flydsl_emu.sanitizer.flow import FlowBlock, fixed_point
from flydsl_emu.sanitizer.registers import Effects
from flydsl_emu.sanitizer.spacing_rules import IMPLIED, SpacingRules, applies, rules_for

__all__ = ["SpacingHazard", "missing_wait_states"]

# Register -> kind of use -> (wait state at which it is safe, index of the producer)
_Ready = dict[int, dict[str, tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class SpacingHazard:
    """Two instructions that are too close.

    Attributes:
        at: Index of the second one.
        source: Index of the first one.
        register: The register that they share.
        kind: The use, see `spacing_rules`.
        missing: Wait states to insert between them.
    """

    at: int
    source: int
    register: int
    kind: str
    missing: int


class _Step(NamedTuple):
    number: int
    states: int
    instruction: Instruction
    effects: Effects
    touched: tuple[int, ...]
    leaves: tuple[tuple[int, str, int], ...]


def missing_wait_states(
    arch: str,
    instructions: Sequence[Instruction],
    registers: Sequence[Effects],
    blocks: Sequence[FlowBlock],
) -> list[SpacingHazard]:
    """Return the pairs of instructions that need more wait states between them."""
    rules = rules_for(arch, instructions)
    if rules is None:
        return []
    steps = [_step(n, i, registers[n], rules) for n, i in enumerate(instructions)]
    starting: _Ready = {}
    states = fixed_point(
        blocks, starting, lambda k, state: _run(steps, blocks[k], state, None, rules), _merge
    )
    found: list[SpacingHazard] = []
    for block, state in zip(blocks, states, strict=True):
        if state is not None:
            _run(steps, block, state, found, rules)
    return found


def _step(n: int, i: Instruction, effects: Effects, rules: SpacingRules) -> _Step:
    if i.format == "SOPP":
        states = i.mods.get("simm16", 0) + 1 if i.name == "s_nop" else 1
        return _Step(n, states, i, effects, (), ())
    touched = effects.uses + effects.defs + IMPLIED
    return _Step(n, 1, i, effects, touched, tuple(rules.leaves(i, effects)))


def _run(
    steps: list[_Step],
    block: FlowBlock,
    state: _Ready,
    found: list[SpacingHazard] | None,
    rules: SpacingRules,
) -> _Ready:
    ready = {r: dict(kinds) for r, kinds in state.items()}
    # Wait state after which nothing in `ready` matters any more.
    horizon = max((t for kinds in ready.values() for t, _ in kinds.values()), default=0)
    now = 0
    for step in steps[block.first : block.last]:
        if ready:
            if now >= horizon:
                ready.clear()
            elif found is not None and not ready.keys().isdisjoint(step.touched):
                _report(steps, step, ready, now, found, rules)
            for r in step.effects.defs:
                ready.pop(r, None)
        for r, kind, wait in step.leaves:
            safe = now + 1 + wait
            kinds = ready.get(r)
            if kinds is None:
                ready[r] = {kind: (safe, step.number)}
            else:
                kinds[kind] = (safe, step.number)
            horizon = max(horizon, safe)
        now += step.states
    return {
        r: left
        for r, kinds in ready.items()
        if (left := {k: (t - now, at) for k, (t, at) in kinds.items() if t > now})
    }


def _report(
    steps: list[_Step],
    step: _Step,
    ready: _Ready,
    now: int,
    found: list[SpacingHazard],
    rules: SpacingRules,
) -> None:
    for kind, r in dict.fromkeys(rules.needs(step.instruction, step.effects)):
        mark = ready[r].get(kind) if r in ready else None
        if mark is None or mark[0] <= now:
            continue
        if applies(kind, steps[mark[1]].instruction, step.instruction):
            found.append(SpacingHazard(step.number, mark[1], r, kind, mark[0] - now))


def _merge(known: _Ready, new: _Ready) -> _Ready | None:
    joined = known
    for r, kinds in new.items():
        for kind, mark in kinds.items():
            present = joined[r].get(kind) if r in joined else None
            if present is None or mark[0] > present[0]:
                if joined is known:
                    joined = {k: dict(v) for k, v in known.items()}
                joined.setdefault(r, {})[kind] = mark
    return None if joined is known else joined
