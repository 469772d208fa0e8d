"""Dumps of a compile: every stage as a numbered file, under ``FLYDSL_DUMP_IR=1``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from flydsl.codegen import CodegenRequest, CodegenResult
from flydsl.config import CompileOptions
from flydsl.errors import UserValueError
from flydsl.plugins.payloads import CodeObject

__all__ = ["Dumper"]


class Dumper:
    """Writes the files of one compile, or nothing.

    The folder is ``<dump_dir>/<launcher>-<digest>``: compiling the same specialisation again
    overwrites its files.

    Args:
        options: Whether and where to dump.
        launcher: Name of the launcher.
        digest: Distinguishes specialisations, targets and options.
    """

    def __init__(self, options: CompileOptions, launcher: str, digest: str) -> None:
        self.enabled = options.dump_ir
        name = re.sub(r"[^\w.-]", "_", launcher)
        self.folder: Path = options.dump_dir / f"{name}-{digest}"
        self._count = 0

    def _write(self, name: str, suffix: str, data: str | bytes) -> None:
        try:
            self._write_file(name, suffix, data)
        except OSError as error:
            raise UserValueError(
                f"dumps cannot be written: {error.strerror or error}",
                code="FLY-U509",
                value=str(self.folder),
                hint="FLYDSL_DUMP_DIR names a folder that exists or can be made",
            ) from error

    def _write_file(self, name: str, suffix: str, data: str | bytes) -> None:
        if self._count == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            for old in self.folder.iterdir():
                # A shorter pipeline must not leave the tail of a longer one behind.
                if re.match(r"\d\d_", old.name):
                    old.unlink()
        path = self.folder / f"{self._count:02}_{name}{suffix}"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        self._count += 1

    def module(self, name: str, module: Any) -> None:
        """Write an MLIR module as it is after the stage called `name`, with locations."""
        if self.enabled:
            text = module.operation.get_asm(enable_debug_info=True, assume_verified=False)
            self._write(name, ".mlir", text)

    def observe(self, unit: str, request: CodegenRequest, result: CodegenResult) -> None:
        """Write the LLVM IR of `unit` that the worker was given and the assembly that it made."""
        if self.enabled:
            self._write(unit, ".ll", request.llvm_ir)
            if result.llvm_ir:
                self._write(f"{unit}_optimised", ".ll", result.llvm_ir)
            if result.asm:
                self._write(unit, ".s", result.asm)

    def code(self, code: CodeObject) -> None:
        """Write the code object."""
        if self.enabled:
            self._write("kernels", f".{code.format}", code.data)
