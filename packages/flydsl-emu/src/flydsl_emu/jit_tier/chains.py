"""Sums of matrix products as chains of fused multiply-adds in single precision.

A strip of the result stays in host registers from the accumulator to the last k: a row of it is one
vector, which takes the row's element of A, broadcast from memory, times a vector of B. The order in
which a sum takes its terms does not depend on the strips, so neither do the bits.

Sums of 8-bit integers go the same way: at most 128 products below 2**17 are exact in single
precision as well; they begin with zero, and the accumulator is added in integers.

Packed elements of A are unpacked in memory a few k ahead of their use, so that the stores run
beside the multiplications.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flydsl_emu.jit_tier.arithmetic import Arithmetic
from flydsl_emu.semantics.matrix_plan import MatrixPlan, Side

__all__ = ["Chains", "Factors", "element_place"]

_WIDTH = 16
_AHEAD = 4
"""Terms of a sum whose elements of A are unpacked together."""


@dataclass(frozen=True, slots=True)
class Factors:
    """The elements of one operand in memory.

    Attributes:
        registers: Addresses of registers: a float a lane, or a pair of 16-bit elements.
        packed: ``"bf16"`` or ``"f16"`` for pairs, else empty.
    """

    registers: tuple[str, ...]
    packed: str = ""

    @property
    def elements(self) -> int:
        """Elements of a lane."""
        return len(self.registers) * (2 if self.packed else 1)


def element_place(k: int, side: Side, groups: int, elements: int) -> tuple[int, int]:
    """Return which element of a lane, and which group of lanes, holds column `k` of an operand.

    Args:
        k: Column.
        side: Layout of the operand.
        groups: Groups of lanes that hold different columns.
        elements: Elements of a lane.
    """
    run = elements // side.splits
    split, rest = divmod(k, groups * run)
    group, place = divmod(rest, run)
    return split * run + place, group


class Chains:
    """The chains of one product.

    Args:
        v: Where code goes.
        plan: Layout of the product.
        factors: A and B.
        addends: Addresses of the accumulator's registers.
        results: Addresses of the result's registers: the accumulator's, or others that hold no
            operand.
        height: Rows of a strip.
    """

    def __init__(
        self,
        v: Arithmetic,
        plan: MatrixPlan,
        factors: tuple[Factors, Factors],
        addends: Sequence[str],
        results: Sequence[str],
        height: int,
    ) -> None:
        self.code = v.code
        self.lanes = v.lane_count
        self.plan = plan
        self.left, self.right = factors
        self.addends, self.results = addends, results
        self.width = min(plan.n, _WIDTH)
        self.height = min(plan.m, height)
        self.vector = f"<{self.width} x float>"
        self.terms = [
            (self._place(k, plan.a, plan.m, self.left), self._place(k, plan.b, plan.n, self.right))
            for k in range(plan.k)
        ]
        self.slots = self.code.allocate(f"[{plan.k * self.height} x float]")

    def _place(self, k: int, side: Side, rows: int, factors: Factors) -> tuple[int, int]:
        groups = 1 if side.replicated else self.lanes // (rows * self.plan.blocks)
        return element_place(k, side, groups, factors.elements)

    def emit(self) -> None:
        """Emit all chains."""
        plan = self.plan
        for block in range(plan.blocks):
            for row in range(0, plan.m, self.height):
                if plan.n == self.width:
                    self._strip(block, row, "")
                else:
                    self._strips(block, row)

    def _strips(self, block: int, first: int) -> None:
        """Emit a loop over the strips of columns."""
        code = self.code
        before, head, done = code.current, code.label("columns"), code.label("columns.end")
        column, following = code.name(), code.name()
        code.line(f"br label %{head}")
        code.block(head)
        code.line(f"{column} = phi i64 [ 0, %{before} ], [ {following}, %{head} ]")
        self._strip(block, first, column)
        code.line(f"{following} = add i64 {column}, {self.width}")
        more = code.effect(f"icmp ult i64 {following}, {self.plan.n}")
        code.line(f"br i1 {more}, label %{head}, label %{done}")
        code.block(done)

    def _strip(self, block: int, first: int, column: str) -> None:
        """Emit the sums of a strip of rows of one block and of a strip of columns.

        Args:
            block: Block.
            first: First row.
            column: First column, or empty for 0.
        """
        plan, height = self.plan, self.height
        if self.left.packed:
            self._unpack(range(min(_AHEAD, plan.k)), block, first)
        places = [self._result(block * plan.m + first + h, column) for h in range(height)]
        sums = [self._begun(n, lane) for n, lane in places]
        name = f"llvm.fma.v{self.width}f32"
        self.code.parts.declare(name, self.vector, [self.vector] * 3)
        for start in range(0, plan.k, _AHEAD):
            self._fence()
            now = range(start, min(start + _AHEAD, plan.k))
            if self.left.packed:
                self._unpack(range(now.stop, min(now.stop + _AHEAD, plan.k)), block, first)
            for k in now:
                columns = self._columns(self.terms[k][1], block, column)
                for h in range(height):
                    factor = self._factor(k, block, first, h)
                    sums[h] = self.code.effect(
                        f"call {self.vector} @{name}({self.vector} {factor}, "
                        f"{self.vector} {columns}, {self.vector} {sums[h]})"
                    )
        for (n, lane), total in zip(places, sums, strict=True):
            self._ended(n, lane, total)

    def _begun(self, register: int, lane: str) -> str:
        """Return what the sums of a row begin with."""
        if self.plan.accumulator == "i32":
            return "zeroinitializer"
        place = self._at(self.addends[register], lane)
        return self.code.effect(f"load {self.vector}, ptr {place}, align 16")

    def _ended(self, register: int, lane: str, total: str) -> None:
        """Store a row of the result."""
        code, shape = self.code, self.vector
        if self.plan.accumulator == "i32":
            shape = f"<{self.width} x i32>"
            whole = code.emit(f"fptosi {self.vector} {total} to {shape}")
            place = self._at(self.addends[register], lane)
            addend = code.effect(f"load {shape}, ptr {place}, align 16")
            total = code.emit(f"add {shape} {whole}, {addend}")
        place = self._at(self.results[register], lane)
        code.line(f"store {shape} {total}, ptr {place}, align 16")

    def _fence(self) -> None:
        """Keep LLVM from taking elements out of vectors, or keeping them, to save loads.

        Instructions multiply by an element broadcast from memory at no cost.
        """
        self.code.line(f'call void asm sideeffect "", "r,~{{memory}}"(ptr {self.slots})')

    def _result(self, row: int, column: str) -> tuple[int, str]:
        """Return register and first lane of a row of the result."""
        plan = self.plan
        group, sets = plan.interleave, self.lanes // plan.n
        slot, low = divmod(row, group)
        high, place = divmod(slot, sets)
        return high * group + low, self._lane(place * plan.n, column)

    def _lane(self, lane: int, column: str) -> str:
        return self.code.emit(f"add i64 {column}, {lane}") if column else str(lane)

    def _at(self, address: str, lane: int | str) -> str:
        return self.code.emit(f"getelementptr float, ptr {address}, i64 {lane}")

    # Elements ------------------------------------------------------------------------------------
    def _unpack(self, terms: range, block: int, first: int) -> None:
        """Put the elements of A of some k in a strip of rows into their slots."""
        for k in terms:
            element, group = self.terms[k][0]
            lane = (group * self.plan.blocks + block) * self.plan.m + first
            values = self._unpacked(self.left, element, lane, self.height)
            place = self._at(self.slots, k * self.height)
            self.code.line(f"store <{self.height} x float> {values}, ptr {place}, align 16")

    def _factor(self, k: int, block: int, first: int, h: int) -> str:
        """Return the element of A in a row, broadcast."""
        if self.left.packed:
            place = self._at(self.slots, k * self.height + h)
        else:
            element, group = self.terms[k][0]
            lane = (group * self.plan.blocks + block) * self.plan.m + first + h
            place = self._at(self.left.registers[element], lane)
        factor = self.code.effect(f"load float, ptr {place}, align 4")
        one = self.code.emit(f"insertelement {self.vector} poison, float {factor}, i32 0")
        zeros = f"<{self.width} x i32> zeroinitializer"
        return self.code.emit(f"shufflevector {self.vector} {one}, {self.vector} poison, {zeros}")

    def _columns(self, right: tuple[int, int], block: int, column: str) -> str:
        """Return a row of B."""
        element, group = right
        lane = self._lane((group * self.plan.blocks + block) * self.plan.n, column)
        return self._unpacked(self.right, element, lane, self.width)

    def _unpacked(self, factors: Factors, element: int, lane: int | str, count: int) -> str:
        """Return one element of consecutive lanes as floats."""
        code = self.code
        if not factors.packed:
            place = self._at(factors.registers[element], lane)
            return code.effect(f"load <{count} x float>, ptr {place}, align 4")
        words = f"<{count} x i32>"
        place = self._at(factors.registers[element // 2], lane)
        pairs = code.effect(f"load {words}, ptr {place}, align 4")
        if factors.packed == "bf16":
            half = f"and {words} {pairs}, splat (i32 -65536)"
            bits = code.emit(half if element % 2 else f"shl {words} {pairs}, splat (i32 16)")
            return code.emit(f"bitcast {words} {bits} to <{count} x float>")
        if element % 2:
            pairs = code.emit(f"lshr {words} {pairs}, splat (i32 16)")
        halves = code.emit(f"trunc {words} {pairs} to <{count} x i16>")
        small = code.emit(f"bitcast <{count} x i16> {halves} to <{count} x half>")
        return code.emit(f"fpext <{count} x half> {small} to <{count} x float>")
