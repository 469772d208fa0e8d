"""Instructions bound to a batch: one closure each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from flydsl.errors import TargetError
from flydsl_emu.decode.instruction import EXEC, M0, VCC, Instruction, Operand
from flydsl_emu.execution.setup import CLUSTER_STATE
from flydsl_emu.numpy_tier.memory import MemoryAccess
from flydsl_emu.numpy_tier.moding import (
    arithmetic_under,
    flushed_result,
    flushing_getter,
    flushing_writer,
    indexed_operands,
)
from flydsl_emu.numpy_tier.operands import Fixed, Getter, Operands, called, mapped
from flydsl_emu.semantics import modifiers
from flydsl_emu.semantics.catalogue import find
from flydsl_emu.semantics.generation import generation
from flydsl_emu.semantics.layout import Layout, immediate, lacks_clamp, source_half
from flydsl_emu.semantics.modes import DEFAULT_MODE, INDEX_MODE, clamps_nan
from flydsl_emu.semantics.registry import IMPLICIT, Semantics
from flydsl_emu.semantics.value_types import F32, TYPES, U16, U32, U64, Type

__all__ = ["Binder"]

Array = Any
Writer = Callable[[Any], None]

_VCC = Operand("s", VCC, 2)
_EXEC = Operand("s", EXEC, 2)
_M0 = Operand("s", M0, 1)


class Binder:
    """Binds instructions to one batch.

    Args:
        machine: The batch.
        kernel: Kernel name, for messages.
        arch: Architecture name.
        mode: Value of the MODE register that the bound instructions run under.
    """

    def __init__(
        self, machine: MemoryAccess, kernel: str, arch: str, mode: int = DEFAULT_MODE
    ) -> None:
        self.arch = arch
        self.mode = mode
        self.machine = machine
        self._api: Any = machine
        self.state = machine.state
        self.generation = generation(arch)
        self.operands = Operands(machine)
        self.kernel = kernel

    def semantics(self, i: Instruction) -> Semantics:
        """Return what `i` means.

        Raises:
            TargetError: The emulator does not implement it.
        """
        found = find(i.name)
        if found is None:
            raise TargetError(
                f"kernel {self.kernel!r}: the emulator does not implement `{i.name}`",
                code="FLY-T704",
                value=f"pc {i.pc:#x}: {i}",
                hint="report the instruction, or compile for another architecture",
            )
        if lacks_clamp(i, found):
            raise TargetError(
                f"kernel {self.kernel!r}: the emulator does not implement clamp on `{i.name}`",
                code="FLY-T704",
                value=f"pc {i.pc:#x}: {i}",
            )
        return found

    def bind(self, i: Instruction) -> Callable[[], Any]:
        """Return a closure that executes `i`; a branch gives its condition, a jump its address."""
        if i.parts:
            return self._dual(i)
        s = self.semantics(i)
        if self.mode & INDEX_MODE and i.format.startswith("VOP"):
            moved = indexed_operands(self.operands, i, s, self.mode >> 32, self.kernel)
            if moved is not None:
                before, inner, after = moved
                run = self._bound(inner, s)
                return lambda: (before(), run(), after())[1]
        return self._bound(i, s)

    def _bound(self, i: Instruction, s: Semantics) -> Callable[[], Any]:
        self._api = arithmetic_under(self.machine, i, s, self.mode, self.kernel)
        function = s.function
        if i.mods.get("clamp") and s.saturating is not None:
            function = s.saturating
        if s.packed:
            return self._packed(i, s, function)
        layout = Layout(i, s)
        getters = [self._source(i, s, layout, k) for k in range(len(s.sources))]
        writers = self._writers(i, s, layout)
        return self._closure(function, getters, writers, s)

    # Closures ------------------------------------------------------------------------------------
    def _closure(
        self,
        function: Callable[..., Any],
        getters: list[Getter],
        writers: list[Writer | None],
        s: Semantics,
    ) -> Callable[[], Any]:
        compute = self._compute(function, getters)
        if s.results and s.results[0] in ("barrier", "branch", "jump"):
            return compute
        if not writers:
            return compute
        if len(writers) == 1:
            write = writers[0]
            if write is None:
                return compute
            return lambda: write(compute())
        places = tuple(writers)
        exchange = any(token.startswith("both") for token in s.results)

        def run() -> Any:
            results = compute()
            if exchange:
                results = tuple(np.array(x) for x in results)
            if not isinstance(results, tuple):
                results = (results,) * len(places)
            for write, result in zip(places, results, strict=True):
                if write is not None:
                    write(result)
            return results[-1] if s.results[-1] == "jump" else None

        return run

    def _compute(self, function: Callable[..., Any], getters: list[Getter]) -> Callable[[], Any]:
        machine = self._api
        if all(isinstance(g, Fixed) for g in getters):
            values = tuple(g.value for g in getters if isinstance(g, Fixed))
            return lambda: function(machine, *values)
        gets = tuple(called(g) for g in getters)
        if len(gets) == 1:
            (one,) = gets
            return lambda: function(machine, one())
        if len(gets) == 2:
            first, second = gets
            return lambda: function(machine, first(), second())
        return lambda: function(machine, *[g() for g in gets])

    def _dual(self, i: Instruction) -> Callable[[], Any]:
        """Return the closure of a dual instruction: both parts read before either writes."""
        computes, writers = [], []
        for part in i.parts:
            s = self.semantics(part)
            self._api = arithmetic_under(self.machine, part, s, self.mode, self.kernel)
            layout = Layout(part, s)
            getters = [self._source(part, s, layout, k) for k in range(len(s.sources))]
            computes.append(self._compute(s.function, getters))
            writers.append(self._typed_writer(part, s, part.operands[0], TYPES[s.results[0]], True))
        (first, second), (write_first, write_second) = computes, writers
        file = self.state.vector

        def run() -> None:
            x, y = first(), second()
            # A result that is a register itself must not change under the other write.
            kept = np.array(y) if y.base is file else y
            write_first(x)
            write_second(kept)

        return run

    # Sources -------------------------------------------------------------------------------------
    def _source(self, i: Instruction, s: Semantics, layout: Layout, k: int) -> Getter:
        token = s.sources[k]
        if token in IMPLICIT:
            return self._implicit(i, token, layout, s)
        operand = layout.source(k)
        if token == "imm":
            return Fixed(immediate(i, operand))
        if operand is None:
            return Fixed(None)
        if token == "window":
            return self.operands.registers(self._window(operand))
        if token == "regs":
            registers = self.operands.registers(operand)
            if modifiers.has_dpp(i) and layout.explicit_index(k) == 0:
                return self._dpp_registers(i, registers)
            return registers
        if token == "mask":
            return self.operands.mask(operand)
        if token == "auto":
            if operand.kind in ("off", "k"):
                return Fixed(None)
            return self.operands.typed(operand, U64 if operand.count == 2 else U32)
        return self._typed_source(i, operand, TYPES[token], layout.explicit_index(k))

    def _implicit(self, i: Instruction, token: str, layout: Layout, s: Semantics) -> Getter:
        state = self.state
        if token == "inst":
            return Fixed(i)
        if token == "arch":
            return Fixed(self.arch)
        if token == "mode":
            return Fixed(self.mode & 0xFFFFFFFF)
        if token == "hwmode":
            return Fixed(state.modes)
        if token == "place":
            return Fixed(state.scalar[CLUSTER_STATE])
        if token == "scc":
            return Fixed(state.scc)
        if token == "vcc":
            return self.operands.mask(_VCC)
        if token == "exec":
            return lambda: state.exec
        if token == "m0":
            return self.operands.typed(_M0, U32)
        if token == "pc":
            return Fixed(np.full((state.waves, 1), i.pc + i.size, np.uint64))
        first = layout.result(0)
        if first is None:
            return Fixed([])
        if token == "oldwindow":
            return self.operands.registers(self._window(first))
        if token == "oldregs":
            return self.operands.registers(first)
        kind = TYPES[s.results[0].rpartition(".")[2]]
        old = self.operands.typed(first, kind, max(0, first.half - 1))
        return flushing_getter(self.machine, old, kind, self.mode, i)

    def _typed_source(self, i: Instruction, operand: Operand, type: Type, at: int) -> Getter:
        machine = self.machine
        if i.encoding == "sdwa":
            get = self._sdwa(i, operand, type, at)
        else:
            half = source_half(i, operand, at) if type.bits == 16 else 0
            get = self.operands.typed(operand, type, half)
        if at == 0 and modifiers.has_dpp(i):
            get = self._dpp(i, get)
        get = flushing_getter(machine, get, type, self.mode, i)
        if operand.absolute or operand.negate:
            absolute, negate = operand.absolute, operand.negate
            get = mapped(get, lambda x: modifiers.sign_modified(machine, x, type, absolute, negate))
        return get

    def _sdwa(self, i: Instruction, operand: Operand, type: Type, at: int) -> Getter:
        machine = self.machine
        select, extend = i.mods.get(f"src{at}_sel", 6), operand.extend
        word = self.operands.typed(operand, U32)
        if select == 6 and type.bits == 32:
            return self.operands.typed(operand, type)

        def pick(x: Array) -> Array:
            chosen = modifiers.sdwa_source(machine, x, select, extend)
            if type.bits == 16:
                chosen = machine.convert(chosen, U16)
            return machine.cast(chosen, type)

        return mapped(word, pick)

    def _dpp(self, i: Instruction, get: Getter) -> Getter:
        machine, state = self.machine, self.state
        source = called(get)
        zero_fill = modifiers.dpp_fills_zero(i)

        def moved() -> Array:
            x, reads = modifiers.dpp_source(machine, i, source(), state.exec)
            if zero_fill:
                return np.where(reads, x, x.dtype.type(0))
            return x

        return moved

    def _window(self, operand: Operand) -> Operand:
        """Return an operand that goes on to the last vector register of the kernel."""
        return replace(operand, count=min(len(self.state.vector), 256) - operand.index)

    def _dpp_registers(self, i: Instruction, registers: Getter) -> Getter:
        get = called(registers)
        return lambda: [called(self._dpp(i, Fixed(x)))() for x in get()]

    # Results -------------------------------------------------------------------------------------
    def _writers(self, i: Instruction, s: Semantics, layout: Layout) -> list[Writer | None]:
        out: list[Writer | None] = []
        for k, token in enumerate(s.results):
            kind = token.rpartition(".")[2]
            if kind in ("barrier", "branch", "jump"):
                out.append(None)
            elif kind == "hwmode":
                out.append(self.operands.wave_writer(self.state.modes))
            elif kind == "m0":
                out.append(self.operands.scalar_writer(_M0))
            elif kind == "scc":
                out.append(self.operands.scc_writer())
            elif kind == "exec":
                out.append(self._dpp_mask(i, self.operands.mask_writer(_EXEC)))
            elif kind == "execbits":
                out.append(self.operands.exec_writer())
            else:
                out.append(self._explicit_writer(i, s, layout, k))
        return out

    def _explicit_writer(
        self, i: Instruction, s: Semantics, layout: Layout, k: int
    ) -> Writer | None:
        token = s.results[k]
        prefix, _, kind = token.rpartition(".")
        operand = layout.result(k)
        if operand is None:
            return None
        if kind == "mask":
            return self._dpp_mask(i, self.operands.mask_writer(operand))
        if kind == "window":
            operand, kind = self._window(operand), "regs"
        if kind == "regs":
            writers: list[Writer] = []
            for n in range(operand.count):
                if operand.kind == "s":
                    writers.append(self.operands.scalar_writer(operand, n))
                else:
                    masked = prefix != "unmasked"
                    write = self.operands.vector_writer(operand, n, masked)
                    writers.append(self._dpp_writer(i, write, operand, n))

            files = (self.state.vector, self.state.accumulation)

            def write_all(values: list[Array]) -> None:
                # A value that is a register itself must not change under the first write.
                own = [np.array(x) if any(x.base is f for f in files) else x for x in values]
                # A compare-and-swap returns half as many registers as it takes.
                for write, x in zip(writers, own, strict=prefix != "replaced"):
                    write(x)

            return write_all
        return self._typed_writer(i, s, operand, TYPES[kind], prefix != "always")

    def _typed_writer(
        self, i: Instruction, s: Semantics, operand: Operand, type: Type, masked: bool
    ) -> Writer:
        machine = self.machine
        if type.bits == 16:
            write = self._half_writer(i, s, operand)
        elif type.bits == 64 and modifiers.has_dpp(i):
            write = self._wide_dpp_writer(i, operand)
        else:
            write = self._dpp_writer(i, self.operands.writer(operand, type, masked), operand)
        if i.encoding == "sdwa" and operand.kind == "v" and i.mods.get("dst_sel", 6) != 6:
            write = self._sdwa_writer(i, operand)
        if type.kind == "f":
            omod, clamps = i.mods.get("omod", 0), i.mods.get("clamp", 0)
            keeps = clamps_nan(self.mode)
            if omod or clamps:
                plain = write

                def modified(x: Array) -> None:
                    if omod:
                        x = modifiers.output_scale(machine, x, omod)
                    plain(modifiers.clamp(machine, x, type, keeps) if clamps else x)

                write = modified
            return flushing_writer(machine, write, type, self.mode)
        return write

    def _half_writer(self, i: Instruction, s: Semantics, operand: Operand) -> Writer:
        write = self._dpp_writer(i, self.operands.writer(operand, U32), operand)
        high = operand.half == 2 or (not operand.half and i.mods.get("op_sel", 0) >> 3 & 1)
        target = self.operands.register(operand)
        keeps = operand.kind != "s" and (s.keeps_high or self.generation.keeps_half)

        def store(x: Array) -> None:
            word = x.view(np.uint16).astype(np.uint32)
            if high:
                word = (target & np.uint32(0xFFFF)) | (word << np.uint32(16))
            elif keeps:
                word = (target & np.uint32(0xFFFF0000)) | word
            write(word)

        return store

    def _dpp_lanes(self, i: Instruction) -> Callable[[], Array]:
        """Return a getter of the lanes that a DPP instruction may write."""
        machine, state = self.machine, self.state
        lanes = np.array(modifiers.dpp_write_lanes(i, machine.lane_count))[None, :]
        if modifiers.dpp_fills_zero(i):
            return lambda: lanes

        def allowed() -> Array:
            _, reads = modifiers.dpp_source(machine, i, np.uint32(0), state.exec)
            return np.logical_and(lanes, reads)

        return allowed

    def _dpp_mask(self, i: Instruction, write: Writer) -> Writer:
        """Return a mask writer that clears the lanes that DPP keeps from writing."""
        if not modifiers.has_dpp(i):
            return write
        allowed = self._dpp_lanes(i)
        return lambda x: write(np.logical_and(x, allowed()))

    def _dpp_writer(self, i: Instruction, write: Writer, operand: Operand, at: int = 0) -> Writer:
        """Return a writer of one register that leaves lanes alone that DPP does not write."""
        if operand.kind == "s" or not modifiers.has_dpp(i):
            return write
        allowed = self._dpp_lanes(i)
        target = self.operands.register(operand, at)

        def merge(x: Array) -> None:
            word = x if x.dtype == np.uint32 else x.view(np.uint32)
            write(np.where(allowed(), word, target))

        return merge

    def _wide_dpp_writer(self, i: Instruction, operand: Operand) -> Writer:
        low, high = (
            self._dpp_writer(i, self.operands.vector_writer(operand, k), operand, k) for k in (0, 1)
        )

        def write(x: Array) -> None:
            wide = x.view(np.uint64)
            low(wide.astype(np.uint32))
            high(np.right_shift(wide, np.uint64(32)).astype(np.uint32))

        return write

    def _sdwa_writer(self, i: Instruction, operand: Operand) -> Writer:
        machine = self.machine
        write = self.operands.writer(operand, U32)
        old = self.operands.register(operand)

        def store(x: Array) -> None:
            word = (
                x.view(np.uint16).astype(np.uint32) if x.dtype.itemsize == 2 else x.view(np.uint32)
            )
            write(modifiers.sdwa_result(machine, i, word, old))

        return store

    # Packed instructions -------------------------------------------------------------------------
    def _packed(
        self, i: Instruction, s: Semantics, function: Callable[..., Any]
    ) -> Callable[[], Any]:
        machine = self.machine
        element = TYPES[s.sources[0]]
        target = i.operands[0]
        halves = []
        for high in (0, 1):
            select = i.mods.get("op_sel_hi" if high else "op_sel", 0)
            negate = i.mods.get("neg_hi" if high else "neg_lo", 0)
            gets = [
                self._half_source(o, element, select >> k & 1, negate >> k & 1)
                for k, o in enumerate(i.operands[1:])
            ]
            halves.append(self._compute(function, gets))
        low, high_half = halves
        clamps = i.mods.get("clamp", 0) and element.kind == "f"
        keeps = clamps_nan(self.mode)
        if element is F32:
            writers = [
                flushing_writer(machine, self.operands.vector_writer(target, n), F32, self.mode)
                for n in (0, 1)
            ]

            def run_wide() -> None:
                results = (low(), high_half())
                for write, x in zip(writers, results, strict=True):
                    write(modifiers.clamp(machine, x, element, keeps) if clamps else x)

            return run_wide
        write = self.operands.vector_writer(target)

        def run() -> None:
            parts = []
            for compute in (low, high_half):
                x = compute()
                x = modifiers.clamp(machine, x, element, keeps) if clamps else x
                x = flushed_result(machine, x, element, self.mode)
                parts.append(x.view(np.uint16).astype(np.uint32))
            write(parts[0] | parts[1] << np.uint32(16))

        return run

    def _half_source(self, operand: Operand, type: Type, high: int, negate: int) -> Getter:
        machine = self.machine
        if type is F32:
            at = high if operand.count > 1 and not operand.constant else 0
            single = Operand(operand.kind, operand.index + at, 1, operand.value)
            get = self.operands.typed(single, type)
        else:
            get = self.operands.typed(operand, type, high)
        get = flushing_getter(machine, get, type, self.mode, None)
        if negate and type.kind == "f":
            get = mapped(get, machine.neg)
        return get
