"""Values that nothing has written, followed to where they matter.

Undefined bits of registers, LDS and scratch have a shadow. An instruction with undefined input runs
a few times with different bits in their place: result bits that differ are undefined. Loads and
stores of local memory run once more on the shadow. A finding is made where an undefined value
becomes an address, decides a branch or EXEC, or is stored to global memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flydsl_emu.decode import EXEC, SCC, Instruction
from flydsl_emu.numpy_tier.engine import Batch
from flydsl_emu.numpy_tier.state import pack_mask
from flydsl_emu.sanitizer.access_roles import Roles, is_lane_crossing, roles_of
from flydsl_emu.sanitizer.places import Findings
from flydsl_emu.sanitizer.register_shadow import RegisterShadow
from flydsl_emu.sanitizer.registers import AGPR, SCALAR, effects, register_name, registers_of

__all__ = ["UndefinedCheck"]

Array = Any
Step = Callable[[], Any]

_PATTERNS = tuple(np.uint32(x) for x in (0, 0xFFFFFFFF, 0x7E9A3C55, 0xC1B56A92))
_WHOLE = 0xFFFFFFFF
_EXEC = frozenset((SCALAR + EXEC, SCALAR + EXEC + 1))
_SCC = SCALAR + SCC
_ENDS = ("s_endpgm", "s_endpgm_saved")


class _OnShadowError(Exception):
    """Stops a load that reads undefined bytes, before it has changed anything."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is known of an instruction beforehand."""

    instruction: Instruction
    uses: tuple[int, ...]
    defs: tuple[int, ...]
    registers: frozenset[int]
    crossing: bool
    unmasked: bool
    compares: bool
    roles: Roles | None


