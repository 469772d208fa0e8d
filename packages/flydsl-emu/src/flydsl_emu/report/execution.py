"""The report of one launch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from flydsl_emu.decode import Instruction
from flydsl_emu.execution import LaunchRecord
from flydsl_emu.report.classes import CLASSES, classify, mfma_passes
from flydsl_emu.report.counting import AccessCounter
from flydsl_emu.report.model import CONSTANTS, TimeModel

__all__ = ["ExecutionReport", "SpaceTraffic", "build_report"]

_VECTOR_REGISTERS = 512
_MAX_WAVES = 8


@dataclass(frozen=True, slots=True)
class SpaceTraffic:
    """Traffic of one space and direction.

    Attributes:
        space: ``"global"``, ``"lds"``, ``"scratch"`` or ``"scalar"``.
        direction: ``"read"`` or ``"write"``.
        requested_bytes: Bytes that lanes asked for.
        line_bytes: Bytes of the cache lines of each wave's access (global memory).
        conflict_ratio: LDS clocks over clocks without bank conflicts; 1 is ideal.
    """

    space: str
    direction: str
    requested_bytes: int
    line_bytes: int
    conflict_ratio: float


@dataclass(frozen=True, slots=True)
class ExecutionReport:
    """What one launch executed.

    Attributes:
        kernel: Kernel name.
        arch: Architecture.
        grid, block: Workgroups, and threads of one.
        instructions: Wave-instructions executed, by class.
        vgprs, agprs, sgprs, lds_bytes, scratch_bytes: Resources.
        waves_per_simd: Waves that fit a SIMD at once.
        traffic: By space and direction; empty when accesses were not watched.
        distinct_bytes: Bytes of distinct global cache lines, each counted once.
        model: Modelled time, or None when accesses were not watched.
    """

    kernel: str
    arch: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    instructions: Mapping[str, int]
    vgprs: int
    agprs: int
    sgprs: int
    lds_bytes: int
    scratch_bytes: int
    waves_per_simd: int
    traffic: tuple[SpaceTraffic, ...]
    distinct_bytes: int
    model: TimeModel | None

    @property
    def total_instructions(self) -> int:
        """Wave-instructions executed."""
        return sum(self.instructions.values())

    @property
    def modelled_microseconds(self) -> float | None:
        """Modelled time in microseconds, or None when accesses were not watched."""
        return None if self.model is None else self.model.microseconds

    def to_json(self) -> str:
        """Return the report as JSON text."""
        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        lines = [
            f"{self.kernel} on {self.arch}: grid {self.grid}, block {self.block}",
            f"  {self.total_instructions:,} wave-instructions: "
            + ", ".join(f"{name} {count:,}" for name, count in self.instructions.items() if count),
        ]
        lines.append(
            f"  {self.vgprs} VGPR, {self.agprs} AGPR, {self.sgprs} SGPR, {self.lds_bytes} B LDS, "
            f"{self.scratch_bytes} B scratch, {self.waves_per_simd} waves per SIMD"
        )
        for t in self.traffic:
            text = f"  {t.space} {t.direction}: {t.requested_bytes:,} B requested"
            if t.line_bytes:
                text += f", {t.line_bytes:,} B in cache lines"
            if t.space == "lds":
                text += f", bank conflicts x{t.conflict_ratio:.2f}"
            lines.append(text)
        if self.model is not None:
            lines.append(
                f"  model: {self.model.microseconds:.1f} us, limited by {self.model.limit}"
            )
        return "\n".join(lines)


def resident_waves(record: LaunchRecord) -> int:
    """Return how many waves of the kernel a SIMD holds at once."""
    kernel, geometry = record.kernel, record.geometry
    registers = max(8, -(-kernel.vgprs // 8) * 8)
    by_registers = min(_MAX_WAVES, _VECTOR_REGISTERS // registers)
    lds = kernel.descriptor.group_segment + geometry.dynamic_lds
    if not lds:
        return by_registers
    capacity = int(CONSTANTS[kernel.arch]["lds_capacity"].value)
    groups = capacity // lds
    by_lds = max(1, groups * geometry.waves // 4)
    return min(by_registers, by_lds)


def _waits(i: Instruction) -> tuple[int, int]:
    """Return whether an instruction waits for vector memory, and for LDS or scalar memory."""
    if i.name != "s_waitcnt":
        return 0, 0
    value = i.mod("simm16")
    vector = value & 15 | (value >> 14 & 3) << 4
    return int(vector < 63), int((value >> 8 & 15) < 15)


def build_report(record: LaunchRecord, counter: AccessCounter | None) -> ExecutionReport:
    """Return the report of a launch; `counter` holds its accesses if they were watched."""
    counts = dict.fromkeys(CLASSES, 0)
    passes = vector_waits = local_waits = 0
    for pc, waves in record.counts.items():
        for i in record.program.block(pc).instructions:
            counts[classify(i)] += waves
            if i.name.startswith(("v_mfma", "v_smfmac")):
                passes += waves * mfma_passes(i)
            vector, local = _waits(i)
            vector_waits += waves * vector
            local_waits += waves * local
    kernel, geometry = record.kernel, record.geometry
    resident = resident_waves(record)
    traffic: tuple[SpaceTraffic, ...] = ()
    distinct = 0
    model = None
    if counter is not None and geometry.workgroups:
        traffic = _traffic(counter)
        distinct = counter.distinct_lines * counter.line
        lds_clocks = sum(t.clocks for (s, _), t in counter.traffic.items() if s == "lds")
        totals: dict[str, float] = {
            **counts,
            "passes": passes,
            "lds_clocks": lds_clocks,
            "bytes": distinct,
            "vector_waits": vector_waits,
            "local_waits": local_waits,
        }
        model = TimeModel.from_totals(
            kernel.arch, totals, geometry.workgroups, geometry.waves, resident
        )
    return ExecutionReport(
        kernel=kernel.name,
        arch=kernel.arch,
        grid=geometry.grid,
        block=geometry.block,
        instructions=counts,
        vgprs=kernel.vgprs,
        agprs=kernel.agprs,
        sgprs=kernel.sgprs,
        lds_bytes=kernel.descriptor.group_segment + geometry.dynamic_lds,
        scratch_bytes=kernel.descriptor.private_segment,
        waves_per_simd=resident,
        traffic=traffic,
        distinct_bytes=distinct,
        model=model,
    )


def _traffic(counter: AccessCounter) -> tuple[SpaceTraffic, ...]:
    return tuple(
        SpaceTraffic(
            space,
            direction,
            t.requested,
            t.lines * counter.line,
            t.clocks / t.ideal_clocks if t.ideal_clocks else 1.0,
        )
        for (space, direction), t in sorted(counter.traffic.items())
    )
