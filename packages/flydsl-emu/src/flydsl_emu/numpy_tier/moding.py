"""Binding under values of the MODE register other than the usual one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from flydsl.errors import TargetError
from flydsl_emu.decode.instruction import M0, Instruction, Operand
from flydsl_emu.execution.faults import KernelFault
from flydsl_emu.numpy_tier.memory import MemoryAccess
from flydsl_emu.numpy_tier.operands import Getter, Operands, mapped
from flydsl_emu.semantics.modes import (
    flushed,
    flushes,
    has_plain_arithmetic,
    rounding,
    takes_rounding,
)
from flydsl_emu.semantics.registry import IMPLICIT, Semantics
from flydsl_emu.semantics.rounded import Rounded
from flydsl_emu.semantics.value_types import F16, F32, F64, TYPES, Type

__all__ = [
    "arithmetic_under",
    "flushed_result",
    "flushing_getter",
    "flushing_writer",
    "indexed_operands",
]

Array = Any
Writer = Callable[[Any], None]
# Instructions that look at the operand as it is.
_NO_FLUSH = ("v_cmp_class", "v_cmpx_class")


def arithmetic_under(
    machine: MemoryAccess, i: Instruction, s: Semantics, mode: int, kernel: str
) -> Any:
    """Return the vector API for an instruction's function under a mode.

    Raises:
        TargetError: The instruction rounds in a way that is only modelled to nearest even.
    """
    if has_plain_arithmetic(mode) or not mode & 15:
        return machine
    takes = takes_rounding(i.name)
    if takes is None:
        raise TargetError(
            f"kernel {kernel!r}: the emulator models `{i.name}` only rounding to nearest even",
            code="FLY-T704",
            value=f"pc {i.pc:#x}: {i}",
        )
    types = [TYPES[t] for t in s.sources if t in TYPES]
    floats = [t for t in types if t.kind == "f"] or [F32]
    narrow = i.name.startswith(("v_cvt_f16", "v_cvt_f32"))
    if not takes or not (narrow or rounding(mode, floats[0])):
        return machine
    return Rounded(machine, mode, floats[0])


def flushing_getter(
    machine: MemoryAccess, get: Getter, type: Type, mode: int, i: Instruction | None
) -> Getter:
    """Return a getter of a source whose denormals are zero if the mode says so."""
    if type not in (F16, F32, F64) or not flushes(mode, type, False):
        return get
    if i is not None and i.name.startswith(_NO_FLUSH):
        return get
    return mapped(get, lambda x: flushed(machine, x, type))


def flushed_result(machine: MemoryAccess, x: Array, type: Type, mode: int) -> Array:
    """Return a result whose denormals are zero if the mode says so."""
    if type not in (F16, F32, F64) or not flushes(mode, type, True):
        return x
    return flushed(machine, x, type)


def flushing_writer(machine: MemoryAccess, write: Writer, type: Type, mode: int) -> Writer:
    """Return a writer of results whose denormals are zero if the mode says so."""
    if not flushes(mode, type, True):
        return write
    return lambda x: write(flushed(machine, x, type))


# Indexed operands --------------------------------------------------------------------------------
def indexed_operands(
    operands: Operands, i: Instruction, s: Semantics, chosen: int, kernel: str
) -> tuple[Callable[[], None], Instruction, Callable[[], None]] | None:
    """Replace the vector registers that index mode moves by spare ones.

    Args:
        operands: Registers.
        i: Instruction.
        s: Its meaning.
        chosen: Bits 15 to 12 of M0: sources 0 to 2 and the result are indexed.
        kernel: Name, for messages.

    Returns:
        What to do before, the instruction on spare registers, and what to do after; None if no
        operand is indexed.

    Raises:
        TargetError: The instruction writes M0, whose upper bits it might change.
    """
    if any(o.kind == "s" and o.index == M0 for o in i.operands[:1]):
        raise TargetError(
            f"kernel {kernel!r}: the emulator does not model writes of M0 in index mode",
            code="FLY-T704",
            value=f"pc {i.pc:#x}: {i}",
        )
    results = len(i.operands) - sum(t not in IMPLICIT for t in s.sources)
    state = operands.state
    spare = state.spare
    loads: list[tuple[Operand, int]] = []
    stores: list[tuple[Operand, int]] = []
    changed = []
    for at, operand in enumerate(i.operands):
        bit = 3 if at < results else at - results
        if operand.kind != "v" or not chosen >> bit & 1:
            changed.append(operand)
            continue
        loads.append((operand, spare))
        if bit == 3:
            stores.append((operand, spare))
        changed.append(replace(operand, index=spare))
        spare += operand.count
    if not loads:
        return None
    rows = np.arange(state.waves)

    def place(operand: Operand) -> Array:
        index = (state.scalar[M0, :, 0] & np.uint32(0xFF)).astype(np.intp) + operand.index
        active = state.live if state.active is None else state.active
        bad = active & (index + operand.count > state.spare)
        if bad.any():
            text = "an indexed vector register beyond those of the kernel"
            raise KernelFault(text, "FLY-U728", int(np.argmax(bad)))
        return np.minimum(index, state.spare - operand.count)

    def before() -> None:
        for operand, target in loads:
            index = place(operand)
            for k in range(operand.count):
                state.vector[target + k] = state.vector[index + k, rows]

    def after() -> None:
        active = np.flatnonzero(state.live if state.active is None else state.active)
        for operand, source in stores:
            index = place(operand)[active]
            for k in range(operand.count):
                state.vector[index + k, active] = state.vector[source + k, active]

    return before, replace(i, operands=tuple(changed)), after
