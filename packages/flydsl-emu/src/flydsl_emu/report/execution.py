"""The report of one launch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass

from flydsl_emu.codeobject import Kernel, SourceLine
from flydsl_emu.decode import Instruction
from flydsl_emu.execution import LaunchRecord
from flydsl_emu.report.classes import CLASSES, classify, is_matrix, matrix_passes, waits_for
from flydsl_emu.report.constants import constants_of
from flydsl_emu.report.counting import AccessCounter, Traffic
from flydsl_emu.report.figures import (
    InstructionTraffic,
    LoopReport,
    Resources,
    SpaceTraffic,
    share,
)
from flydsl_emu.report.loops import find_loops
from flydsl_emu.report.model import TimeModel

__all__ = ["ExecutionReport", "build_report", "class_counts", "resources_of"]

Lines = Callable[[int], SourceLine | None]


@dataclass(frozen=True, slots=True)
class ExecutionReport:
    """What one launch executed.

    Attributes:
        kernel: Kernel name.
        arch: Architecture.
        grid, block: Workgroups, and threads of one.
        instructions: Wave-instructions executed, by class.
        loops: Loops that the launch entered.
        resources: Registers, LDS, occupancy.
        traffic: By space and direction; empty when accesses were not watched.
        accesses: By instruction, in address order; likewise.
        distinct_bytes: Bytes of distinct 128-byte lines of global memory, each counted once.
        distinct_bytes_64: The same with lines of 64 bytes.
        barrier_imbalance: Share of the instructions between barriers for which waves wait for the
            slowest of their workgroup: 0 is even.
        model: Modelled duration, or None when accesses were not watched.
    """

    kernel: str
    arch: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    instructions: Mapping[str, int]
    loops: tuple[LoopReport, ...]
    resources: Resources
    traffic: tuple[SpaceTraffic, ...]
    accesses: tuple[InstructionTraffic, ...]
    distinct_bytes: int
    distinct_bytes_64: int
    barrier_imbalance: float
    model: TimeModel | None

    @property
    def total_instructions(self) -> int:
        """Wave-instructions executed."""
        return sum(self.instructions.values())

    @property
    def mfma_share(self) -> float:
        """Matrix instructions over all executed instructions."""
        return share(self.instructions)

    @property
    def vgprs(self) -> int:
        """Vector registers."""
        return self.resources.vgprs

    @property
    def lds_bytes(self) -> int:
        """Bytes of LDS of a workgroup."""
        return self.resources.lds_bytes

    @property
    def waves_per_simd(self) -> int:
        """Waves that fit a SIMD at once."""
        return self.resources.waves_per_simd

    @property
    def modelled_microseconds(self) -> float | None:
        """Modelled duration in microseconds, or None when accesses were not watched."""
        return None if self.model is None else self.model.microseconds

    def to_json(self) -> str:
        """Return the report as JSON text, every constant of the model with its source."""
        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        from flydsl_emu.report.rendering import execution_text

        return execution_text(self)


def resources_of(kernel: Kernel, waves: int, dynamic_lds: int = 0) -> Resources:
    """Return what a kernel takes, launched with so many waves per workgroup."""
    c = {name: int(constant.value) for name, constant in constants_of(kernel.arch).items()}
    granule = c["register_granule"]
    registers = max(granule, -(-kernel.vgprs // granule) * granule)
    limits = {"waves": c["max_waves"], "registers": c["vector_registers"] // registers}
    lds = kernel.descriptor.group_segment + dynamic_lds
    if lds:
        groups = c["lds_capacity"] // lds
        limits["lds"] = max(1, groups * waves // c["simds"])
    limit = min(limits, key=lambda name: limits[name])
    return Resources(
        kernel.vgprs,
        kernel.agprs,
        kernel.sgprs,
        lds,
        kernel.descriptor.private_segment,
        limits[limit],
        limit,
    )


def class_counts(instructions: Iterable[Instruction]) -> dict[str, int]:
    """Return how many instructions of each class there are."""
    counts = dict.fromkeys(CLASSES, 0)
    for i in instructions:
        counts[classify(i)] += 1
    return counts


def _executions(record: LaunchRecord) -> Counter[int]:
    """Return wave executions by the address of the instruction."""
    executed: Counter[int] = Counter()
    for pc, waves in record.counts.items():
        if waves:
            for i in record.program.block(pc).instructions:
                executed[i.pc] += waves
    return executed


def build_report(
    record: LaunchRecord, counter: AccessCounter | None, lines: Lines | None = None
) -> ExecutionReport:
    """Return the report of a launch.

    Args:
        record: The launch.
        counter: Its accesses, if they were watched.
        lines: Source line by address.
    """
    executed = _executions(record)
    counts = dict.fromkeys(CLASSES, 0)
    for i in record.program.instructions:
        counts[classify(i)] += executed[i.pc]
    kernel, geometry = record.kernel, record.geometry
    resources = resources_of(kernel, geometry.waves, geometry.dynamic_lds)
    watched = counter if geometry.workgroups else None
    return ExecutionReport(
        kernel=kernel.name,
        arch=kernel.arch,
        grid=geometry.grid,
        block=geometry.block,
        instructions=counts,
        loops=_loops(record, executed, lines),
        resources=resources,
        traffic=() if watched is None else _by_space(watched),
        accesses=() if watched is None else _by_instruction(record, watched, lines),
        distinct_bytes=128 * watched.distinct_lines(128) if watched else 0,
        distinct_bytes_64=64 * watched.distinct_lines(64) if watched else 0,
        barrier_imbalance=watched.barriers.imbalance if watched else 0.0,
        model=None if watched is None else _model(record, watched, executed, counts),
    )


def _source(lines: Lines | None, pc: int) -> str:
    found = lines(pc) if lines is not None else None
    return "" if found is None else str(found)


def _loops(
    record: LaunchRecord, executed: Counter[int], lines: Lines | None
) -> tuple[LoopReport, ...]:
    out = []
    base, instructions = record.program.base, record.program.instructions
    for loop in find_loops(instructions):
        if not executed[loop.start]:
            continue
        inside = [i for i in instructions if i.pc in loop]
        dynamic = dict.fromkeys(CLASSES, 0)
        for i in inside:
            dynamic[classify(i)] += executed[i.pc]
        out.append(
            LoopReport(
                loop.start - base,
                loop.end - base,
                loop.depth,
                _source(lines, loop.start),
                executed[loop.start],
                dynamic,
                class_counts(inside),
            )
        )
    return tuple(out)


def _ratio(t: Traffic) -> float:
    return t.clocks / t.ideal_clocks if t.ideal_clocks else 1.0


def _by_space(counter: AccessCounter) -> tuple[SpaceTraffic, ...]:
    return tuple(
        SpaceTraffic(space, direction, t.requested, 128 * t.lines128, 64 * t.lines64, _ratio(t))
        for (space, direction), t in sorted(counter.totals().items())
    )


def _by_instruction(
    record: LaunchRecord, counter: AccessCounter, lines: Lines | None
) -> tuple[InstructionTraffic, ...]:
    texts = {i.pc: i for i in record.program.instructions}
    return tuple(
        InstructionTraffic(
            space,
            direction,
            t.requested,
            128 * t.lines128,
            64 * t.lines64,
            _ratio(t),
            pc - record.program.base,
            str(texts[pc]),
            _source(lines, pc),
            t.waves,
            t.clocks,
        )
        for (pc, space, direction), t in sorted(counter.traffic.items())
    )


def _model(
    record: LaunchRecord, counter: AccessCounter, executed: Counter[int], counts: Mapping[str, int]
) -> TimeModel:
    kernel, geometry = record.kernel, record.geometry
    constants = constants_of(kernel.arch)
    flops = constants["matrix_flops"].value if "matrix_flops" in constants else 0
    passes = vector_waits = local_waits = 0
    for i in record.program.instructions:
        waves = executed[i.pc]
        if is_matrix(i.name):
            passes += waves * matrix_passes(i, flops)
        vector, local = waits_for(i, kernel.arch)
        vector_waits += waves * vector
        local_waits += waves * local
    totals: dict[str, float] = {
        **counts,
        "passes": passes,
        "lds_clocks": sum(t.clocks for t in counter.traffic.values()),
        "bytes": 128 * counter.distinct_lines(128),
        "vector_waits": vector_waits,
        "local_waits": local_waits,
    }
    resident = resources_of(kernel, geometry.waves, geometry.dynamic_lds).waves_per_simd
    return TimeModel.from_totals(kernel.arch, totals, geometry.workgroups, geometry.waves, resident)
