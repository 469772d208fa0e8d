"""Instructions as LLVM IR: the signature's operands read, the meaning emitted, results written."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flydsl.errors import TargetError
from flydsl_emu.decode.instruction import EXEC, M0, VCC, Instruction, Operand
from flydsl_emu.jit_tier.memory import LANDED, JitMachine
from flydsl_emu.jit_tier.operands import Operands, is_constant
from flydsl_emu.jit_tier.outlining import outlined, routine_name
from flydsl_emu.jit_tier.registers import Registers
from flydsl_emu.jit_tier.values import IrValue
from flydsl_emu.semantics import modifiers
from flydsl_emu.semantics.catalogue import find
from flydsl_emu.semantics.generation import generation
from flydsl_emu.semantics.layout import Layout, immediate, lacks_clamp, source_half
from flydsl_emu.semantics.modes import DEFAULT_MODE
from flydsl_emu.semantics.registry import IMPLICIT, Semantics
from flydsl_emu.semantics.value_types import F32, TYPES, U16, U32, U64, Type

__all__ = ["Translator"]

_M0 = Operand("s", M0, 1)
_PLAIN_LOAD = re.compile(
    r"((global|flat|scratch)_load_(dword(x[234])?|b(32|64|96|128))|ds_(read|load)_b(32|64|96|128))$"
)


class Translator:
    """Emits instructions.

    Args:
        v: Vector API.
        registers: Register file.
        kernel: Kernel name, for messages.
        arch: Architecture name.
        base: Address of the kernel's first instruction.
        mode: Value of the MODE register that the instructions run under.
    """

    def __init__(
        self,
        v: JitMachine,
        registers: Registers,
        kernel: str,
        arch: str,
        base: int,
        mode: int = DEFAULT_MODE,
    ) -> None:
        self.mode = mode
        self.v = v
        self.registers = registers
        self.operands = Operands(v, registers)
        self.kernel = kernel
        self.arch = arch
        self.base = base
        self.generation = generation(arch)

    def semantics(self, i: Instruction) -> Semantics:
        """Return what `i` means.

        Raises:
            TargetError: The emulator does not implement it.
        """
        found = find(i.name)
        if found is None:
            raise self._missing(i, f"`{i.name}`")
        return found

    def _missing(self, i: Instruction, what: str) -> TargetError:
        return TargetError(
            f"kernel {self.kernel!r}: the emulator does not implement {what}",
            code="FLY-T704",
            value=f"pc {i.pc:#x}: {i}",
            hint="report the instruction, or compile for another architecture",
        )

    def emit(self, i: Instruction) -> IrValue | None:
        """Emit `i`; return the condition of a branch, the address of a jump, a barrier's operand.

        Raises:
            TargetError: The emulator does not implement it.
        """
        self.v.pc = i.pc - self.base
        if i.parts:
            self._dual(i)
            return None
        s = self.semantics(i)
        if lacks_clamp(i, s):
            raise self._missing(i, f"clamp on `{i.name}`")
        if {"hwmode", "place"} & {*s.sources, *s.results}:
            # Such kernels run on the numpy tier (see `flydsl_emu.dispatch.choice`).
            raise self._missing(i, f"`{i.name}` in compiled kernels")
        if outlined(s):
            self._outlined(i, s)
            return None
        function = s.function
        if i.mods.get("clamp") and s.saturating is not None:
            function = s.saturating
        if s.packed:
            self._packed(i, s, function)
            return None
        layout = Layout(i, s)
        landing = self._landing(i, layout)
        sources = [
            # A load that lands in its registers keeps nothing of them.
            self._source(i, s, layout, k) if landing is None or token != "oldregs" else []
            for k, token in enumerate(s.sources)
        ]
        self.v.landing = landing
        results = function(self.v, *sources)
        self.v.landing = None
        return self._finish(i, s, layout, results)

    def _landing(self, i: Instruction, layout: Layout) -> tuple[str, int] | None:
        """Return address and number of the registers that a plain load of all lanes fills."""
        target = layout.result(0)
        if target is None or not self.registers.full or not _PLAIN_LOAD.match(i.name):
            return None
        return self.registers.address(target.kind, target.index), target.count

    def _dual(self, i: Instruction) -> None:
        """Emit a dual instruction: both parts read before either writes."""
        pending = []
        for part in i.parts:
            s = self.semantics(part)
            layout = Layout(part, s)
            sources = [self._source(part, s, layout, k) for k in range(len(s.sources))]
            pending.append((part, s, s.function(self.v, *sources)))
        for part, s, result in pending:
            self._write_typed(part, s, part.operands[0], TYPES[s.results[0]], True, result)

    # Results -------------------------------------------------------------------------------------
    def _finish(self, i: Instruction, s: Semantics, layout: Layout, results: Any) -> IrValue | None:
        if not s.results:
            return None
        if s.results[0] in ("branch", "barrier"):
            value: IrValue = results
            return value
        if len(s.results) == 1:
            self._write(i, s, layout, 0, results)
            return results if s.results[0] == "jump" else None
        values = results if isinstance(results, tuple) else (results,) * len(s.results)
        for k, value in zip(range(len(s.results)), values, strict=True):
            self._write(i, s, layout, k, value)
        return values[-1] if s.results[-1] == "jump" else None

    def _write(self, i: Instruction, s: Semantics, layout: Layout, k: int, value: Any) -> None:
        prefix, _, kind = s.results[k].rpartition(".")
        if kind == "scc":
            self.operands.write_condition(value)
        elif kind == "exec":
            self._write_mask(i, EXEC, value)
        elif kind == "execbits":
            self.registers.write_bits(EXEC, value)
        elif kind != "jump":
            operand = layout.result(k)
            if operand is None:
                return
            if kind == "window":
                operand = self._window(operand)
            if kind == "mask":
                self._write_mask(i, operand.index, value)
            elif kind == "regs" and any(x.text == LANDED for x in value):
                self.registers.changed(operand.kind, operand.index, operand.count)
            elif kind in ("regs", "window"):
                # A compare-and-swap returns half as many registers as it takes.
                for n, x in zip(range(operand.count), value, strict=prefix != "replaced"):
                    self._write_word(i, operand, n, x, prefix != "unmasked")
            else:
                self._write_typed(i, s, operand, TYPES[kind], prefix != "always", value)

    def _write_mask(self, i: Instruction, index: int, mask: IrValue) -> None:
        if modifiers.has_dpp(i):
            mask = self.v.bit_and(mask, self._dpp_lanes(i))
        self.operands.write_mask(index, mask)

    def _write_word(
        self, i: Instruction, operand: Operand, at: int, x: IrValue, masked: bool = True
    ) -> None:
        """Write one register, sparing lanes that DPP does not write."""
        if operand.kind != "s" and modifiers.has_dpp(i):
            old = self.registers.word(operand, at)
            x = self.v.select(self._dpp_lanes(i), self.v.cast(x, U32), old)
        self.operands.write_word(operand, at, x, masked)

    def _write_typed(
        self,
        i: Instruction,
        s: Semantics,
        operand: Operand,
        type: Type,
        masked: bool,
        x: IrValue,
    ) -> None:
        v = self.v
        if type.kind == "f":
            if i.mods.get("omod", 0):
                x = modifiers.output_scale(v, x, i.mods["omod"])
            if i.mods.get("clamp", 0):
                x = modifiers.clamp(v, x, type)
        if i.encoding == "sdwa" and operand.kind == "v" and i.mods.get("dst_sel", 6) != 6:
            word = v.convert(v.cast(x, U16), U32) if x.type.bits == 16 else v.cast(x, U32)
            old = self.registers.word(operand)
            self.operands.write(operand, modifiers.sdwa_result(v, i, word, old))
        elif type.bits == 16:
            self._write_half(i, s, operand, x)
        elif type.bits == 64:
            wide = v.cast(x, U64)
            self._write_word(i, operand, 0, v.convert(wide, U32), masked)
            self._write_word(i, operand, 1, v.convert(v.shr(wide, 32), U32), masked)
        else:
            self._write_word(i, operand, 0, x, masked)

    def _write_half(self, i: Instruction, s: Semantics, operand: Operand, x: IrValue) -> None:
        v = self.v
        word = v.convert(v.cast(x, U16), U32)
        high = operand.half == 2 or (not operand.half and i.mods.get("op_sel", 0) >> 3 & 1)
        if high:
            low = v.bit_and(self.registers.word(operand), 0xFFFF)
            word = v.bit_or(low, v.shl(word, 16))
        elif operand.kind != "s" and (s.keeps_high or self.generation.keeps_half):
            word = v.bit_or(v.bit_and(self.registers.word(operand), 0xFFFF0000), word)
        self._write_word(i, operand, 0, word)

    # Sources -------------------------------------------------------------------------------------
    def _source(self, i: Instruction, s: Semantics, layout: Layout, k: int) -> Any:
        token = s.sources[k]
        if token in IMPLICIT:
            return self._implicit(i, token, layout, s)
        operand = layout.source(k)
        if token == "imm":
            return immediate(i, operand)
        if operand is None:
            return None
        if token == "window":
            return self.operands.words(self._window(operand))
        if token == "regs":
            words = self.operands.words(operand)
            if words is not None and modifiers.has_dpp(i) and layout.explicit_index(k) == 0:
                return [self._dpp(i, x) for x in words]
            return words
        if token == "mask":
            return self.operands.mask(operand)
        if token == "auto":
            if operand.kind in ("off", "k"):
                return None
            return self.operands.typed(operand, U64 if operand.count == 2 else U32)
        return self._typed_source(i, operand, TYPES[token], layout.explicit_index(k))

    def _implicit(self, i: Instruction, token: str, layout: Layout, s: Semantics) -> Any:
        if token == "inst":
            return i
        if token == "arch":
            return self.arch
        if token == "mode":
            return self.mode
        if token == "scc":
            return self.operands.condition()
        if token == "vcc":
            return self.registers.mask(VCC)
        if token == "exec":
            return self.registers.exec()
        if token == "m0":
            return self.operands.typed(_M0, U32)
        if token == "pc":
            place = self.v.context_field("code")
            start = IrValue(self.v.code.effect(f"load i64, ptr {place}, align 8"), U64, True)
            return self.v.add(start, i.pc + i.size - self.base)
        first = layout.result(0)
        if first is None:
            return []
        if token == "oldwindow":
            return self.operands.words(self._window(first))
        if token == "oldregs":
            return self.operands.words(first)
        half = max(0, first.half - 1)
        return self.operands.typed(first, TYPES[s.results[0].rpartition(".")[2]], half)

    def _window(self, operand: Operand) -> Operand:
        """Return an operand that goes on to the last vector register of the kernel."""
        last = min(self.registers.layout.vectors, 256)
        return replace(operand, count=last - operand.index)

    def _typed_source(self, i: Instruction, operand: Operand, type: Type, at: int) -> IrValue:
        if i.encoding == "sdwa":
            x = self._sdwa(i, operand, type, at)
        else:
            half = source_half(i, operand, at) if type.bits == 16 else 0
            x = self.operands.typed(operand, type, half)
        if at == 0 and modifiers.has_dpp(i):
            x = self._dpp(i, x)
        modified: IrValue = modifiers.sign_modified(
            self.v, x, type, operand.absolute, operand.negate
        )
        return modified

    def _sdwa(self, i: Instruction, operand: Operand, type: Type, at: int) -> IrValue:
        select = i.mods.get(f"src{at}_sel", 6)
        if select == 6 and type.bits == 32:
            return self.operands.typed(operand, type)
        word = self.operands.typed(operand, U32)
        chosen = modifiers.sdwa_source(self.v, word, select, operand.extend)
        if type.bits == 16:
            chosen = self.v.convert(chosen, U16)
        return self.v.cast(chosen, type)

    def _dpp(self, i: Instruction, x: IrValue) -> IrValue:
        moved, reads = modifiers.dpp_source(self.v, i, x, self.registers.exec())
        if modifiers.dpp_fills_zero(i):
            return self.v.select(reads, moved, self.v.const(x.type, 0))
        result: IrValue = moved
        return result

    def _dpp_lanes(self, i: Instruction) -> IrValue:
        """Return the lanes that a DPP instruction may write."""
        v = self.v
        flags = modifiers.dpp_write_lanes(i, v.lane_count)
        lanes = v.lanes(v.const(U64, sum(1 << k for k, flag in enumerate(flags) if flag)))
        if modifiers.dpp_fills_zero(i):
            return lanes
        _, reads = modifiers.dpp_source(v, i, v.const(U32, 0), self.registers.exec())
        return v.bit_and(lanes, reads)

    # Packed instructions -------------------------------------------------------------------------
    def _packed(self, i: Instruction, s: Semantics, function: Callable[..., Any]) -> None:
        v = self.v
        element = TYPES[s.sources[0]]
        target = i.operands[0]
        halves = []
        for high in (0, 1):
            select = i.mods.get("op_sel_hi" if high else "op_sel", 0)
            negate = i.mods.get("neg_hi" if high else "neg_lo", 0)
            sources = [
                self._half_source(o, element, select >> k & 1, negate >> k & 1)
                for k, o in enumerate(i.operands[1:])
            ]
            x = function(v, *sources)
            if i.mods.get("clamp", 0) and element.kind == "f":
                x = modifiers.clamp(v, x, element)
            halves.append(x)
        if element is F32:
            for n, x in enumerate(halves):
                self.operands.write_word(target, n, x)
            return
        low, high_half = (v.convert(v.cast(x, U16), U32) for x in halves)
        self.operands.write_word(target, 0, v.bit_or(low, v.shl(high_half, 16)))

    def _half_source(self, operand: Operand, type: Type, high: int, negate: int) -> IrValue:
        if type is F32:
            at = high if operand.count > 1 and not is_constant(operand) else 0
            single = Operand(operand.kind, operand.index + at, 1, operand.value)
            x = self.operands.typed(single, type)
        else:
            x = self.operands.typed(operand, type, high)
        return self.v.neg(x) if negate and type.kind == "f" else x

    # Routines for whole instructions -------------------------------------------------------------
    def _outlined(self, i: Instruction, s: Semantics) -> None:
        """Call the routine of a large instruction; it works on registers in memory."""
        layout = Layout(i, s)
        target = layout.result(0)
        assert target is not None
        direct = s.results[0] == "unmasked.regs"
        pointers = []
        # Only the accumulator, the third operand, may lie where the result does.
        third = [k for k, token in enumerate(s.sources) if token == "regs"][2:3]
        for k, token in enumerate(s.sources):
            operand = layout.source(k)
            if token in IMPLICIT or operand is None:
                continue
            same = operand.index == target.index and k in third
            overlaps = operand.kind == target.kind and not same
            near = abs(operand.index - target.index) < max(operand.count, target.count)
            if operand.kind in ("v", "a") and not (overlaps and near):
                pointers.append(self.registers.stored(operand.kind, operand.index, operand.count))
            else:
                pointers.append(self._copied(operand))
        name = routine_name(i, s, self.arch, self.v.lane_count)
        self.v.code.parts.instructions[name] = i
        result = self._result_place(target, direct)
        arguments = ["ptr %context", f"i64 {self.v.bits(self.registers.exec())}"]
        arguments += [f"ptr {p}" for p in (*pointers, result)]
        self.v.code.line(f"store i64 {self.v.pc}, ptr {self.v.context_field('site')}, align 8")
        self.v.routine(name, "void", *arguments)
        if direct:
            self.registers.changed(target.kind, target.index, target.count)
            return
        shape = self.v.shape(U32, False)
        for n in range(target.count):
            place = self.v.code.emit(
                f"getelementptr i8, ptr {result}, i64 {n * self.registers.layout.register}"
            )
            text = self.v.code.effect(f"load {shape}, ptr {place}, align 64")
            self.operands.write_word(target, n, IrValue(text, U32, False))

    def _result_place(self, target: Operand, direct: bool) -> str:
        if direct:
            return self.registers.stored(target.kind, target.index, target.count)
        return self.v.code.allocate(f"[{target.count * self.v.lane_count} x i32]")

    def _copied(self, operand: Operand) -> str:
        """Return the address of a copy of an operand, one lane vector a dword."""
        shape = self.v.shape(U32, False)
        words = self.operands.words(operand) or []
        memory = self.v.code.allocate(f"[{max(1, len(words)) * self.v.lane_count} x i32]")
        for k, x in enumerate(words):
            place = self.v.code.emit(
                f"getelementptr i8, ptr {memory}, i64 {k * self.registers.layout.register}"
            )
            self.v.code.line(f"store {shape} {self.v.text(x, False)}, ptr {place}, align 64")
        return memory
