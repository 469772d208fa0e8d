"""A second opinion on a loop: LLVM's machine-code analyser, where it is installed.

``llvm-mca`` simulates one wave that issues the loop's instructions again and again. It knows the
pipes and latencies of LLVM's scheduling model, and nothing of memory, other waves or branches. On
gfx9 one of its cycles stands for four clocks.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flydsl.errors import TargetError
from flydsl_emu.decode import Instruction
from flydsl_emu.settings import LLVM_MCA

__all__ = ["McaFigures", "analyse"]

_ITERATIONS = 100
_MATRIX = "HWXDL"


@dataclass(frozen=True, slots=True)
class McaFigures:
    """What ``llvm-mca`` says about one iteration.

    Attributes:
        cycles: Its cycles.
        busy: Cycles that each pipe is busy, by LLVM's name of the pipe.
    """

    cycles: float
    busy: Mapping[str, float]

    @property
    def matrix_share(self) -> float:
        """Share of the cycles in which the matrix core is busy."""
        return self.busy.get(_MATRIX, 0.0) / self.cycles if self.cycles else 0.0


def find_program() -> str | None:
    """Return the analyser: ``FLYDSL_EMU_LLVM_MCA``, or one on the path; None if there is none."""
    named = LLVM_MCA.get()
    if named is not None:
        return str(named)
    return shutil.which("llvm-mca-22") or shutil.which("llvm-mca")


def analyse(instructions: Iterable[Instruction], arch: str, program: str) -> McaFigures:
    """Analyse the instructions of a loop; branches are left out.

    Args:
        instructions: In order.
        arch: Architecture.
        program: The analyser.

    Raises:
        TargetError: It cannot be run, or does not take the instructions.
    """
    text = "\n".join(str(i) for i in instructions if i.target is None)
    command = [program, "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-json"]
    command.append(f"--iterations={_ITERATIONS}")
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        detail = getattr(error, "stderr", None) or str(error)
        raise TargetError(
            f"llvm-mca does not analyse the loop: {detail.strip().splitlines()[0]}",
            code="FLY-T707",
            value=program,
            hint=f"{LLVM_MCA.name} names the one to use",
        ) from error
    return _figures(found)


def _figures(found: Mapping[str, Any]) -> McaFigures:
    names = found["TargetInfo"]["Resources"]
    (region,) = found["CodeRegions"]
    busy = dict.fromkeys(names, 0.0)
    count = len(region["Instructions"])
    for use in region["ResourcePressureView"]["ResourcePressureInfo"]:
        if use["InstructionIndex"] < count:  # the rest is the sum
            busy[names[use["ResourceIndex"]]] += use["ResourceUsage"]
    return McaFigures(region["SummaryView"]["TotalCycles"] / _ITERATIONS, busy)
