"""`Artifact`: everything a compile produces, picklable and ready to load and launch."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flydsl.config.core import COMPILE_ONLY
from flydsl.errors import UserRuntimeError

if TYPE_CHECKING:
    from flydsl.codegen.machine_code import MachineCode
    from flydsl.plugins.payloads import CodeObject, CompileEvent
    from flydsl.runtime.output import OutputSite

__all__ = ["Artifact", "CompileKey", "only_compiled"]


@dataclass(frozen=True, slots=True)
class CompileKey:
    """What an artifact was compiled for, besides the program itself.

    Attributes:
        signature: `ArgSpec.key` of every launcher argument.
        target: Target text.
        options: `CompileOptions.cache_key`.
        fingerprints: What plugins add for this target.
    """

    signature: tuple[Hashable, ...]
    target: str
    options: str
    fingerprints: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Short hexadecimal text for file names; equal for equal keys within a process."""
        import hashlib

        return hashlib.sha256(repr(self).encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Artifact:
    """The result of one compile.

    Attributes:
        launcher: Name of the launcher.
        code: The device code object.
        stub: The launcher's host code.
        argument_format: `struct` format of the stub's argument block.
        kernels: Names of the kernels in the order of `FlyHostContext.functions`.
        implicit_stream: The argument block ends with the stream, which no parameter supplies.
        events: Where the time went.
        sites: What the kernels print and assert.
        launches: Kernel, threads of a block and bytes of dynamic shared memory of every launch in
            the program; None for a number that is computed at run time.
    """

    launcher: str
    code: CodeObject
    stub: MachineCode
    argument_format: str
    kernels: tuple[str, ...]
    implicit_stream: bool
    events: tuple[CompileEvent, ...] = ()
    sites: tuple[OutputSite, ...] = ()
    launches: tuple[tuple[str, int | None, int | None], ...] = ()


def only_compiled(launcher: str) -> UserRuntimeError:
    """Return the error of calling a compiled launcher while nothing may be launched."""
    return UserRuntimeError(
        f"{launcher} was only compiled",
        code="FLY-U422",
        value=f"{COMPILE_ONLY.name}=1",
        hint=f"unset {COMPILE_ONLY.name} to launch it",
    )
