"""A kernel as LLVM functions.

Blocks are grouped into functions of limited size, because the code generator at level 0 neither
shares stack slots nor scales well within a function. Branches within a group are jumps; across
groups a function returns the number of the block to go on at, and the kernel function calls the
group that has it. Registers are in memory between blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flydsl.errors import TargetError
from flydsl_emu.decode.instruction import EXEC, Instruction
from flydsl_emu.execution.program import Program, ending
from flydsl_emu.jit_tier.binding import Translator
from flydsl_emu.jit_tier.builder import FunctionBuilder, ModuleParts
from flydsl_emu.jit_tier.context import BARRIER, END, JUMP, SPLIT, TRAP, YIELD, WaveLayout
from flydsl_emu.jit_tier.faulting import LEFT, MISSING, TRAPPED
from flydsl_emu.jit_tier.memory import JitMachine
from flydsl_emu.jit_tier.registers import Registers
from flydsl_emu.jit_tier.values import IrValue
from flydsl_emu.semantics.value_types import B1, U64

__all__ = ["ATTRIBUTES", "KernelText", "Section", "Translation", "sections_of"]

ATTRIBUTES = (
    '\nattributes #0 = { nounwind "no-builtins" "prefer-vector-width"="512" '
    '"min-legal-vector-width"="512" }\n'
)
"""Attributes of all functions; they fix how vectors are passed, so every module has the same.
Without builtins LLVM does not turn stores into calls of the C library."""
BLOCK_LIMIT = 160
GROUP_LIMIT = 320
DOUBLED_LIMIT = 4000
"""Kernels up to this many instructions get code for waves that execute all lanes as well."""


@dataclass(frozen=True, slots=True)
class Section:
    """A piece of straight-line code: one block of the generated code.

    Attributes:
        start, next: Offsets in the kernel.
        body: Instructions before the ending one.
        end: As for `flydsl_emu.execution.Block`.
        last: The ending instruction, None for ``"fall"``.
    """

    start: int
    next: int
    body: tuple[Instruction, ...]
    end: str
    last: Instruction | None

    @property
    def vector(self) -> bool:
        """Whether the block writes vector registers."""
        return any(i.name[0] != "s" for i in self.body)

    @property
    def length(self) -> int:
        """Instructions of the block."""
        return len(self.body) + (self.last is not None)


def sections_of(program: Program, entry: int, extra: Iterable[int] = ()) -> list[Section]:
    """Return the blocks that `entry` and the offsets in `extra` lead to, in address order."""
    base = program.base
    leaders = {entry, *extra}
    pending, found = [entry, *extra], {}
    while pending:
        start = pending.pop()
        if start in found:
            continue
        section = _section(program, start, leaders)
        if section is None:
            continue
        found[start] = section
        if section.end not in ("end", "trap", "branch"):
            pending.append(section.next)
        if section.last is not None and section.last.target is not None:
            pending.append(section.last.target - base)
    return [found[start] for start in sorted(found)]


def _section(program: Program, start: int, leaders: set[int]) -> Section | None:
    base = program.base
    sequence = program.sequence(start + base)
    if sequence is None:
        return None
    instructions, at = sequence
    body: list[Instruction] = []
    for i in instructions[at:]:
        offset = i.pc - base
        led = offset in leaders or program.leads(i.pc)
        if offset != start and (led or len(body) >= BLOCK_LIMIT):
            return Section(start, offset, tuple(body), "fall", None)
        end = ending(i)
        if end is not None:
            return Section(start, offset + i.size, tuple(body), end, i)
        body.append(i)
    last = instructions[-1]
    return Section(start, last.pc + last.size - base, tuple(body), "fall", None)


@dataclass(slots=True)
class KernelText:
    """LLVM text of a kernel and what it refers to.

    Attributes:
        text: The module.
        imports: Support routines, in the order of the context's table.
        instructions: Offset of an instruction for each routine that is one.
        messages: Texts of requirements by number.
        starts: Offset of each block, by number.
        lengths: Instructions of each block.
        continued: For each block the one that merely continues it (split by this tier), or -1.
    """

    text: str
    imports: list[str]
    instructions: dict[str, int]
    messages: list[str]
    starts: list[int]
    lengths: list[int]
    continued: list[int]


class Translation:
    """Translates one kernel.

    Args:
        program: The kernel.
        layout: Registers of a wave.
        entry: Offset of the first instruction to run.
        extra: Offsets of more blocks, reached by indirect jumps.
    """

    def __init__(
        self, program: Program, layout: WaveLayout, entry: int, extra: Iterable[int] = ()
    ) -> None:
        self.program = program
        self.layout = layout
        self.sections = sections_of(program, entry, extra)
        self.number = {s.start: n for n, s in enumerate(self.sections)}
        self.parts = ModuleParts()
        self.messages: list[str] = []
        self.doubled = sum(s.length for s in self.sections) <= DOUBLED_LIMIT
        self._group: set[int] = set()

    def text(self) -> KernelText:
        """Translate everything."""
        groups = self._groups()
        functions = [self._function(n, group) for n, group in enumerate(groups)]
        functions.append(self._dispatcher(groups))
        text = self.parts.text() + "\n".join(functions) + ATTRIBUTES
        base = self.program.base
        return KernelText(
            text,
            list(self.parts.imports),
            {name: i.pc - base for name, i in self.parts.instructions.items()},
            self.messages,
            [s.start for s in self.sections],
            [s.length for s in self.sections],
            [self._continued(s) for s in self.sections],
        )

    def _continued(self, section: Section) -> int:
        if section.end != "fall" or self.program.leads(section.next + self.program.base):
            return -1
        return self.number.get(section.next, -1)

    def complaint(self, i: Instruction) -> TargetError | None:
        """Return the error that translating `i` ends with."""
        v = JitMachine(FunctionBuilder(ModuleParts()), self.layout.lanes)
        v.messages = []
        registers = Registers(v, self.layout)
        v.execution = registers.exec
        kernel = self.program.kernel
        try:
            Translator(v, registers, kernel.name, kernel.arch, self.program.base).emit(i)
        except TargetError as error:
            return error
        return None

    def _groups(self) -> list[list[int]]:
        groups: list[list[int]] = [[]]
        size = 0
        for n, section in enumerate(self.sections):
            if groups[-1] and size + section.length > GROUP_LIMIT:
                groups.append([])
                size = 0
            groups[-1].append(n)
            size += section.length
        return groups

    def _dispatcher(self, groups: list[list[int]]) -> str:
        cases = " ".join(f"i32 {n}, label %g{k}" for k, group in enumerate(groups) for n in group)
        calls = "\n".join(
            f"g{k}:\n  %r{k} = call i32 @group{k}(ptr %state, ptr %context, i32 %block)\n"
            f"  br label %check"
            for k in range(len(groups))
        )
        returned = ", ".join(f"[ %r{k}, %g{k} ]" for k in range(len(groups)))
        return f"""
