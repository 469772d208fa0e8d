"""Repeating on the JIT tier what an instruction bench did on the numpy tier.

A `Recorder` notes, for every instruction that benches execute, the contents of registers and memory
before and after; `Recorder.differences` compiles all of them and compares, bit for bit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flydsl_emu.decode.instruction import EXEC, SCC, Instruction
from flydsl_emu.execution.faults import KernelFault
from flydsl_emu.jit_tier.bench import InstructionCode, LocalSizes
from flydsl_emu.jit_tier.context import WaveLayout
from flydsl_emu.jit_tier.faulting import fault_of
from flydsl_emu.jit_tier.library import Library
from flydsl_emu.jit_tier.memory import ROUTINE
from flydsl_emu.jit_tier.outlining import routine_messages
from flydsl_emu.numpy_tier.state import pack_mask
from flydsl_emu.semantics.catalogue import find
from flydsl_emu.semantics.modes import DEFAULT_MODE, is_usual
from flydsl_emu.testing import InstructionBench

__all__ = ["Recorder"]

Array = Any

_VECTORS = 256
_PER_MODULE = 150
_LOAD = re.compile(r"_(load|read)")
_FLOATS = re.compile(r"bf16|f16|f32|f64")


@dataclass(slots=True)
class _Case:
    """One execution.

    Attributes:
        arch, lanes, instruction, mode: What was executed.
        before, after: Registers and memory; `after` is None when it ended with a fault.
        fault: Code of that fault.
        result: Condition of a branch or address of a jump, per wave.
        bench: The bench, whose memory it used.
    """

    arch: str
    lanes: int
    instruction: Instruction
    mode: int
    before: dict[str, Array]
    bench: InstructionBench
    after: dict[str, Array] | None = None
    fault: str = ""
    result: Array = field(default=None)

    @property
    def full(self) -> bool:
        """Whether all lanes of all waves executed."""
        words = self.before["scalar"][EXEC : EXEC + self.lanes // 32]
        return bool((words == 0xFFFFFFFF).all())


class Recorder:
    """Executions of instruction benches."""

    def __init__(self) -> None:
        self.cases: list[_Case] = []

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what benches execute inside the block."""
        execute = InstructionBench.execute

        def recorded(
            bench: InstructionBench, instruction: Instruction, mode: int = DEFAULT_MODE
        ) -> Any:
            s = find(instruction.name)
            moded = s is not None and bool({"hwmode", "place"} & {*s.sources, *s.results})
            if bench.state.active is not None or moded or not is_usual(mode):
                # Waves that stand elsewhere, and float modes, are the numpy tier's alone.
                return execute(bench, instruction, mode)
            case = _Case(bench.arch, bench.lane_count, instruction, mode, _contents(bench), bench)
            try:
                result = execute(bench, instruction, mode)
            except KernelFault as fault:
                case.fault = fault.code
                self.cases.append(case)
                raise
            case.after = _contents(bench)
            if result is not None and not isinstance(result, tuple):
                case.result = np.array(np.broadcast_to(result, (bench.waves, 1)))[:, 0]
            self.cases.append(case)
            return result

        setattr(InstructionBench, "execute", recorded)  # noqa: B010
        try:
            yield
        finally:
            setattr(InstructionBench, "execute", execute)  # noqa: B010

    # Comparison ----------------------------------------------------------------------------------
    def differences(self, library: Library, forms: int) -> list[str]:
        """Compile and run the cases; return a line for each that differs.

        Args:
            library: Support routines.
            forms: How many forms (operands, modifiers, architectures) of each mnemonic and wave
                size to take.
        """
        groups: dict[tuple[str, int], dict[str, list[_Case]]] = {}
        taken: dict[tuple[int, str], set[str]] = {}
        for case in self.cases:
            key = repr((case.instruction, case.mode))
            chosen = taken.setdefault((case.lanes, case.instruction.name), set())
            form = f"{case.arch} {key}"
            if form not in chosen and len(chosen) >= forms:
                continue
            chosen.add(form)
            groups.setdefault((case.arch, case.lanes), {}).setdefault(key, []).append(case)
        out: list[str] = []
        for (arch, lanes), cases in groups.items():
            layout = WaveLayout(lanes, _VECTORS, _VECTORS)
            out += _compared(arch, layout, library, list(cases.values()), False)
            # Loads go to their registers in another way where all lanes execute.
            every = [[case for case in same if case.full] for same in cases.values()]
            loads = [same for same in every if same and _LOAD.search(same[0].instruction.name)]
            out += _compared(arch, layout, library, loads, True)
        return out


def _compared(
    arch: str, layout: WaveLayout, library: Library, cases: list[list[_Case]], full: bool
) -> list[str]:
    """Compile the instructions of some cases, by instruction, and compare."""
    out: list[str] = []
    for first in range(0, len(cases), _PER_MODULE):
        some = cases[first : first + _PER_MODULE]
        instructions = [same[0].instruction for same in some]
        modes = [same[0].mode for same in some]
        code = InstructionCode(instructions, arch, layout, library, modes, full)
        for n, same in enumerate(some):
            for case in same:
                out += _compare(code, n, case)
    return out


