"""Reports of code objects that nobody runs: what their code consists of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from flydsl_emu.codeobject import read_code_object
from flydsl_emu.decode import decode
from flydsl_emu.report.execution import class_counts, resources_of
from flydsl_emu.report.figures import LoopReport, Resources, share
from flydsl_emu.report.loops import find_loops
from flydsl_emu.report.mca import analyse

__all__ = ["StaticReport", "static_reports"]


@dataclass(frozen=True, slots=True)
class StaticReport:
    """What the code of one kernel consists of.

    Attributes:
        kernel: Kernel name.
        arch: Architecture.
        instructions: Instructions in the code by class.
        loops: Loops; their `iterations` and executed `instructions` are 0.
        resources: Registers, LDS and occupancy, at the largest workgroup that the kernel allows.
        spills: Vector and scalar registers spilled.
        code_bytes: Size of the code.
    """

    kernel: str
    arch: str
    instructions: Mapping[str, int]
    loops: tuple[LoopReport, ...]
    resources: Resources
    spills: tuple[int, int]
    code_bytes: int

    @property
    def mfma_share(self) -> float:
        """Matrix instructions over all instructions."""
        return share(self.instructions)

    def to_json(self) -> str:
        """Return the report as JSON text."""
        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        from flydsl_emu.report.rendering import static_text

        return static_text(self)


def static_reports(data: bytes, *, mca: str | None = None) -> tuple[StaticReport, ...]:
    """Return the report of every kernel of a code object.

    Args:
        data: The code object.
        mca: Path of ``llvm-mca`` to analyse loops with, or None.

    Raises:
        TargetError: The bytes are no code object of an architecture that the emulator decodes, or
            ``llvm-mca`` does not work.
    """
    code = read_code_object(data)
    lines = code.line_table()
    reports = []
    for kernel in code.kernels.values():
        instructions = decode(kernel.arch, kernel.code, kernel.address)
        loops = []
        for loop in find_loops(instructions):
            source = lines.find(loop.start)
            inside = [i for i in instructions if i.pc in loop]
            loops.append(
                LoopReport(
                    loop.start - kernel.address,
                    loop.end - kernel.address,
                    loop.depth,
                    "" if source is None else str(source),
                    0,
                    {},
                    class_counts(inside),
                    None if mca is None else analyse(inside, kernel.arch, mca),
                )
            )
        waves = -(-kernel.max_threads // kernel.wave_size)
        reports.append(
            StaticReport(
                kernel.name,
                kernel.arch,
                class_counts(instructions),
                tuple(loops),
                resources_of(kernel, waves),
                (kernel.vgpr_spills, kernel.sgpr_spills),
                len(kernel.code),
            )
        )
    return tuple(reports)
