"""Instructions bound to a batch: one closure each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flydsl.errors import TargetError
from flydsl_emu.decode.instruction import EXEC, M0, VCC, Instruction, Operand
from flydsl_emu.numpy_tier.memory import MemoryAccess
from flydsl_emu.numpy_tier.operands import Fixed, Getter, Operands, called, mapped
from flydsl_emu.semantics import modifiers
from flydsl_emu.semantics.catalogue import find
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
    """

    def __init__(self, machine: MemoryAccess, kernel: str, arch: str) -> None:
        self.arch = arch
        self.machine = machine
        self.state = machine.state
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
        return found

    def bind(self, i: Instruction) -> Callable[[], Any]:
        """Return a closure that executes `i`; a branch gives its condition, a jump its address."""
        s = self.semantics(i)
        function = s.function
        if i.mods.get("clamp") and s.saturating is not None:
            function = s.saturating
        if s.packed:
            return self._packed(i, s, function)
        layout = _Layout(i, s)
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
        if s.results and s.results[0] == "branch":
            return compute
        if not writers:
            return compute
        if len(writers) == 1:
            write = writers[0]
            if write is None:
                return compute
            return lambda: write(compute())
        pair = tuple(w for w in writers if w is not None)
        exchange = any(token.startswith("both") for token in s.results)

        def run() -> Any:
            results = compute()
            if exchange:
                results = tuple(np.array(x) for x in results)
            if not isinstance(results, tuple):
                results = (results,) * len(pair)
            for write, result in zip(pair, results, strict=True):
                write(result)
            return results[-1] if s.results[-1] == "jump" else None

        return run

    def _compute(self, function: Callable[..., Any], getters: list[Getter]) -> Callable[[], Any]:
        machine = self.machine
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

    # Sources -------------------------------------------------------------------------------------
    def _source(self, i: Instruction, s: Semantics, layout: _Layout, k: int) -> Getter:
        token = s.sources[k]
        if token in IMPLICIT:
            return self._implicit(i, token, layout, s)
        operand = layout.source(k)
        if operand is None:
            return Fixed(None)
        if token == "regs":
            return self.operands.registers(operand)
        if token == "mask":
            return self.operands.mask(operand)
        if token == "imm":
            return Fixed(int(operand.value))
        if token == "auto":
            if operand.kind in ("off", "k"):
                return Fixed(None)
            return self.operands.typed(operand, U64 if operand.count == 2 else U32)
        return self._typed_source(i, operand, TYPES[token], layout.explicit_index(k))

    def _implicit(self, i: Instruction, token: str, layout: _Layout, s: Semantics) -> Getter:
        state = self.state
        if token == "inst":
            return Fixed(i)
        if token == "arch":
            return Fixed(self.arch)
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
        if token == "oldregs":
            return self.operands.registers(first)
        return self.operands.typed(first, TYPES[s.results[0].rpartition(".")[2]])

    def _typed_source(self, i: Instruction, operand: Operand, type: Type, at: int) -> Getter:
        machine = self.machine
        if i.encoding == "sdwa":
            get = self._sdwa(i, operand, type, at)
        else:
            half = i.mods.get("op_sel", 0) >> at & 1 if type.bits == 16 else 0
            if operand.constant:
                half = 0
            get = self.operands.typed(operand, type, half)
        if i.encoding == "dpp" and at == 0:
            get = self._dpp(i, get)
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
        zero_fill = bool(i.mods.get("bound_ctrl"))

        def moved() -> Array:
            x, reads = modifiers.dpp_source(machine, i, source(), state.exec)
            if zero_fill:
                return np.where(reads, x, x.dtype.type(0))
            return x

        return moved

    # Results -------------------------------------------------------------------------------------
    def _writers(self, i: Instruction, s: Semantics, layout: _Layout) -> list[Writer | None]:
        out: list[Writer | None] = []
        for k, token in enumerate(s.results):
            kind = token.rpartition(".")[2]
            if kind == "branch":
                out.append(None)
            elif kind == "scc":
                out.append(self.operands.scc_writer())
            elif kind == "exec":
                write_mask = self.operands.mask_writer(_EXEC)
                out.append(write_mask)
            elif kind == "execbits":
                out.append(self.operands.exec_writer())
            elif kind == "jump":
                out.append(self._no_jump)
            else:
                out.append(self._explicit_writer(i, s, layout, k))
        return out

    @staticmethod
    def _no_jump(_address: Any) -> None:
        return None

    def _explicit_writer(
        self, i: Instruction, s: Semantics, layout: _Layout, k: int
    ) -> Writer | None:
        token = s.results[k]
        prefix, _, kind = token.rpartition(".")
        operand = layout.result(k)
        if operand is None:
            return None
        if kind == "mask":
            return self.operands.mask_writer(operand)
        if kind == "regs":
            writers: list[Writer] = []
            for n in range(operand.count):
                if operand.kind == "s":
                    writers.append(self.operands.scalar_writer(operand, n))
                else:
                    masked = prefix != "unmasked"
                    writers.append(self.operands.vector_writer(operand, n, masked))

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
        else:
            write = self.operands.writer(operand, type, masked)
        if i.encoding == "dpp" and operand.kind != "s":
            write = self._dpp_writer(i, write, operand)
        if i.encoding == "sdwa" and operand.kind == "v" and i.mods.get("dst_sel", 6) != 6:
            write = self._sdwa_writer(i, operand)
        if type.kind == "f":
            omod, clamps = i.mods.get("omod", 0), i.mods.get("clamp", 0)
            if omod or clamps:
                plain = write

                def modified(x: Array) -> None:
                    if omod:
                        x = modifiers.output_scale(machine, x, omod)
                    plain(modifiers.clamp(machine, x, type) if clamps else x)

                return modified
        elif i.mods.get("clamp") and s.saturating is None and i.format in ("VOP3", "VOP2"):
            raise TargetError(
                f"kernel {self.kernel!r}: the emulator does not implement clamp on `{i.name}`",
                code="FLY-T704",
                value=f"pc {i.pc:#x}: {i}",
            )
        return write

    def _half_writer(self, i: Instruction, s: Semantics, operand: Operand) -> Writer:
        write = self.operands.writer(operand, U32)
        high = i.mods.get("op_sel", 0) >> 3 & 1
        target = self.operands.register(operand)
        keeps = s.keeps_high or high

        def store(x: Array) -> None:
            word = x.view(np.uint16).astype(np.uint32)
            if high:
                word = (target & np.uint32(0xFFFF)) | (word << np.uint32(16))
            elif keeps:
                word = (target & np.uint32(0xFFFF0000)) | word
            write(word)

        return store

    def _dpp_writer(self, i: Instruction, write: Writer, operand: Operand) -> Writer:
        machine, state = self.machine, self.state
        lanes = np.array(modifiers.dpp_write_lanes(i))[None, :]
        zero_fill = bool(i.mods.get("bound_ctrl"))
        everything = bool(lanes.all()) and zero_fill
        if everything:
            return write
        target = self.operands.register(operand)

        def merge(x: Array) -> None:
            allowed = lanes
            if not zero_fill:
                _, reads = modifiers.dpp_source(machine, i, np.uint32(0), state.exec)
                allowed = np.logical_and(lanes, reads)
            word = x if x.dtype == np.uint32 else x.view(np.uint32)
            write(np.where(allowed, word, target))

        return merge

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
        if element is F32:
            writers = [self.operands.vector_writer(target, n) for n in (0, 1)]

            def run_wide() -> None:
                results = (low(), high_half())
                for write, x in zip(writers, results, strict=True):
                    write(modifiers.clamp(machine, x, element) if clamps else x)

            return run_wide
        write = self.operands.vector_writer(target)

        def run() -> None:
            parts = []
            for compute in (low, high_half):
                x = compute()
                x = modifiers.clamp(machine, x, element) if clamps else x
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
        if negate and type.kind == "f":
            get = mapped(get, machine.neg)
        return get


