"""A kernel compiled for the host."""

from __future__ import annotations

import hashlib
from typing import Any

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.execution.program import Program
from flydsl_emu.jit_tier.context import WaveLayout
from flydsl_emu.jit_tier.host_code import CodeCache, MappedImage, compiled
from flydsl_emu.jit_tier.library import Library
from flydsl_emu.jit_tier.translate import Translation

__all__ = ["CompiledKernel"]


class CompiledKernel:
    """Machine code of one kernel and the routines that it calls.

    Args:
        program: The kernel.
        library: Support routines.
        entry: Offset of the first instruction to run.
        extra: Offsets reached by indirect jumps.
        level: Optimisation level, 0 or 1.

    Attributes:
        layout: Registers of a wave.
        starts: Offset of each block.
        lengths: Instructions of each block.
        continued: For each block the one that merely continues it, or -1.
        messages: Requirements by number.
        cached: The code came from the disk.
        extra, level: As given.

    Raises:
        TargetError: The host's code generator cannot compile it.
    """

    def __init__(
        self,
        program: Program,
        library: Library,
        entry: int,
        extra: frozenset[int] = frozenset(),
        level: int = 0,
    ) -> None:
        self.library = library
        self.level = level
        self.extra = extra
        self.layout = WaveLayout.of(program.kernel)
        self.driver = f"driver.{self.layout.lanes}.{self.layout.vectors}.{self.layout.accumulators}"
        key = kernel_key(program, entry, extra, level)
        image = library.cache.load(key)
        self.cached = image is not None
        if image is None:
            image = self._made(program, library.cache, key, entry, extra)
        notes: dict[str, Any] = image.notes
        self.imports: list[str] = notes["imports"]
        self.messages: list[str] = notes["messages"]
        self.starts: list[int] = notes["starts"]
        self.lengths: list[int] = notes["lengths"]
        self.continued: list[int] = notes["continued"]
        instructions = self._instructions(program, notes["instructions"])
        library.require(
            (self.driver, *self.imports), instructions, program.kernel.arch, self.layout.lanes
        )
        self._image = image
        self.address = image.address("kernel")

    def _made(
        self, program: Program, cache: CodeCache, key: str, entry: int, extra: frozenset[int]
    ) -> MappedImage:
        made = Translation(program, self.layout, entry, extra).text()
        notes: dict[str, object] = {
            "imports": made.imports,
            "instructions": made.instructions,
            "messages": made.messages,
            "starts": made.starts,
            "lengths": made.lengths,
            "continued": made.continued,
        }
        return cache.keep(key, compiled(made.text, self.level), notes)

    @staticmethod
    def _instructions(program: Program, offsets: dict[str, int]) -> dict[str, Instruction]:
        found = {name: program.at(offset + program.base) for name, offset in offsets.items()}
        return {name: i for name, i in found.items() if i is not None}

    def routines(self) -> list[int]:
        """Return the addresses for the context's table."""
        return [self.library.address(name) for name in self.imports]


def kernel_key(
    program: Program, entry: int, extra: frozenset[int] = frozenset(), level: int = 0
) -> str:
    """Return the key of a kernel in the cache of code."""
    kernel = program.kernel
    code = hashlib.sha256(kernel.text if extra else kernel.code).hexdigest()
    layout = WaveLayout.of(kernel)
    parts = (layout.lanes, layout.vectors, layout.accumulators, entry, sorted(extra), level)
    return f"kernel {kernel.arch} {code} {parts}"
