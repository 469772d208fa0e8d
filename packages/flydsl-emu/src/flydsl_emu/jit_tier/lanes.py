"""Lane operations, elementary functions and table look-ups of the vector API as LLVM IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flydsl_emu.jit_tier.arithmetic import Arithmetic
from flydsl_emu.jit_tier.context import TABLE, at
from flydsl_emu.jit_tier.values import IrValue, element_text
from flydsl_emu.semantics.value_types import B1, U32, U64

__all__ = ["Lanes"]


class Lanes(Arithmetic):
    """Operations that look across lanes, or that call routines.

    Attributes:
        execution: Returns EXEC as a per-lane mask.
        pc: Offset in the kernel of the instruction that is being translated.
        site: LLVM name of that offset where it is known at run time only.
        direct: Routines are called by name rather than through the context's table.
    """

    execution: Callable[[], IrValue]
    pc: int = 0
    site: str = ""
    direct: bool = False

    # Routines ------------------------------------------------------------------------------------
    def routine(self, name: str, result: str, *arguments: str) -> str:
        """Call a support routine through the context's table; return the result's name."""
        slot = TABLE + 8 * self.code.parts.slot(name)
        if self.direct:
            target = f'@"{name}"'
        else:
            place = self.code.emit(f"getelementptr i8, ptr %context, i64 {slot}")
            target = self.code.effect(f"load ptr, ptr {place}, align 8")
        call = f"call {result} {target}({', '.join(arguments)})"
        if result == "void":
            self.code.line(call)
            return ""
        return self.code.effect(call)

    def place(self) -> str:
        """Return the offset of the instruction as an argument of a routine."""
        return f"i32 {self.site or self.pc}"

    def context_field(self, name: str) -> str:
        """Return the address of a field of the context."""
        return self.code.emit(f"getelementptr i8, ptr %context, i64 {at(name)}")

    def _elementary(self, name: str, x: IrValue) -> IrValue:
        shape = self.shape(x.type, x.uniform)
        count = 1 if x.uniform else self.lane_count
        routine = f"{name}.{x.type.name}.{count}"
        return IrValue(self.routine(routine, shape, f"{shape} {x.text}"), x.type, x.uniform)

    def exp2(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.exp2`."""
        return self._elementary("exp2", x)

    def log2(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.log2`."""
        return self._elementary("log2", x)

    def sin(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.sin`."""
        return self._elementary("sin", x)

    def cos(self, x: IrValue) -> IrValue:
        """Implement `VectorApi.cos`."""
        return self._elementary("cos", x)

    def lookup(self, table: tuple[int, ...], index: IrValue) -> IrValue:
        """Implement `VectorApi.lookup`."""
        count = 1 if index.uniform else self.lane_count
        shape = self.shape(U32, index.uniform)
        packed = "_".join(f"{x:x}" for x in table)
        text = self.routine(f"lookup.{count}.{packed}", shape, f"{shape} {index.text}")
        return IrValue(text, U32, index.uniform)

    # Lanes ---------------------------------------------------------------------------------------
    def exec(self) -> IrValue:
        """Implement `VectorApi.exec`."""
        return self.execution()

    def lane_id(self) -> IrValue:
        """Implement `VectorApi.lane_id`."""
        items = ", ".join(f"i32 {k}" for k in range(self.lane_count))
        return IrValue(f"<{items}>", U32, False, True)

    def shuffle(self, x: IrValue, lanes: Sequence[int] | IrValue) -> IrValue:
        """Implement `VectorApi.shuffle`."""
        if isinstance(lanes, IrValue):
            return self._permuted(x, lanes)
        if x.uniform:
            return x
        shape = self.shape(x.type, False)
        order = ", ".join(f"i32 {int(k)}" for k in lanes)
        text = (
            f"shufflevector {shape} {x.text}, {shape} poison, <{self.lane_count} x i32> <{order}>"
        )
        return self.made(text, x.type, False)

    def _permuted(self, x: IrValue, lanes: IrValue) -> IrValue:
        if x.uniform:
            return x
        if x.type is B1:
            return self.ne(self._permuted(self.convert(x, U32), lanes), 0)
        if x.type.bits != 32:
            wide = self.cast(x, U64) if x.type.bits == 64 else x
            if x.type.bits < 32:
                raise ValueError("lanes of narrow types do not move by register")
            low = self._permuted(self.convert(wide, U32), lanes)
            high = self._permuted(self.convert(self.shr(wide, 32), U32), lanes)
            both = self.bit_or(self.convert(low, U64), self.shl(self.convert(high, U64), 32))
            return self.cast(both, x.type)
        shape = self.shape(U32, False)
        words, index = self.cast(x, U32), self.text(lanes, False)
        routine = f"permute.{self.lane_count}"
        text = self.routine(routine, shape, f"{shape} {words.text}", f"{shape} {index}")
        return self.cast(IrValue(text, U32, False), x.type)

    def _lane_index(self, lane: IrValue) -> str:
        return self.bit_and(lane, self.lane_count - 1).text

    def read_lane(self, x: IrValue, lane: IrValue) -> IrValue:
        """Implement `VectorApi.read_lane`."""
        if x.uniform:
            return x
        text = f"extractelement {self.shape(x.type, False)} {x.text}, i32 {self._lane_index(lane)}"
        return self.made(text, x.type, True)

    def write_lane(self, x: IrValue, element: IrValue, lane: IrValue) -> IrValue:
        """Implement `VectorApi.write_lane`."""
        shape = self.shape(x.type, False)
        value = f"{element_text(x.type)} {self.cast(element, x.type).text}"
        text = f"insertelement {shape} {self.text(x, False)}, {value}, i32 {self._lane_index(lane)}"
        return self.made(text, x.type, False)

    def bits(self, mask: IrValue) -> str:
        """Return a per-lane mask as an ``i64``."""
        full = self.text(mask, False)
        if full == "splat (i1 true)":
            return str((1 << self.lane_count) - 1)
        if self.lane_count == 64:
            return self.code.emit(f"bitcast <64 x i1> {full} to i64")
        narrow = self.code.emit(f"bitcast <32 x i1> {full} to i32")
        return self.code.emit(f"zext i32 {narrow} to i64")

    def first_lane(self, mask: IrValue) -> IrValue:
        """Implement `VectorApi.first_lane`."""
        bits = IrValue(self.bits(mask), U64, True)
        found = self.trailing_zeros(bits)
        return self.select(self.eq(bits, 0), self.const(U32, 0), found)

    def any(self, mask: IrValue) -> IrValue:
        """Implement `VectorApi.any`."""
        return self.ne(IrValue(self.bits(mask), U64, True), 0)

    def ballot(self, mask: IrValue) -> IrValue:
        """Implement `VectorApi.ballot`."""
        return IrValue(self.bits(mask), U64, True)

    def lanes(self, bits: IrValue) -> IrValue:
        """Implement `VectorApi.lanes`."""
        if self.lane_count == 64:
            return self.made(f"bitcast i64 {bits.text} to <64 x i1>", B1, False)
        narrow = self.code.emit(f"trunc i64 {bits.text} to i32")
        return self.made(f"bitcast i32 {narrow} to <32 x i1>", B1, False)
