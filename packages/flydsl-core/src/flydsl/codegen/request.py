"""What a codegen worker is asked and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from flydsl.codegen.options import Options

__all__ = ["CodegenRequest", "CodegenResult"]


@dataclass(frozen=True, slots=True)
class CodegenRequest:
    """One module to turn into machine code.

    Attributes:
        llvm_ir: LLVM IR text. Target triple and data layout are set by the worker.
        triple: LLVM target triple, e.g. ``"x86_64-unknown-linux-gnu"``.
        cpu: LLVM processor name; empty for the target's generic one.
        features: LLVM feature string, e.g. ``"+avx2,-fma"``.
        opt_level: 0 to 3, for both the middle end and the code generator.
        want_object: Whether to emit an object file.
        want_asm: Whether to emit assembly text; costs a second code generation.
        want_ir: Whether to return the optimised LLVM IR.
        options: LLVM command-line options, from `flydsl.codegen.checked_options`.
        reloc: ``"default"``, ``"static"``, ``"pic"`` or ``"dynamicnopic"``.
        code_model: ``"default"``, ``"small"``, ``"kernel"``, ``"medium"`` or ``"large"``.
        vectorize: Whether the loop and SLP vectorizers run.
        libraries: LLVM IR text or bitcode to link in, each with the functions that it must define:
            their names and LLVM types. Everything in it becomes private to the module.
    """

    llvm_ir: str
    triple: str
    cpu: str = ""
    features: str = ""
    opt_level: int = 3
    want_object: bool = True
    want_asm: bool = False
    want_ir: bool = False
    options: Options = ()
    reloc: Literal["default", "static", "pic", "dynamicnopic"] = "pic"
    code_model: Literal["default", "small", "kernel", "medium", "large"] = "default"
    vectorize: bool = True
    libraries: tuple[tuple[bytes, tuple[tuple[str, str], ...]], ...] = ()

    def __post_init__(self) -> None:
        """Check what LLVM would not.

        Raises:
            ValueError: The triple is empty or the optimisation level is not 0 to 3.
        """
        if not self.triple:
            raise ValueError("a codegen request needs a target triple")
        if self.opt_level not in (0, 1, 2, 3):
            raise ValueError(f"opt_level must be 0, 1, 2 or 3, not {self.opt_level!r}")


@dataclass(frozen=True, slots=True)
class CodegenResult:
    """What the worker made of a `CodegenRequest`.

    Attributes:
        object: Object file bytes; empty unless `want_object`.
        asm: Assembly text; empty unless `want_asm`.
        llvm_ir: Optimised LLVM IR text; empty unless `want_ir`.
        remarks: Warnings and remarks that LLVM printed, one a line.
        timings: CPU seconds of the child per step: ``machine`` (target machine), ``parse``,
            ``optimise``, ``codegen``, ``assembly``; steps that did not run are absent.
        wall_seconds: Time from sending the request to its answer, waiting for the child included.
        peak_rss: High-water mark of the child's resident memory in bytes; 0 when unknown.
    """

    object: bytes
    asm: str = ""
    llvm_ir: str = ""
    remarks: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    wall_seconds: float = 0.0
    peak_rss: int = 0

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds that the child spent on this request."""
        return sum(self.timings.values())