class UndefinedCheck:
    """Watches registers and local memory of one batch.

    Args:
        batch: The batch, with its registers set up.
        findings: Where findings go.
    """

    def __init__(self, batch: Batch, findings: Findings) -> None:
        self.findings = findings
        self._state = batch.state
        self._machine = batch.machine
        self._lanes = batch.state.lanes
        self.shadow = RegisterShadow(batch.state, batch.program.kernel)
        self._memory = {
            name: np.full(len(local.data), 0xFF, np.uint8)
            for name, local in batch.machine.local.items()
        }
        self._indexed = frozenset(_indexed(batch.program.instructions))
        self._replaying = False
        self._stored: tuple[_Plan, list[Array]] | None = None
        self._position = 0
        self._touched: Array = None

    # Instructions --------------------------------------------------------------------------------
    def wrap(self, i: Instruction, step: Step) -> Step:
        """Return `step` with its effect on the shadow."""
        if i.name in _ENDS:
            return self._ending(step)
        e = effects(i, self._lanes)
        if not e.uses and not e.defs:
            return step
        name = i.name
        plan = _Plan(
            i,
            e.uses,
            e.defs,
            frozenset((*e.uses, *e.defs)),
            is_lane_crossing(i),
            name.startswith(("v_mfma", "v_smfmac", "v_writelane", "v_wmma", "v_swmmac")),
            name.startswith(("v_cmp", "s_cmp")),
            roles_of(i, e),
        )
        dirty = self.shadow.dirty
        if i.pc in self._indexed:
            return self._anywhere(plan, step)
        run = self._memory_step if plan.roles is not None else self._plain_step
        if name.startswith("s_cbranch"):
            run = self._branch
        registers = plan.registers
        watched = plan.roles is not None and plan.roles.kind != "scalar"

        def checked() -> Any:
            if dirty.isdisjoint(registers) and not watched:
                return step()
            return run(plan, step)

        return checked

    def _anywhere(self, plan: _Plan, step: Step) -> Step:
        """Return a step that counts all registers from its result on as written.

        Which one is written is in a register, and a value that is written must not count as
        undefined.
        """
        lowest = min((r for r in plan.defs if r < AGPR), default=AGPR)

        def run() -> Any:
            result = step()
            above = [r for r in self.shadow.dirty if lowest <= r < AGPR]
            self.shadow.define([*plan.defs, *above], self._state.mask)
            return result

        return run

    def _ending(self, step: Step) -> Step:
        def run() -> Any:
            if not self.shadow.current().all():
                self.shadow.ended()
            return step()

        return run

    def _scope(self, plan: _Plan) -> Array | None:
        """Return the lanes whose contents count: the executing ones unless lanes mix."""
        return None if plan.crossing or plan.unmasked else self._state.mask

    def _dirty(self, registers: Sequence[int], lanes: Array | None) -> list[int]:
        shadow = self.shadow
        return [r for r in registers if r in shadow.dirty and shadow.undefined(r, lanes).any()]

    def _plain_step(self, plan: _Plan, step: Step) -> Any:
        lanes = self._scope(plan)
        if self._dirty(plan.uses, lanes):
            return self._perturbed(plan, step)
        where = None if plan.unmasked else self._state.mask
        scalar = all(r >= SCALAR for r in plan.defs)
        where = where if scalar or where is None else where.copy()
        result = step()
        if plan.crossing and not plan.unmasked and not scalar:
            # DPP leaves lanes alone that its controls rule out.
            where = where if plan.instruction.encoding != "dpp" else self._state.mask
        self.shadow.define(plan.defs, where)
        return result

    def _branch(self, plan: _Plan, step: Step) -> Any:
        shadow = self.shadow
        used = self._dirty(plan.uses, None)
        if used and not self._decided(plan):
            self._report(plan, used, None, "decides a branch by")
        shadow.define(plan.uses, None)
        return step()

    def _decided(self, plan: _Plan) -> bool:
        """Whether defined bits of a mask already make it nonzero."""
        if _SCC in plan.uses:
            return False
        known = np.zeros(self._state.waves, np.bool_)
        for r in plan.uses:
            value = self.shadow.value(r) & ~self.shadow.bits(r)
            known |= value[:, 0] != 0
        return bool(known[self.shadow.current()].all())

    # Running with other bits ---------------------------------------------------------------------
    def _perturbed(self, plan: _Plan, step: Step) -> Any:
        """Run an instruction with different bits for the undefined ones, then as it is."""
        shadow, registers = self.shadow, sorted(plan.registers)
        saved = {r: shadow.value(r).copy() for r in registers}
        undefined = {r: shadow.bits(r).copy() for r in registers if r in shadow.dirty}
        before = self._undefined_lanes(plan) if plan.compares else None
        outcomes: list[dict[int, Array]] = []
        for pattern in _PATTERNS:
            for r, bits in undefined.items():
                self._put(r, saved[r], bits, pattern)
            step()
            outcomes.append({r: shadow.value(r).copy() for r in plan.defs})
            self._restore(saved)
        result = step()
        for r in plan.defs:
            first = outcomes[0][r]
            bits = shadow.bits(r)
            bits[...] = 0
            for other in outcomes[1:]:
                differ = first ^ other[r]
                bits |= np.where(differ, _PATTERNS[1], np.uint32(0)) if r == _SCC else differ
            shadow.settle(r)
        if before is not None:
            self._mark_compared(plan, before)
        if not _EXEC.isdisjoint(plan.defs) and shadow.clear_exec():
            used = [r for r in plan.uses if r in undefined]
            self._report(plan, used, None, "switches lanes by")
        return result

    def _put(self, r: int, saved: Array, bits: Array, pattern: Array) -> None:
        target = self.shadow.value(r)
        if r == _SCC:
            target[...] = np.where(bits != 0, pattern & np.uint32(1), saved) != 0
        else:
            target[...] = (saved & ~bits) | (pattern & bits)

    def _restore(self, saved: dict[int, Array]) -> None:
        for r, value in saved.items():
            self.shadow.value(r)[...] = value
        if not _EXEC.isdisjoint(saved):
            self._state.exec_written()

    def _undefined_lanes(self, plan: _Plan) -> Array:
        """Return the lanes in which a comparison has an undefined operand."""
        keep: dict[int, int] = {}
        if plan.instruction.name.endswith("16"):
            for o in plan.instruction.operands:
                kept = 0xFFFF0000 if o.half == 2 else 0xFFFF
                for r in registers_of(o):
                    keep[r] = keep.get(r, 0) | kept
        total = np.zeros((self._state.waves, 1), np.bool_)
        for r in plan.uses:
            if r in self.shadow.dirty:
                total = total | (
                    (self.shadow.undefined(r, self._state.mask) & np.uint32(keep.get(r, _WHOLE)))
                    != 0
                )
        return total

    def _mark_compared(self, plan: _Plan, lanes: Array) -> None:
        shadow = self.shadow
        words = None
        if lanes.shape[1] > 1:
            words = pack_mask(np.logical_and(lanes, self._state.exec))
        elif plan.defs != (_SCC,):
            every = np.broadcast_to(lanes, (self._state.waves, self._lanes))
            words = pack_mask(np.logical_and(every, self._state.exec))
        current = self.shadow.current()[:, None]
        place = 0
        for r in plan.defs:
            bits = shadow.bits(r)
            if r == _SCC:
                bits |= np.where(lanes & current, _PATTERNS[1], np.uint32(0))
            elif words is not None:
                column = place % words.shape[1]
                bits |= np.where(current, words[:, column : column + 1], np.uint32(0))
                place += 1
            shadow.settle(r)

    # Memory --------------------------------------------------------------------------------------
    def _memory_step(self, plan: _Plan, step: Step) -> Any:
        roles = plan.roles
        if roles is None:
            return step()
        lanes = self._state.mask
        bad = self._dirty(roles.address, lanes)
        if bad and lanes.any():
            self._report(plan, bad, lanes, "forms an address from")
            self.shadow.define(roles.address, lanes)
        if roles.kind == "scalar":
            result = step()
            self.shadow.define(plan.defs, None)
            return result
        if roles.kind == "load":
            return self._load(plan, step)
        return self._store(plan, roles, step)

    def _load(self, plan: _Plan, step: Step) -> Any:
        lanes = self._state.mask
        try:
            result = step()
        except _OnShadowError:
            return self._load_undefined(plan, step)
        if plan.defs and not ("_d16" in plan.instruction.name and self._dirty(plan.defs, lanes)):
            self.shadow.define(plan.defs, lanes)
        elif plan.defs:
            keep = np.uint32(0xFFFF if "_hi" in plan.instruction.name else 0xFFFF0000)
            for r in plan.defs:
                bits = self.shadow.bits(r)
                bits[...] = np.where(lanes, bits & keep, bits)
                self.shadow.settle(r)
        return result

    def _load_undefined(self, plan: _Plan, step: Step) -> Any:
        """Run a load once on the shadow of local memory, then as it is."""
        shadow, lanes = self.shadow, self._state.mask
        saved = {r: shadow.value(r).copy() for r in plan.registers}
        for r in plan.defs:
            if r not in plan.roles.address if plan.roles else True:
                shadow.value(r)[...] = shadow.bits(r)
        with self._on_shadow(True):
            step()
        undefined = {r: shadow.value(r).copy() for r in plan.defs}
        for r, value in saved.items():
            shadow.value(r)[...] = value
        with self._on_shadow(False):
            result = step()
        for r, value in undefined.items():
            bits = shadow.bits(r)
            bits[...] = np.where(lanes, value, bits)
            shadow.settle(r)
        return result

    def _on_shadow(self, swap: bool) -> _Replay:
        return _Replay(self, swap)

    def _store(self, plan: _Plan, roles: Roles, step: Step) -> Any:
        lanes = self._state.mask
        bad = self._dirty(roles.data, lanes)
        if not bad:
            self._touched = None
            result = step()
            if plan.defs:
                self.shadow.define(plan.defs, lanes)
                self._taint(plan)
            return result
        self._stored = (plan, [self.shadow.undefined(r, lanes) for r in roles.data])
        self._position = 0
        self._touched = None
        saved = {r: self.shadow.value(r).copy() for r in roles.data}
        bits = {r: self.shadow.bits(r).copy() for r in roles.data}
        try:
            result = step()
        finally:
            self._stored = None
        if plan.defs:
            self.shadow.define(plan.defs, lanes)
            self._taint(plan)
        local = plan.instruction.name.startswith(("ds_", "scratch_"))
        if roles.kind == "store" and local and set(roles.data).isdisjoint(roles.address):
            for r in roles.data:
                self.shadow.value(r)[...] = bits[r]
            with self._on_shadow(True):
                step()
            for r, value in saved.items():
                self.shadow.value(r)[...] = value
        return result

    def _taint(self, plan: _Plan) -> None:
        """Mark the old values of an atomic on undefined local memory."""
        if self._touched is None:
            return
        lanes = self._touched.reshape(self._state.waves, self._lanes)
        for r in plan.defs:
            self.shadow.bits(r)[lanes] = _PATTERNS[1]
            self.shadow.settle(r)

    # Accesses ------------------------------------------------------------------------------------
    def read(self, space: str, offsets: Array, total: int, lanes: Array | None) -> None:  # noqa: ARG002
        """See a load."""
        if self._replaying or space not in self._memory or not len(offsets):
            return
        memory = self._memory[space]
        if any(memory[offsets + k].any() for k in range(total)):
            raise _OnShadowError

    def write(
        self, space: str, offsets: Array, size: int, values: Sequence[Array], lanes: Array | None
    ) -> None:
        """See a store."""
        if self._replaying or not len(offsets):
            return
        if space in self._memory:
            memory = self._memory[space]
            for k in range(size * len(values)):
                memory[offsets + k] = 0
        elif self._stored is not None:
            plan, undefined = self._stored
            for k in range(len(values)):
                self._check_stored(plan, undefined[self._position + k], size, lanes)
            self._position = (self._position + len(values)) % len(undefined)

    def _check_stored(self, plan: _Plan, bits: Array, size: int, lanes: Array | None) -> None:
        flat = bits.reshape(-1)
        flat = flat if lanes is None else flat[lanes]
        shift = plan.roles.shift if plan.roles is not None else 0
        keep = np.uint32(0xFFFFFFFF if size >= 4 else (1 << 8 * size) - 1)
        bad = (np.right_shift(flat, np.uint32(shift)) & keep) != 0
        if bad.any():
            n = int(np.argmax(bad))
            at = n if lanes is None else int(lanes[n])
            registers = plan.roles.data if plan.roles is not None else ()
            names = ", ".join(register_name(r) for r in self._dirty(registers, None))
            self._make(plan, f"stores {names}, which nothing has written", at)

    def update(self, space: str, offsets: Array, size: int, lanes: Array | None) -> None:
        """See an atomic access."""
        if not len(offsets):
            return
        if self._stored is not None and space == "global":
            for bits in self._stored[1]:
                self._check_stored(self._stored[0], bits, 4, lanes)
        if space not in self._memory:
            return
        memory = self._memory[space]
        undefined = np.zeros(len(offsets), np.bool_)
        for k in range(size):
            undefined |= memory[offsets + k] != 0
        if undefined.any():
            flat = np.zeros(self._state.waves * self._lanes, np.bool_)
            flat[np.arange(len(flat)) if lanes is None else lanes] = undefined
            self._touched = flat

    # Reporting -----------------------------------------------------------------------------------
    def _report(
        self, plan: _Plan, registers: Sequence[int], lanes: Array | None, verb: str
    ) -> None:
        wave, lane = 0, -1
        for r in registers:
            bits = self.shadow.undefined(r, lanes)
            if bits.any():
                wave, lane = (int(x[0]) for x in np.nonzero(bits))
                lane = lane if bits.shape[1] > 1 else -1
                break
        names = ", ".join(register_name(r) for r in registers)
        text = f"{verb} {names}, which nothing has written"
        self._make(plan, text, wave * self._lanes + max(lane, 0), lane)

    def _make(self, plan: _Plan, text: str, flat: int, lane: int | None = None) -> None:
        spot = (
            plan.instruction,
            flat // self._lanes,
            flat % self._lanes if lane is None else lane,
        )
        hint = "write the value on every path that leads here"
        self.findings.report("FLY-U734", text, spot, None, hint)


def _indexed(instructions: Sequence[Instruction]) -> Iterator[int]:
    """Yield the addresses of instructions whose registers are relative to an index."""
    on = False
    for i in instructions:
        if i.name.startswith("s_set_gpr_idx"):
            on = i.name != "s_set_gpr_idx_off"
        elif i.name.startswith("v_movrel") or (on and i.name.startswith("v_")):
            yield i.pc


class _Replay:
    """Runs a block in which this check sees no accesses.

    With `swap` the block runs on the shadow of local memory, and no other check sees it either.
    """

    def __init__(self, check: UndefinedCheck, swap: bool) -> None:
        self._check = check
        self._swap = swap

    def __enter__(self) -> None:
        check = self._check
        check._replaying = True
        machine = check._machine
        self._kept = (machine.observe, machine.watch)
        machine.observe = None
        if self._swap:
            machine.watch = None
            self._exchange()

    def __exit__(self, *_exception: object) -> None:
        check = self._check
        if self._swap:
            self._exchange()
        check._machine.observe, check._machine.watch = self._kept
        check._replaying = False

    def _exchange(self) -> None:
        for name, local in self._check._machine.local.items():
            local.data, self._check._memory[name] = self._check._memory[name], local.data