class _Layout:
    """Which operand each signature token takes."""

    def __init__(self, i: Instruction, s: Semantics) -> None:
        self._results: list[Operand | None] = []
        operands = i.operands
        at = 0
        back = 0
        for token in s.results:
            prefix, _, kind = token.rpartition(".")
            if kind in ("scc", "exec", "execbits", "branch", "jump"):
                self._results.append(None)
                continue
            if kind == "regs" and i.mods.get("lds"):
                self._results.append(None)
                continue
            if prefix in ("returned", "replaced") and not i.mods.get("sc0"):
                self._results.append(None)
                continue
            self._results.append(operands[at])
            at += 1
            if prefix in ("both", "replaced"):
                back += 1
        start = at - back
        self._sources: list[Operand | None] = []
        self._indices: list[int] = []
        count = 0
        for token in s.sources:
            if token in IMPLICIT:
                self._sources.append(None)
                self._indices.append(-1)
                continue
            place = start + count
            self._sources.append(operands[place] if place < len(operands) else None)
            self._indices.append(count)
            count += 1

    def result(self, k: int) -> Operand | None:
        """Return the operand of result `k`, or None when it has none here."""
        return self._results[k] if k < len(self._results) else None

    def source(self, k: int) -> Operand | None:
        """Return the operand of source `k`."""
        return self._sources[k]

    def explicit_index(self, k: int) -> int:
        """Return the position of source `k` among the explicit sources."""
        return self._indices[k]
