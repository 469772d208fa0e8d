"""`Target`: what a target plugin implements; per-op behaviour is methods of this object.

A frozen dataclass satisfies it. MLIR objects are typed as `MlirModule`, because only `flydsl.mlir`
imports the bindings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from flydsl.config import CompileOptions
from flydsl.plugins.payloads import CodeObject, LaunchShape, Pipeline, TargetSpec

__all__ = ["MlirModule", "Target"]

MlirModule: TypeAlias = Any
"""An ``mlir.ir.Module``."""


@runtime_checkable
class Target(Protocol):
    """One architecture that kernels can be compiled for."""

    @property
    def spec(self) -> TargetSpec:
        """The architecture with its feature choices."""
        ...

    @property
    def name(self) -> str:
        """Text of `spec`."""
        ...

    @property
    def backend(self) -> str:
        """Name of the owning plugin, as in `TargetSpec.backend`."""
        ...

    @property
    def arch(self) -> str:
        """Architecture name without features."""
        ...

    @property
    def warp_size(self) -> int:
        """Threads per warp (wave)."""
        ...

    @property
    def address_spaces(self) -> Mapping[str, int]:
        """LLVM address-space number of each space: generic, global, shared, register, …."""
        ...

    @property
    def shared_capacity(self) -> int:
        """Bytes of shared memory that one workgroup can use."""
        ...

    @property
    def shared_banks(self) -> int:
        """Banks of shared memory, of four bytes each; 0 if it has none."""
        ...

    @property
    def max_threads_per_block(self) -> int:
        """Largest number of threads in a workgroup."""
        ...

    @property
    def max_grid(self) -> tuple[int, int, int]:
        """Largest number of workgroups along each axis."""
        ...

    @property
    def object_format(self) -> str:
        """`CodeObject.format` of what `emit` returns."""
        ...

    def atoms(self) -> Mapping[str, type]:
        """Return the target's copy and MMA operation classes by the prefix of their text."""
        ...

    def pipeline(self, options: CompileOptions) -> Pipeline:
        """Return all stages from the traced module to the one that `emit` takes."""
        ...

    def emit(self, module: MlirModule, options: CompileOptions) -> CodeObject:
        """Turn the lowered module into machine code.

        Raises:
            TargetError: The back end refuses the module.
        """
        ...

    def fingerprint(self) -> str:
        """Return text that changes whenever the same input may compile to different code."""
        ...

    def check_launch(self, shape: LaunchShape) -> None:
        """Check what is known of a launch against the target's limits.

        `flydsl.targets.check_limits` does this for the limits that this protocol names.

        Raises:
            TargetError: A limit is exceeded.
        """
        ...