define i32 @kernel(ptr %state, ptr %context) #0 {{
entry:
  %place = getelementptr i8, ptr %state, i64 {self.layout.resume}
  %first = load i32, ptr %place, align 4
  br label %again
again:
  %block = phi i32 [ %first, %entry ], [ %result, %check ]
  switch i32 %block, label %bad [ {cases} ]
bad:
  unreachable
{calls}
check:
  %result = phi i32 {returned}
  %more = icmp sge i32 %result, 0
  br i1 %more, label %again, label %done
done:
  ret i32 %result
}}
"""

    def _function(self, n: int, group: list[int]) -> str:
        code = FunctionBuilder(self.parts)
        v = JitMachine(code, self.layout.lanes)
        v.messages = self.messages
        registers = Registers(v, self.layout)
        v.execution = registers.exec
        kernel = self.program.kernel
        translator = Translator(v, registers, kernel.name, kernel.arch, self.program.base)
        self._group = set(group)
        for at in group:
            _BlockWriter(self, translator, at).write()
        cases = " ".join(f"i32 {k}, label %b{k}" for k in group)
        body = "\n".join(code.lines)
        stack = "\n".join(code.entry)
        return f"""
define internal i32 @group{n}(ptr %state, ptr %context, i32 %block) #0 {{
entry:
{stack}
  switch i32 %block, label %bad [ {cases} ]
