"""From operands to getters and setters on a batch's register arrays.

A getter is either a value known when the instruction is bound (a constant, or the register's own
array, which later writes change in place) or a callable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flydsl_emu.decode.instruction import EXEC, NULL, SCC, VCC, Operand
from flydsl_emu.numpy_tier.arithmetic import DTYPES
from flydsl_emu.numpy_tier.memory import MemoryAccess
from flydsl_emu.numpy_tier.state import pack_mask, unpack_mask
from flydsl_emu.semantics.value_types import F16, F64, U16, U32, U64, Type

__all__ = ["Fixed", "Getter", "Operands"]

Array = Any


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value that is known when an instruction is bound."""

    value: Any


Getter = Fixed | Callable[[], Any]


def _discard(_value: Array) -> None:
    return None


def called(getter: Getter) -> Callable[[], Any]:
    """Return a getter as a callable."""
    if isinstance(getter, Fixed):
        value = getter.value
        return lambda: value
    return getter


def mapped(getter: Getter, function: Callable[[Any], Any], keep: bool = False) -> Getter:
    """Return the getter of `function` applied; `keep` if its result stays a live view."""
    if isinstance(getter, Fixed) and (keep or not isinstance(getter.value, np.ndarray)):
        return Fixed(function(getter.value))
    get = called(getter)
    return lambda: function(get())


