"""The parts of a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flydsl_emu.report.mca import McaFigures

__all__ = ["InstructionTraffic", "LoopReport", "Resources", "SpaceTraffic"]


@dataclass(frozen=True, slots=True)
class Resources:
    """What a kernel takes of a compute unit.

    Attributes:
        vgprs, agprs, sgprs: Registers; the vector ones include the accumulation registers.
        lds_bytes: Bytes of LDS of a workgroup.
        scratch_bytes: Bytes of private memory of a lane.
        waves_per_simd: Waves that fit a SIMD at once.
        limited_by: ``"registers"``, ``"lds"`` or ``"waves"`` (the hardware's maximum).
    """

    vgprs: int
    agprs: int
    sgprs: int
    lds_bytes: int
    scratch_bytes: int
    waves_per_simd: int
    limited_by: str


@dataclass(frozen=True, slots=True)
class SpaceTraffic:
    """Traffic of one space and direction.

    Attributes:
        space: ``"global"``, ``"lds"``, ``"scratch"`` or ``"scalar"``.
        direction: ``"read"`` or ``"write"``; atomics write.
        requested_bytes: Bytes that lanes asked for.
        line_bytes: Bytes of the 128-byte lines of each wave's access (global memory).
        line_bytes_64: The same with lines of 64 bytes.
        conflict_ratio: LDS clocks over clocks without bank conflicts; 1 is ideal.
    """

    space: str
    direction: str
    requested_bytes: int
    line_bytes: int
    line_bytes_64: int
    conflict_ratio: float

    @property
    def coalescing(self) -> float:
        """Requested bytes over bytes of 64-byte lines: 1 uses every byte; 0 without lines.

        Above 1, lanes share bytes.
        """
        return self.requested_bytes / self.line_bytes_64 if self.line_bytes_64 else 0.0


@dataclass(frozen=True, slots=True)
class InstructionTraffic(SpaceTraffic):
    """Traffic of one instruction.

    Attributes:
        pc: Byte offset in the kernel.
        text: The instruction.
        source: Source line as text, or empty.
        executions: Waves that accessed with it.
        lds_clocks: LDS clocks, conflicts included.
    """

    pc: int = 0
    text: str = ""
    source: str = ""
    executions: int = 0
    lds_clocks: int = 0


@dataclass(frozen=True, slots=True)
class LoopReport:
    """What a loop executed, inner loops included.

    Attributes:
        start, end: Byte offsets in the kernel of its first instruction and after its last.
        depth: Loops around it.
        source: Source line of its first instruction as text, or empty.
        iterations: Wave executions of its first instruction.
        instructions: Wave-instructions by class.
        static_instructions: Instructions in the code by class.
        mca: What ``llvm-mca`` says about an iteration, if it was asked.
    """

    start: int
    end: int
    depth: int
    source: str
    iterations: int
    instructions: Mapping[str, int]
    static_instructions: Mapping[str, int]
    mca: McaFigures | None = None

    @property
    def mfma_share(self) -> float:
        """Matrix instructions over all instructions of the code."""
        return share(self.static_instructions)


def share(counts: Mapping[str, int]) -> float:
    """Return the share of matrix instructions in counts by class."""
    total = sum(counts.values())
    return counts.get("mfma", 0) / total if total else 0.0