def _sparse(file: Array) -> Array:
    used = np.flatnonzero(file.any(axis=(1, 2)))
    return used, file[used].copy()


def _contents(bench: InstructionBench) -> dict[str, Array]:
    state = bench.state
    scalar = state.scalar[:, :, 0].copy()
    for k, word in enumerate(pack_mask(state.exec).T):
        scalar[EXEC + k] = word
    return {
        "vector": _sparse(state.vector),
        "accumulation": _sparse(state.accumulation),
        "scalar": scalar,
        "scc": state.scc[:, 0].copy(),
        "lds": bench.lds.copy(),
        "scratch": bench.scratch.copy(),
        "memory": [x.copy() for x in bench.memory],
    }


def _registers(contents: dict[str, Array], layout: WaveLayout, wave: int) -> Array:
    """Return the bytes of a wave."""
    out = np.zeros(layout.size, np.uint8)
    words = out[: layout.scalars].view(np.uint32).reshape(-1, layout.lanes)
    for name, base in (("vector", 0), ("accumulation", layout.vectors)):
        used, values = contents[name]
        words[base + used] = values[:, wave]
    scalars = out[layout.scalars : layout.resume].view(np.uint32)
    scalars[:] = contents["scalar"][:, wave]
    scalars[SCC] = contents["scc"][wave]
    return out


def _compare(code: InstructionCode, n: int, case: _Case) -> list[str]:
    bench = case.bench
    for array, before in zip(bench.memory, case.before["memory"], strict=True):
        np.copyto(array, before)
    lds, scratch = case.before["lds"].copy(), case.before["scratch"].copy()
    sizes = LocalSizes(lds.shape[1], scratch.shape[2])
    found: list[str] = []
    faults: list[str] = []
    for wave in range(bench.waves):
        start = _registers(case.before, code.layout, wave)
        context, end = code.run(
            n,
            start,
            bench.machine.allocations,
            lds[wave],
            scratch[wave].reshape(-1),
            sizes,
        )
        if context.fault:
            messages = code.messages
            if context.fault >= ROUTINE:
                messages = routine_messages(case.instruction, case.arch, case.lanes)
            fault = fault_of(context, bench.machine.allocations, messages)
            faults.append(fault.code)
        if case.after is None:
            continue
        want = _registers(case.after, code.layout, wave)
        found += _differing(case, code.layout, wave, end, want)
        if case.result is not None and int(case.result[wave]) != int(context.jump):
            found.append(f"{_title(case)}: result of wave {wave}")
    if case.after is None:
        if case.fault not in faults:
            found.append(f"{_title(case)}: {case.fault} expected, {faults} found")
        return found
    if faults:
        found.append(f"{_title(case)}: unexpected {faults}")
    for name, now in (("lds", lds), ("scratch", scratch)):
        if not np.array_equal(now, case.after[name]):
            found.append(f"{_title(case)}: {name}")
    for array, after in zip(bench.memory, case.after["memory"], strict=True):
        if not np.array_equal(array.view(np.uint8), after.view(np.uint8)):
            found.append(f"{_title(case)}: memory")
    return found


def _title(case: _Case) -> str:
    return f"{case.arch} {case.lanes} lanes `{case.instruction}`"


def _both_nan(case: _Case, a: int, b: int) -> bool:
    """Return whether two words are NaN in the format of the instruction.

    Sign and payload are unspecified where several operands are NaN, or an operation is invalid too,
    and whether conversions of halves make NaN quiet.
    """
    forms = set(_FLOATS.findall(case.instruction.name))
    if "format" in case.instruction.name:
        forms = {"f32", "f16"}
    for name, infinity in (("f32", 0x7F800000), ("f64", 0x7FF00000)):
        if name in forms and min(a & 0x7FFFFFFF, b & 0x7FFFFFFF) > infinity:
            return True
    for name, infinity in (("bf16", 0x7F80), ("f16", 0x7C00)):
        if name in forms:
            pairs = ((a & 0xFFFF, b & 0xFFFF), (a >> 16, b >> 16))
            if all(x == y or min(x & 0x7FFF, y & 0x7FFF) > infinity for x, y in pairs):
                return True
    return False


def _differing(case: _Case, layout: WaveLayout, wave: int, end: Array, want: Array) -> list[str]:
    out = []
    limit = layout.resume
    bad = np.flatnonzero(end[:limit].view(np.uint32) != want[:limit].view(np.uint32))
    bad = bad[
        [
            not _both_nan(
                case, int(end[:limit].view(np.uint32)[at]), int(want[:limit].view(np.uint32)[at])
            )
            for at in bad
        ]
    ]
    for at in bad[:2]:
        byte = 4 * int(at)
        if byte >= layout.scalars:
            place = f"scalar {(byte - layout.scalars) // 4}"
        else:
            register, lane = divmod(int(at), layout.lanes)
            place = f"register {register} lane {lane}"
        got, wanted = (x[:limit].view(np.uint32)[at] for x in (end, want))
        out.append(f"{_title(case)}: wave {wave} {place}: {got:#x}, not {wanted:#x}")
    return out
