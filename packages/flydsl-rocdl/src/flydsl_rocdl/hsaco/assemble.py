"""Assembling with an external ``llvm-mc``, which only inline assembly needs.

The LLVM that compiles has no AMDGPU assembly parser; everything else it emits as objects itself.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from flydsl.errors import TargetError

__all__ = ["CANDIDATES", "assemble", "find_assembler"]

CANDIDATES = ("/opt/rocm/llvm/bin/llvm-mc", "llvm-mc-22", "llvm-mc")
"""Where to look when no program is named: ROCm's, then the system's."""


def find_assembler(chosen: Path | None, candidates: tuple[str, ...] = CANDIDATES) -> str:
    """Return the assembler to run.

    Args:
        chosen: The one that the user named, or None.
        candidates: Names and paths to try otherwise.

    Raises:
        TargetError: There is none.
    """
    if chosen is not None:
        return str(chosen)
    for candidate in candidates:
        path = shutil.which(candidate)
        if path is not None:
            return path
    raise TargetError(
        "the kernel contains inline assembly, which needs an external assembler",
        code="FLY-T623",
        hint="install llvm-mc (ROCm or LLVM 22) or set FLYDSL_ROCDL_LLVM_MC to its path",
    )


def assemble(text: str, program: str, cpu: str, features: str) -> bytes:
    """Assemble AMDGPU assembly to a relocatable object.

    Args:
        text: Assembly as LLVM writes it.
        program: The ``llvm-mc`` to run.
        cpu: Architecture name.
        features: LLVM feature string, may be empty.

    Raises:
        TargetError: The program cannot be started or rejects the text.
    """
    command = [program, "--triple=amdgcn-amd-amdhsa", f"--mcpu={cpu}", "--filetype=obj"]
    if features:
        command.append(f"--mattr={features}")
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    except OSError as error:
        raise TargetError(
            f"cannot start the assembler {program!r}: {error}",
            code="FLY-T624",
            hint="FLYDSL_ROCDL_LLVM_MC names the one to use",
        ) from error
    if done.returncode:
        message = done.stderr.decode(errors="replace").strip()
        raise TargetError(f"the assembler rejects the kernel: {message}", code="FLY-T624")
    return done.stdout