class Operands:
    """Reads and writes of the operands of one batch."""

    def __init__(self, machine: MemoryAccess) -> None:
        self.machine = machine
        self.state = machine.state

    # Reading -------------------------------------------------------------------------------------
    def register(self, operand: Operand, at: int = 0) -> Array:
        """Return the ``uint32`` array of one register of an operand."""
        state = self.state
        if operand.kind == "s" and operand.index == NULL:
            return state.scalar[operand.index]
        if operand.kind == "v":
            return state.vector[operand.index + at]
        if operand.kind == "a":
            return state.accumulation[operand.index + at]
        return state.scalar[operand.index + at]

    def raw(self, operand: Operand, at: int = 0) -> Getter:
        """Return the getter of one dword of an operand."""
        if operand.kind == "s" and operand.index in (251, 252, SCC):
            return self._condition_word(operand.index)
        if not operand.constant:
            return Fixed(self.register(operand, at))
        if operand.kind == "f":
            bits = np.float32(operand.value).view(np.uint32)
            if operand.count == 2:
                wide = int(np.float64(operand.value).view(np.uint64))
                return Fixed(np.uint32(wide >> 32 * at & 0xFFFFFFFF))
            return Fixed(bits)
        value = int(operand.value)
        if operand.kind == "q":
            return Fixed(np.uint32(value >> 32 * at & 0xFFFFFFFF))
        if at:
            return Fixed(np.uint32(0xFFFFFFFF if value < 0 else 0))
        return Fixed(np.uint32(value & 0xFFFFFFFF))

    def _condition_word(self, code: int) -> Getter:
        state = self.state
        if code == SCC:
            return lambda: state.scc.astype(np.uint32)
        at = VCC if code == 251 else EXEC
        low, high = state.scalar[at], state.scalar[at + state.mask_words - 1]
        return lambda: np.equal(np.bitwise_or(low, high), 0).astype(np.uint32)

    def typed(self, operand: Operand, type: Type, half: int = 0) -> Getter:
        """Return the getter of an operand as an element type, without modifiers.

        Args:
            operand: Operand.
            type: Element type.
            half: For 16-bit types, which half of the register.
        """
        if operand.constant:
            return Fixed(self._constant(operand, type, half))
        if type.bits == 64:
            return self._wide(operand, type)
        word = self.raw(operand)
        if type.bits == 32:
            dtype = DTYPES[type.name]
            return word if type is U32 else mapped(word, lambda x: x.view(dtype), True)
        if isinstance(word, Fixed):
            halves = word.value.view(np.uint16)[..., half::2]
            return Fixed(halves.view(DTYPES[type.name]))
        get = word
        return lambda: get().astype(np.uint16).view(DTYPES[type.name])

    def _constant(self, operand: Operand, type: Type, half: int) -> Array:
        machine = self.machine
        value = operand.value
        if operand.kind == "f":
            if type.kind == "f":
                return machine.const(type, float(value)) if not half else machine.const(type, 0.0)
            if type.bits == 64:
                return np.float64(value).view(DTYPES[type.name])
            if type.bits == 16:
                return np.float16(value if not half else 0.0).view(DTYPES[type.name])
            return np.float32(value).view(DTYPES[type.name])
        integer = int(value) >> (16 if half else 0)
        if type.kind != "f":
            if operand.kind == "l" and type.kind == "i" and type.bits == 64:
                integer = (integer ^ 0x80000000) - 0x80000000
            return machine.const(type, integer)
        if type is F64 and operand.kind == "l":
            return np.uint64(integer << 32).view(np.float64)
        unsigned = {F16.name: U16, F64.name: U64}.get(type.name, U32)
        return machine.const(unsigned, integer).view(DTYPES[type.name])

    def _wide(self, operand: Operand, type: Type) -> Getter:
        dtype = DTYPES[type.name]
        low, high = self.raw(operand), self.raw(operand, 1)
        if operand.kind == "s" and operand.index in (251, 252, SCC, 235, 236, 237, 238):
            high = Fixed(np.uint32(0)) if operand.index > 250 else high
        first, second = called(low), called(high)
        shift = np.uint64(32)

        def get() -> Array:
            wide = np.left_shift(second().astype(np.uint64), shift)
            return np.bitwise_or(wide, first()).view(dtype)

        return get

    def mask(self, operand: Operand) -> Getter:
        """Return the getter of scalar registers (or a constant) as a lane mask."""
        if operand.constant:
            return Fixed(self.machine.lanes(self.machine.const(U64, int(operand.value))))
        if operand.index == EXEC:
            state = self.state
            return lambda: state.exec
        words = [self.register(operand, k) for k in range(self.state.mask_words)]
        return lambda: unpack_mask(*words)

    def registers(self, operand: Operand) -> Getter:
        """Return the getter of the dwords of an operand, as a list."""
        if operand.kind == "off":
            return Fixed(None)
        if operand.constant and operand.count > 2:
            # The accumulator of a matrix instruction: the constant counts for every register.
            return Fixed([self._constant(operand, U32, 0)] * operand.count)
        words = [self.raw(operand, k) for k in range(operand.count)]
        if all(isinstance(w, Fixed) for w in words):
            return Fixed([w.value for w in words if isinstance(w, Fixed)])
        gets = [called(w) for w in words]
        return lambda: [g() for g in gets]

    # Writing -------------------------------------------------------------------------------------
    def vector_writer(
        self, operand: Operand, at: int = 0, masked: bool = True
    ) -> Callable[[Array], None]:
        """Return the writer of one vector register; `masked` by EXEC, always by active waves."""
        state = self.state
        target = self.register(operand, at)

        def write(x: Array) -> None:
            if x.dtype != np.uint32:
                x = x.view(np.uint32)
            if state.write_all:
                target[...] = x
            elif masked:
                np.copyto(target, x, where=state.mask)
            elif state.active is None:
                target[...] = x
            else:
                np.copyto(target, x, where=state.active[:, None])

        return write

    def scalar_writer(self, operand: Operand, at: int = 0) -> Callable[[Array], None]:
        """Return the writer of one scalar register."""
        state = self.state
        if operand.index == NULL:
            return _discard
        code = operand.index + at
        target = state.scalar[code]
        follows = code in (EXEC, EXEC + 1)

        def write(x: Array) -> None:
            if x.dtype != np.uint32:
                x = x.view(np.uint32)
            if state.active is None:
                target[...] = x
            else:
                np.copyto(target, x, where=state.active[:, None])
            if follows:
                state.exec_written()

        return write

    def writer(self, operand: Operand, type: Type, masked: bool = True) -> Callable[[Array], None]:
        """Return the writer of a value of `type` (32 or 64 bits wide)."""
        make = self.scalar_writer if operand.kind == "s" else self.vector_writer
        if type.bits == 32:
            if operand.kind == "s":
                return self.scalar_writer(operand)
            return self.vector_writer(operand, 0, masked)
        low, high = make(operand, 0), make(operand, 1)
        shift = np.uint64(32)
        if operand.kind == "s" and operand.index == EXEC:
            return self.exec_writer()

        def write(x: Array) -> None:
            wide = x.view(np.uint64)
            low(wide.astype(np.uint32))
            high(np.right_shift(wide, shift).astype(np.uint32))

        return write

    def exec_writer(self) -> Callable[[Array], None]:
        """Return the writer of EXEC from a uniform ``uint64``, or a ``uint32`` of 32 lanes."""
        state = self.state
        registers = [state.scalar[EXEC], state.scalar[EXEC + 1]]
        shift = np.uint64(32)

        def write(x: Array) -> None:
            words = [x.astype(np.uint32)]
            if x.dtype.itemsize == 8:
                words.append(np.right_shift(x.view(np.uint64), shift).astype(np.uint32))
            for register, word in zip(registers, words, strict=False):
                if state.active is None:
                    register[...] = word
                else:
                    np.copyto(register, word, where=state.active[:, None])
            state.exec_written()

        return write

    def mask_writer(self, operand: Operand) -> Callable[[Array], None]:
        """Return the writer of a lane mask to scalar registers; idle lanes give 0."""
        state = self.state
        writers = [self.scalar_writer(operand, k) for k in range(state.mask_words)]
        spread, ballot = self.machine.spread, self.machine.ballot
        if operand.index == EXEC:
            write_exec = self.exec_writer()
            narrow = np.uint32 if state.mask_words == 1 else np.uint64
            return lambda x: write_exec(ballot(spread(x) & state.exec).astype(narrow))

        def write(x: Array) -> None:
            full = spread(x)
            if not state.full:
                full = np.logical_and(full, state.exec)
            words = pack_mask(full)
            for k, writer in enumerate(writers):
                writer(words[:, k : k + 1])

        return write

    def wave_writer(self, target: Array) -> Callable[[Array], None]:
        """Return the writer of a value of its own for each wave, ``target[wave, 1]``."""
        state = self.state

        def write(x: Array) -> None:
            if state.active is None:
                target[...] = x
            else:
                np.copyto(target, x, where=state.active[:, None])

        return write

    def scc_writer(self) -> Callable[[Array], None]:
        """Return the writer of SCC."""
        state = self.state

        def write(x: Array) -> None:
            if state.active is None:
                state.scc[...] = x
            else:
                np.copyto(state.scc, x, where=state.active[:, None])

        return write
