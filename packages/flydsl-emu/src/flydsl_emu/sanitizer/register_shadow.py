"""Which bits of registers and local memory nothing has written, beside the registers themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from flydsl_emu.codeobject import Kernel
from flydsl_emu.decode import EXEC, M0, SCC, VCC
from flydsl_emu.execution.setup import initialised_scalars
from flydsl_emu.numpy_tier.state import State
from flydsl_emu.sanitizer.registers import AGPR, SCALAR

__all__ = ["RegisterShadow"]

Array = Any

ALL = np.uint32(0xFFFFFFFF)
_SGPRS = 102


class RegisterShadow:
    """Undefined bits of the registers of a batch; registers are numbered as in `registers`.

    Args:
        state: The registers.
        kernel: Tells which ones are set up.

    Attributes:
        dirty: Registers with any undefined bit.
    """

    def __init__(self, state: State, kernel: Kernel) -> None:
        self.state = state
        waves, lanes = state.waves, state.lanes
        self._vector = np.full((len(state.vector), waves, lanes), ALL)
        self._accumulation = np.full((len(state.accumulation), waves, lanes), ALL)
        self._scalar = np.zeros((256, waves, 1), np.uint32)
        known = initialised_scalars(kernel)
        unknown = [c for c in range(_SGPRS) if c not in known]
        for code in (*unknown, VCC, VCC + 1, M0, SCC):
            self._scalar[code] = ALL
        self._vector[0] = 0
        self.dirty = {
            *range(1, len(state.vector)),
            *range(AGPR, AGPR + len(state.accumulation)),
            *(SCALAR + c for c in (*unknown, VCC, VCC + 1, M0, SCC)),
        }

    def bits(self, register: int) -> Array:
        """Return the undefined bits of a register: ``(waves, lanes)`` or ``(waves, 1)``."""
        if register >= SCALAR:
            return self._scalar[register - SCALAR]
        if register >= AGPR:
            return self._accumulation[register - AGPR]
        return self._vector[register]

    def value(self, register: int) -> Array:
        """Return the array that holds a register's value."""
        state = self.state
        if register == SCALAR + SCC:
            return state.scc
        if register >= SCALAR:
            return state.scalar[register - SCALAR]
        if register >= AGPR:
            return state.accumulation[register - AGPR]
        return state.vector[register]

    def current(self) -> Array:
        """Return the waves that execute now."""
        state = self.state
        return state.live if state.active is None else state.active

    def undefined(self, register: int, lanes: Array | None) -> Array:
        """Return the undefined bits of a register in executing lanes; elsewhere 0.

        Args:
            register: The register.
            lanes: Executing lanes, or None for all lanes of the executing waves.
        """
        bits = self.bits(register)
        if register >= SCALAR or lanes is None:
            return np.where(self.current()[:, None], bits, np.uint32(0))
        return np.where(lanes, bits, np.uint32(0))

    def define(self, registers: Iterable[int], lanes: Array | None) -> None:
        """Mark registers as written in executing lanes, or in all lanes of executing waves."""
        for r in registers:
            if r not in self.dirty:
                continue
            bits = self.bits(r)
            where = self.current()[:, None] if r >= SCALAR or lanes is None else lanes
            bits[np.broadcast_to(where, bits.shape)] = 0
            self.settle(r)

    def settle(self, register: int) -> None:
        """Follow a change of a register's bits."""
        if self.bits(register).any():
            self.dirty.add(register)
        else:
            self.dirty.discard(register)

    def ended(self) -> None:
        """Forget the executing waves, which end."""
        waves = self.current()
        self._vector[:, waves] = 0
        self._accumulation[:, waves] = 0
        self._scalar[:, waves] = 0
        for r in tuple(self.dirty):
            self.settle(r)

    def clear_exec(self) -> bool:
        """Return whether EXEC has undefined bits, and mark it as written."""
        found = False
        for r in (SCALAR + EXEC, SCALAR + EXEC + 1):
            if r in self.dirty:
                found = found or bool(self.undefined(r, None).any())
                self.bits(r)[...] = 0
                self.dirty.discard(r)
        return found
