"""Single instructions on given register contents: what compares this tier with another."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.execution.host import Allocations
from flydsl_emu.jit_tier.binding import Translator
from flydsl_emu.jit_tier.builder import FunctionBuilder, ModuleParts
from flydsl_emu.jit_tier.context import TABLE, Context, WaveLayout
from flydsl_emu.jit_tier.host_code import MappedImage, compiled
from flydsl_emu.jit_tier.library import Library
from flydsl_emu.jit_tier.memory import JitMachine
from flydsl_emu.jit_tier.memory_blocks import Aligned
from flydsl_emu.jit_tier.registers import Registers
from flydsl_emu.jit_tier.translate import ATTRIBUTES
from flydsl_emu.semantics.value_types import U64

__all__ = ["InstructionCode", "LocalSizes"]

Array = Any

_BASE = 0
_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True, slots=True)
class LocalSizes:
    """Bytes of LDS, and of the private memory of a lane."""

    lds: int
    scratch: int


class InstructionCode:
    """Instructions compiled one by one, each a function of a wave's registers.

    Args:
        instructions: The instructions, at any addresses.
        arch: Architecture.
        layout: Registers of a wave.
        library: Support routines.
        modes: MODE register at each instruction.
        full: Translate them for waves that execute all lanes, as kernels have them beside others.

    Raises:
        TargetError: An instruction that is not implemented.
    """

    def __init__(
        self,
        instructions: Sequence[Instruction],
        arch: str,
        layout: WaveLayout,
        library: Library,
        modes: Sequence[int],
        full: bool = False,
    ) -> None:
        self.layout = layout
        self.full = full
        self.library = library
        parts = ModuleParts()
        self.messages: list[str] = []
        functions = [
            self._function(n, i, arch, parts, mode)
            for n, (i, mode) in enumerate(zip(instructions, modes, strict=True))
        ]
        library.require(parts.imports, parts.instructions, arch, layout.lanes)
        image = compiled(parts.text() + "\n".join(functions) + ATTRIBUTES, 0)
        self._image = MappedImage(image, {})
        self._routines = np.array([library.address(n) for n in parts.imports], np.uint64)

    def _function(self, n: int, i: Instruction, arch: str, parts: ModuleParts, mode: int) -> str:
        code = FunctionBuilder(parts)
        v = JitMachine(code, self.layout.lanes)
        v.messages = self.messages
        registers = Registers(v, self.layout)
        registers.full = self.full
        v.execution = registers.exec
        result = Translator(v, registers, "bench", arch, _BASE, mode).emit(i)
        if result is not None:
            wide = v.convert(result, U64)
            place = v.context_field("jump")
            code.line(f"store i64 {wide.text}, ptr {place}, align 8")
        registers.flush()
        body = "\n".join((*code.entry, *code.lines))
        return (
            f"define void @i{n}(ptr %state, ptr %context) #0 {{\nentry:\n{body}\n  ret void\n}}\n"
        )

    def run(
        self,
        n: int,
        registers: Array,
        memory: Allocations,
        lds: Array,
        scratch: Array,
        sizes: LocalSizes,
    ) -> tuple[Context, Array]:
        """Run instruction `n` on one wave.

        Args:
            n: Which instruction.
            registers: Bytes of the wave, `WaveLayout.size` of them.
            memory: Host memory that may be accessed.
            lds: Bytes of LDS; changed in place, like `scratch`.
            scratch: Bytes of private memory of all lanes.
            sizes: How much of them a wave may use.

        Returns:
            The context, with the fault if there was one, and the registers after it.
        """
        state = Aligned(self.layout.size)
        state.data[:] = registers
        context = Aligned(TABLE + self._routines.nbytes)
        context.data[TABLE:] = self._routines.view(np.uint8)
        fields = Context.from_address(context.address)
        local, private = Aligned(max(64, lds.size)), Aligned(max(64, scratch.size))
        local.data[: lds.size], private.data[: scratch.size] = lds, scratch
        fields.lds, fields.lds_size = local.address, sizes.lds
        fields.scratch, fields.scratch_size = private.address, sizes.scratch
        fields.scratch_stride = sizes.scratch
        fields.code = _BASE
        tables = [np.ascontiguousarray(memory.table(write)) for write in (False, True)]
        for name, rows in zip(("readable", "writable"), tables, strict=True):
            setattr(fields, name, rows.ctypes.data)
            setattr(fields, f"{name}_count", len(rows))
        _CALL(self._image.address(f"i{n}"))(state.address, context.address)
        lds[:], scratch[:] = local.data[: lds.size], private.data[: scratch.size]
        copy = Context()
        ctypes.memmove(ctypes.addressof(copy), context.address, ctypes.sizeof(Context))
        return copy, state.data.copy()
