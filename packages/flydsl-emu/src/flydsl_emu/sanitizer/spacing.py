"""Missing wait states between two instructions that the hardware does not keep apart.

Dataflow like that of `waits`, with the larger distance where paths meet: for every kind of use and
register, at which wait state it becomes safe. Every instruction is one wait state, ``s_nop n`` is
n + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from flydsl_emu.decode import Instruction
from flydsl_emu.sanitizer.flow import FlowBlock, fixed_point
from flydsl_emu.sanitizer.registers import Effects
from flydsl_emu.sanitizer.spacing_rules import applies, rules_for

__all__ = ["SpacingHazard", "missing_wait_states"]

# (kind of use, register) -> (wait state at which it is safe, index of the producer)
_Ready = dict[tuple[str, int], tuple[int, int]]


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


@dataclass(frozen=True, slots=True)
class _Step:
    index: int
    states: int
    instruction: Instruction
    defs: tuple[int, ...] = ()
    needs: tuple[tuple[str, int], ...] = ()
    leaves: tuple[tuple[str, int, int], ...] = ()


def missing_wait_states(
    arch: str,
    instructions: Sequence[Instruction],
    registers: Sequence[Effects],
    blocks: Sequence[FlowBlock],
) -> list[SpacingHazard]:
    """Return the pairs of instructions that need more wait states between them."""
    rules = rules_for(arch)
    if rules is None:
        return []
    steps = [_step(n, i, registers[n], rules) for n, i in enumerate(instructions)]
    starting: _Ready = {}
    states = fixed_point(
        blocks, starting, lambda k, state: _run(steps, blocks[k], state, None), _merge
    )
    found: list[SpacingHazard] = []
    for block, state in zip(blocks, states, strict=True):
        if state is not None:
            _run(steps, block, state, found)
    return found


Rules = Callable[
    [Instruction, Effects], tuple[Iterator[tuple[str, int]], Iterator[tuple[str, int, int]]]
]


def _step(n: int, i: Instruction, effects: Effects, rules: Rules) -> _Step:
    if i.format == "SOPP":
        states = i.mods.get("simm16", 0) + 1 if i.name == "s_nop" else 1
        return _Step(n, states, i)
    needs, leaves = rules(i, effects)
    return _Step(n, 1, i, effects.defs, tuple(dict.fromkeys(needs)), tuple(leaves))


def _run(
    steps: list[_Step], block: FlowBlock, state: _Ready, found: list[SpacingHazard] | None
) -> _Ready:
    ready = dict(state)
    by_register: dict[int, list[tuple[str, int]]] = {}
    for key in ready:
        by_register.setdefault(key[1], []).append(key)
    now = 0
    for step in steps[block.first : block.last]:
        if ready:
            if found is not None:
                for key in step.needs:
                    mark = ready.get(key)
                    if mark is None or mark[0] <= now:
                        continue
                    first, second = steps[mark[1]].instruction, step.instruction
                    if applies(key[0], first, second):
                        missing = mark[0] - now
                        found.append(SpacingHazard(step.index, mark[1], key[1], key[0], missing))
            for r in step.defs:
                for key in by_register.pop(r, ()):
                    ready.pop(key, None)
        for kind, r, wait in step.leaves:
            key = (kind, r)
            if wait > 0:
                ready[key] = (now + 1 + wait, step.index)
                by_register.setdefault(r, []).append(key)
        now += step.states
        if len(ready) > 512:
            ready = {k: m for k, m in ready.items() if m[0] > now}
    return {k: (t - now, at) for k, (t, at) in ready.items() if t > now}


def _merge(known: _Ready, new: _Ready) -> _Ready | None:
    joined = known
    for key, mark in new.items():
        present = joined.get(key)
        if present is None or mark[0] > present[0]:
            if joined is known:
                joined = dict(known)
            joined[key] = mark
    return None if joined is known else joined
