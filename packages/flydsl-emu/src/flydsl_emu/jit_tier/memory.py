"""Memory operations of the vector API: calls of support routines, which check bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flydsl_emu.jit_tier.context import NO_FUEL
from flydsl_emu.jit_tier.lanes import Lanes
from flydsl_emu.jit_tier.matrices import Matrices
from flydsl_emu.jit_tier.values import IrValue
from flydsl_emu.semantics.value_types import U8, U16, U32, U64

__all__ = ["LANDED", "JitMachine"]

ROUTINE = 2 << 32
"""Kinds from here on are requirements of a routine, which has its own messages."""
REQUIREMENT = 1 << 32
"""Fault kinds from here on are requirements: the index of the message is added."""


LANDED = "%landed"
"""Text of values that a load has put into their registers already."""


class JitMachine(Matrices, Lanes):
    """The vector API as LLVM IR.

    Attributes:
        messages: What `require` was asked for, by number.
        landing: Address and number of the registers that the next load of as many dwords, by all
            lanes, goes to straight away; `LANDED` stands for what it loaded.
    """

    messages: list[str]
    landing: tuple[str, int] | None = None

    # Loads and stores ----------------------------------------------------------------------------
    def _active(self, mask: IrValue | None) -> str:
        active = self.exec()
        if mask is not None:
            active = self.bit_and(active, mask)
        return self.bits(active)

    def _place(self, space: str, address: IrValue) -> str:
        width = U64 if space in ("global", "flat") else U32
        return f"{self.shape(width, False)} {self.text(address, False)}"

    def _masks(self, mask: IrValue | Sequence[IrValue] | None) -> tuple[str, str]:
        """Return the name part and the argument that tell which lanes access."""
        if mask is None or isinstance(mask, IrValue):
            return "", f"i64 {self._active(mask)}"
        texts = [self._active(m) for m in mask]
        if len(set(texts)) == 1:
            return "", f"i64 {texts[0]}"
        shape = f"<{len(texts)} x i64>"
        packed = "poison"
        for k, text in enumerate(texts):
            packed = self.code.emit(f"insertelement {shape} {packed}, i64 {text}, i32 {k}")
        return ".each", f"{shape} {packed}"

    def load(
        self,
        space: str,
        address: IrValue,
        size: int,
        count: int,
        mask: IrValue | Sequence[IrValue] | None = None,
    ) -> list[IrValue]:
        """Implement `VectorApi.load`."""
        each, active = self._masks(mask)
        shape = self.shape(U32, False)
        result = shape if count == 1 else "{" + ", ".join([shape] * count) + "}"
        place = self._place(space, address)
        if self.landing is not None and (mask, size, count) == (None, 4, self.landing[1]):
            name = f"loadto.{space}.4.{count}.{self.lane_count}"
            to = f"ptr {self.landing[0]}"
            self.landing = None
            self.routine(name, "void", "ptr %context", place, active, self.place(), to)
            return [IrValue(LANDED, U32, False)] * count
        name = f"load{each}.{space}.{size}.{count}.{self.lane_count}"
        loaded = self.routine(name, result, "ptr %context", place, active, self.place())
        if count == 1:
            return [IrValue(loaded, U32, False)]
        return [self.made(f"extractvalue {result} {loaded}, {k}", U32, False) for k in range(count)]

    def store(
        self,
        space: str,
        address: IrValue,
        size: int,
        values: Sequence[IrValue],
        mask: IrValue | Sequence[IrValue] | None = None,
    ) -> None:
        """Implement `VectorApi.store`."""
        each, active = self._masks(mask)
        name = f"store{each}.{space}.{size}.{len(values)}.{self.lane_count}"
        shape = self.shape(U32, False)
        data = [f"{shape} {self.text(x, False)}" for x in values]
        place = self._place(space, address)
        self.routine(name, "void", "ptr %context", place, active, self.place(), *data)

    def atomic(
        self,
        space: str,
        operation: str,
        address: IrValue,
        operands: Sequence[IrValue],
        mask: IrValue | None,
    ) -> IrValue:
        """Implement `VectorApi.atomic`."""
        element = operands[0].type
        shape = self.shape(element, False)
        name = f"atomic.{space}.{operation}.{element.name}.{len(operands)}.{self.lane_count}"
        data = [f"{shape} {self.text(x, False)}" for x in operands]
        active = f"i64 {self._active(mask)}"
        place, pc = self._place(space, address), self.place()
        old = self.routine(name, shape, "ptr %context", place, active, pc, *data)
        return IrValue(old, element, False)

    def load_scalar(
        self,
        address: IrValue,
        count: int,
        valid: Sequence[IrValue] | None = None,
        size: int = 4,
    ) -> list[IrValue]:
        """Implement `VectorApi.load_scalar`."""
        wanted = IrValue(str((1 << count) - 1), U64, True, True)
        if valid is not None:
            wanted = self.const(U64, 0)
            for k, flag in enumerate(valid):
                wanted = self.bit_or(wanted, self.shl(self.convert(flag, U64), k))
        result = f"<{count} x i{8 * size}>"
        loaded = self.routine(
            f"scalar.{count}.{size}",
            result,
            "ptr %context",
            f"i64 {address.text}",
            f"i64 {wanted.text}",
            self.place(),
        )
        element = {1: U8, 2: U16, 4: U32}[size]
        return [
            self.convert(
                self.made(f"extractelement {result} {loaded}, i32 {k}", element, True), U32
            )
            for k in range(count)
        ]

    # Requirements --------------------------------------------------------------------------------
    def require(self, condition: IrValue, message: str) -> None:
        """Implement `VectorApi.require`."""
        busy = self.ne(IrValue(self.bits(self.exec()), U64, True), 0)
        failed = self.bit_and(self.bit_not(condition), busy)
        key = f"require {failed.text}"
        if self.code.noted(key):
            return
        if message not in self.messages:
            self.messages.append(message)
        kind = (ROUTINE if self.site else REQUIREMENT) + self.messages.index(message)
        self.fail(failed, kind)

    def rarely(
        self, condition: IrValue, rare: Callable[[], IrValue], usual: IrValue, _what: str
    ) -> IrValue:
        """Implement `VectorApi.rarely`."""
        spread = self.text(usual, False)
        with self.code.branch(condition.text, "rare") as (before, after):
            other = rare()
            uniform = usual.uniform and other.uniform
            special = self.text(other, uniform)
            inside = self.code.current
            self.code.line(f"br label %{after}")
        self.code.join(after)
        shape = self.shape(usual.type, uniform)
        common = usual.text if uniform else spread
        text = f"phi {shape} [ {common}, %{before} ], [ {special}, %{inside} ]"
        return IrValue(self.code.effect(text), usual.type, uniform)

    def fail(self, failed: IrValue, kind: int) -> None:
        """Record a fault of this instruction if `failed` (uniform) holds and there is none."""
        place = self.context_field("fault")
        before = IrValue(self.code.effect(f"load i64, ptr {place}, align 8"), U64, True)
        first = self.bit_and(failed, self.eq(before, 0))
        where = self.const(U64, self.pc)
        if self.site:
            where = self.convert(IrValue(self.site, U32, True), U64)
        lane = self.const(U64, (1 << 64) - 1)
        values = {"fault": self.const(U64, kind), "fault_pc": where, "fault_lane": lane}
        for name, value in values.items():
            field = self.context_field(name)
            old = IrValue(self.code.effect(f"load i64, ptr {field}, align 8"), U64, True)
            new = self.select(first, value, old)
            self.code.line(f"store i64 {new.text}, ptr {field}, align 8")
        fuel = self.context_field("fuel")
        left = IrValue(self.code.effect(f"load i64, ptr {fuel}, align 8"), U64, True)
        empty = self.select(failed, self.const(U64, NO_FUEL & (1 << 64) - 1), left)
        self.code.line(f"store i64 {empty.text}, ptr {fuel}, align 8")