bad:
  unreachable
{body}
}}
"""

    def in_group(self, number: int) -> bool:
        """Return whether the function being written has a block."""
        return number in self._group


class _BlockWriter:
    """Writes one block."""

    def __init__(self, translation: Translation, translator: Translator, at: int) -> None:
        self.translation = translation
        self.translator = translator
        self.code = translator.v.code
        self.registers = translator.registers
        self.at = at
        self.section = translation.sections[at]

    def write(self) -> None:
        """Write the block."""
        self.code.block(f"b{self.at}")
        self.registers.forget()
        self._account()
        if self.translation.doubled and self.section.vector:
            # Most waves execute all lanes; without masks the code is a third faster.
            full, part = f"b{self.at}.full", f"b{self.at}.part"
            bits = self.registers.mask_bits(EXEC)
            every = (1 << self.translation.layout.lanes) - 1
            test = self.code.emit(f"icmp eq i64 {bits.text}, {every}")
            self.code.line(f"br i1 {test}, label %{full}, label %{part}")
            self.code.block(full)
            self.registers.forget()
            self.registers.full = True
            self._body()
            self.code.block(part)
            self.registers.forget()
        self._body()

    def _body(self) -> None:
        section = self.section
        try:
            for i in section.body:
                self.translator.emit(i)
            if section.last is not None:
                self._end(section.last)
            else:
                self._go(section.next)
        except TargetError:
            # Only a wave that gets here may complain.
            self.translator.v.fail(IrValue("true", B1, True, True), MISSING)
            self.code.line(f"ret i32 {TRAP}")

    def _account(self) -> None:
        v, code = self.translator.v, self.code
        fuel = v.context_field("fuel")
        left = code.effect(f"load i64, ptr {fuel}, align 8")
        left = code.effect(f"sub i64 {left}, {self.section.length}")
        code.line(f"store i64 {left}, ptr {fuel}, align 8")
        table = code.effect(f"load ptr, ptr {v.context_field('counts')}, align 8")
        place = code.effect(f"getelementptr i64, ptr {table}, i64 {self.at}")
        count = code.effect(f"load i64, ptr {place}, align 8")
        count = code.effect(f"add i64 {count}, 1")
        code.line(f"store i64 {count}, ptr {place}, align 8")

    # Endings -------------------------------------------------------------------------------------
    def _end(self, last: Instruction) -> None:
        end = self.section.end
        base = self.translation.program.base
        if end == "branch":
            self._go((last.target or 0) - base)
        elif end == "conditional":
            self._conditional(last)
        elif end == "end":
            self.registers.flush()
            self.code.line(f"ret i32 {END}")
        elif end == "barrier":
            self.registers.flush()
            self._leave(BARRIER, self.section.next)
        elif end == "split":
            value = self.translator.emit(last)
            assert value is not None
            wide = self.translator.v.convert(value, U64)
            self._hand_over(wide)
            self._leave(SPLIT, self.section.next)
        elif end == "jump":
            self._jump(last)
        else:
            self.translator.v.pc = last.pc - base
            self.translator.v.fail(IrValue("true", B1, True, True), TRAPPED)
            self.code.line(f"ret i32 {TRAP}")

    def _hand_over(self, value: IrValue) -> None:
        """Put a value where the scheduler finds it."""
        self.registers.flush()
        field = self.translator.v.context_field("jump")
        self.code.line(f"store i64 {value.text}, ptr {field}, align 8")

    def _leave(self, result: int, offset: int) -> None:
        """Return to the scheduler; the wave goes on at `offset`."""
        number = self.translation.number.get(offset, 0)
        place = self.code.effect(
            f"getelementptr i8, ptr %state, i64 {self.translation.layout.resume}"
        )
        self.code.line(f"store i32 {number}, ptr {place}, align 4")
        self.code.line(f"ret i32 {result}")

    def _goto(self, offset: int) -> None:
        """End the LLVM block with a jump to the code at `offset`; registers are in memory."""
        number = self.translation.number.get(offset)
        code = self.code
        if number is None:
            self.translator.v.fail(IrValue("true", B1, True, True), LEFT)
            code.line(f"ret i32 {TRAP}")
            return
        if offset <= self.section.start:
            fuel = self.translator.v.context_field("fuel")
            left = code.effect(f"load i64, ptr {fuel}, align 8")
            empty = code.effect(f"icmp slt i64 {left}, 0")
            out, onward = code.label("yield"), code.label("onward")
            code.line(f"br i1 {empty}, label %{out}, label %{onward}")
            code.join(out)
            self._leave(YIELD, offset)
            code.join(onward)
        if self.translation.in_group(number):
            code.line(f"br label %b{number}")
        else:
            code.line(f"ret i32 {number}")

    def _go(self, offset: int) -> None:
        self.registers.flush()
        self._goto(offset)

    def _conditional(self, last: Instruction) -> None:
        condition = self.translator.emit(last)
        assert condition is not None
        self.registers.flush()
        code = self.code
        taken, other = code.label("taken"), code.label("other")
        code.line(f"br i1 {condition.text}, label %{taken}, label %{other}")
        places = (taken, (last.target or 0) - self.translation.program.base)
        for label, offset in (places, (other, self.section.next)):
            with code.scoped():
                code.join(label)
                self._goto(offset)

    def _jump(self, last: Instruction) -> None:
        address = self.translator.emit(last)
        assert address is not None
        self._hand_over(address)
        code = self.code
        place = self.translator.v.context_field("code")
        start = code.effect(f"load i64, ptr {place}, align 8")
        offset = code.effect(f"sub i64 {address.text}, {start}")
        known = sorted(self.translation.number.items())
        unknown = code.label("unknown")
        labels = [code.label("to") for _ in known]
        cases = " ".join(
            f"i64 {at}, label %{label}" for (at, _), label in zip(known, labels, strict=True)
        )
        code.line(f"switch i64 {offset}, label %{unknown} [ {cases} ]")
        for (at, _), label in zip(known, labels, strict=True):
            with code.scoped():
                code.join(label)
                self._goto(at)
        code.join(unknown)
        code.line(f"ret i32 {JUMP}")
