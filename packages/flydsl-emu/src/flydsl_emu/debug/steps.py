"""Traces: what one wave executed, instruction by instruction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from flydsl_emu.codeobject import SourceLine

__all__ = ["RegisterValue", "Trace", "TraceStep"]

Array = Any


@dataclass(frozen=True, slots=True)
class RegisterValue:
    """Contents of the registers of one operand.

    Attributes:
        name: As the assembler writes it: ``"v[2:3]"``, ``"vcc"``.
        values: Dwords ``[register, lane]``; one column for scalar registers.
    """

    name: str
    values: Array

    @property
    def scalar(self) -> bool:
        """Whether the wave has one value, not one per lane."""
        return bool(self.values.shape[1] == 1)

    def lane(self, lane: int) -> tuple[int, ...]:
        """Return the dwords of one lane (of any lane, for scalar registers)."""
        return tuple(int(x) for x in self.values[:, 0 if self.scalar else lane])

    def as_integer(self, lane: int = 0) -> int:
        """Return the registers of one lane as one unsigned integer, the first lowest."""
        return sum(x << 32 * k for k, x in enumerate(self.lane(lane)))

    def text(self, exec_mask: int) -> str:
        """Return ``name = value``.

        Of a vector register it is the value of the first lane in `exec_mask`, with the number of
        different values.
        """
        lanes = [n for n in range(self.values.shape[1]) if exec_mask >> n & 1]
        if self.scalar or not lanes:
            return f"{self.name} = {self.as_integer():#x}"
        different = len({self.lane(n) for n in lanes})
        tail = f" (lane {lanes[0]}; {different} values)" if different > 1 else ""
        return f"{self.name} = {self.as_integer(lanes[0]):#x}{tail}"


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One executed instruction.

    Attributes:
        index: Number in the trace.
        pc: Byte offset in the kernel, as error messages show it.
        text: Instruction as LLVM prints it.
        source: Source line, or None without debug information.
        exec: EXEC before the instruction, lane 0 in bit 0.
        reads: Registers before it.
        writes: Registers after it.
        taken: For a conditional branch, whether the wave took it; else None.
    """

    index: int
    pc: int
    text: str
    source: SourceLine | None
    exec: int
    reads: tuple[RegisterValue, ...]
    writes: tuple[RegisterValue, ...]
    taken: bool | None = None

    def __str__(self) -> str:
        place = "" if self.source is None else f"  ; {self.source}"
        lines = [f"{self.index:6} +{self.pc:#06x}  {self.text}{place}"]
        values = [r.text(self.exec) for r in self.reads]
        results = [r.text(self.exec) for r in self.writes]
        if self.taken is not None:
            results.append("taken" if self.taken else "not taken")
        if values or results:
            arrow = f" -> {', '.join(results)}" if results else ""
            lines.append(f"{'':15}exec {self.exec:#x}; {', '.join(values)}{arrow}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Trace:
    """What one wave of one launch executed.

    Attributes:
        kernel, arch: What ran.
        workgroup: Workgroup id (x, y, z).
        wave: Wave of the workgroup.
        steps: Instructions in the order of execution.
        truncated: Whether the wave went on after the last step.
        buffers: Name, address and size of the memory that the launch could use.
    """

    kernel: str
    arch: str
    workgroup: tuple[int, int, int]
    wave: int
    steps: tuple[TraceStep, ...]
    truncated: bool
    buffers: tuple[tuple[str, int, int], ...] = ()

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[TraceStep]:
        return iter(self.steps)

    def __getitem__(self, index: int) -> TraceStep:
        return self.steps[index]

    def at_line(self, line: int, file: str = "") -> tuple[TraceStep, ...]:
        """Return the steps of one source line, optionally of files whose path ends in `file`."""
        return tuple(
            s
            for s in self.steps
            if s.source is not None and s.source.line == line and s.source.file.endswith(file)
        )

    def to_json(self) -> str:
        """Return the trace as JSON text; register values are lists of lanes of dwords."""
        return json.dumps(
            {
                "kernel": self.kernel,
                "arch": self.arch,
                "workgroup": self.workgroup,
                "wave": self.wave,
                "truncated": self.truncated,
                "buffers": [
                    {"name": name, "address": address, "size": size}
                    for name, address, size in self.buffers
                ],
                "steps": [_step_json(s) for s in self.steps],
            }
        )

    def __str__(self) -> str:
        head = f"{self.kernel} on {self.arch}, workgroup {self.workgroup}, wave {self.wave}"
        tail = ["(the trace ends here; the wave went on)"] if self.truncated else []
        return "\n".join([head, *map(str, self.steps), *tail])


def _step_json(step: TraceStep) -> dict[str, Any]:
    source = step.source
    return {
        "pc": step.pc,
        "text": step.text,
        "source": None
        if source is None
        else {
            "file": source.file,
            "line": source.line,
            "column": source.column,
            "exact": source.exact,
        },
        "exec": f"{step.exec:#x}",
        "reads": [_value_json(r) for r in step.reads],
        "writes": [_value_json(r) for r in step.writes],
        "taken": step.taken,
    }


def _value_json(value: RegisterValue) -> dict[str, Any]:
    return {"name": value.name, "values": np.transpose(value.values).tolist()}
