"""Matrix products of the vector API as loops on memory; used in routines, not in kernels.

Sums that are not chains (`flydsl_emu.jit_tier.chains`) are taken in double with k ascending.
Products of the narrow formats are exact there, so that a fused multiply-add rounds like the
separate operations; products of doubles are fused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from flydsl_emu.jit_tier.arithmetic import Arithmetic
from flydsl_emu.jit_tier.chains import Chains, Factors, element_place
from flydsl_emu.jit_tier.host_code import strip_height
from flydsl_emu.jit_tier.values import IrValue
from flydsl_emu.semantics.api import VectorApi
from flydsl_emu.semantics.bits import (
    join64,
    sign_extend,
    split64,
)
from flydsl_emu.semantics.matrix_plan import MatrixPlan, Side
from flydsl_emu.semantics.value_types import F32, F64, U32, U64

__all__ = ["STORED", "Matrices"]

_WIDTH = 16
_HEIGHT = 8
STORED = "%stored"
"""Text of values that are in the result of a routine already."""


@dataclass(frozen=True, slots=True)
class _Sources:
    """Operands as doubles in memory: ``[element][lane]``, and how many elements."""

    left: str
    right: str
    left_elements: int
    right_elements: int


class Matrices(Arithmetic):
    """`VectorApi.matrix_multiply`.

    Attributes:
        homes: Of values that a routine loaded: the pointer and the number of the register. When
            it is filled, sums of f32 accumulators go straight to the routine's result, and
            `STORED` stands for them.
    """

    homes: dict[str, tuple[str, int]]

    @property
    def _api(self) -> VectorApi:
        """This object as the whole API, which a subclass completes."""
        return cast(VectorApi, self)

    def matrix_multiply(
        self, a: Sequence[IrValue], b: Sequence[IrValue], c: Sequence[IrValue], plan: MatrixPlan
    ) -> list[IrValue]:
        """Implement `VectorApi.matrix_multiply`."""
        lanes = self.lane_count
        if plan.chained or plan.accumulator == "i32":
            return self._chained(a, b, c, plan)
        left, right = self._elements(a, plan.a), self._elements(b, plan.b)
        sources = _Sources(self._spilled(left), self._spilled(right), len(left), len(right))
        words = 2 if plan.accumulator == "f64" else 1
        if plan.accumulator == "f32" and (found := self._in_place(c)) is not None:
            _Loops(self, plan, sources, found).emit()
            return [IrValue(STORED, U32, False)] * plan.results
        product = self.code.allocate(f"[{plan.results * lanes} x double]")
        _Loops(self, plan, sources, product).emit()
        out = []
        for k in range(plan.results):
            place = self.code.emit(f"getelementptr double, ptr {product}, i64 {k * lanes}")
            text = self.code.effect(f"load <{lanes} x double>, ptr {place}, align 64")
            total = IrValue(text, F64, False)
            out += self._accumulated(total, c[words * k : words * k + words], plan)
        return out

    # Chains --------------------------------------------------------------------------------------
    def _chained(
        self, a: Sequence[IrValue], b: Sequence[IrValue], c: Sequence[IrValue], plan: MatrixPlan
    ) -> list[IrValue]:
        """Emit a product with sums in single precision; return `STORED` for each result."""
        a, b = self._unpacked(a, plan.a), self._unpacked(b, plan.b)
        factors = (
            Factors(self._registers(a), plan.a.packed),
            Factors(self._registers(b), plan.b.packed),
        )
        results = [self._register("%result", n) for n in range(plan.results)]
        Chains(self, plan, factors, self._registers(c), results, strip_height()).emit()
        return [IrValue(STORED, U32, False)] * plan.results

    def _unpacked(self, data: Sequence[IrValue], side: Side) -> Sequence[IrValue]:
        """Return elements as ``F32``, unless they are floats in registers."""
        if side.format == "i8":
            fields = [self.shr(x, at) if at else x for x in data for at in (0, 8, 16, 24)]
            return [self.convert(sign_extend(self._api, x, 8), F32) for x in fields]
        return [self.convert(x, F32) for x in data] if side.format == "values" else data

    def _register(self, pointer: str, at: int) -> str:
        return self.code.emit(f"getelementptr i8, ptr {pointer}, i64 {4 * self.lane_count * at}")

    def _registers(self, values: Sequence[IrValue]) -> tuple[str, ...]:
        """Return the addresses of values of 32 bits: where they are, or of copies."""
        if all(x.text in self.homes for x in values):
            return tuple(self._register(*self.homes[x.text]) for x in values)
        memory = self._spilled(values)
        return tuple(self._register(memory, n) for n in range(len(values)))

    def _in_place(self, c: Sequence[IrValue]) -> str | None:
        """Return the address of the accumulator, if it may be read and written where it is."""
        if not self.homes or any(x.text not in self.homes for x in c):
            return None
        pointer, first = self.homes[c[0].text]
        if [self.homes[x.text] for x in c] != [(pointer, first + k) for k in range(len(c))]:
            return None
        return pointer if first == 0 else None

    def _spilled(self, elements: Sequence[IrValue]) -> str:
        """Store values of one type; return their address."""
        shape, size = self.shape(elements[0].type, False), elements[0].type.bits // 8
        memory = self.code.allocate(f"[{len(elements)} x {shape}]")
        for k, x in enumerate(elements):
            offset = k * self.lane_count * size
            place = self.code.emit(f"getelementptr i8, ptr {memory}, i64 {offset}")
            self.code.line(f"store {shape} {self.text(x, False)}, ptr {place}, align 64")
        return memory

    def _elements(self, data: Sequence[IrValue], side: Side) -> list[IrValue]:
        """Return all elements of a lane as ``F64``."""
        if side.format == "values":
            return list(data)
        pairs = zip(data[0::2], data[1::2], strict=True)
        return [self.cast(join64(self._api, low, high), F64) for low, high in pairs]

    def _accumulated(self, total: IrValue, c: Sequence[IrValue], plan: MatrixPlan) -> list[IrValue]:
        if plan.accumulator == "values":
            return [self.add(total, c[0])]
        if plan.accumulator == "f32":
            addend = self.convert(self.cast(c[0], F32), F64)
            return [self.cast(self.convert(self.add(total, addend), F32), U32)]
        addend = self.cast(join64(self._api, c[0], c[1]), F64)
        return list(split64(self._api, self.cast(self.add(total, addend), U64)))


class _Loops:
    """The loops of one product: blocks, rows in strips of 8, columns in strips of 16, then k."""

    def __init__(self, v: Matrices, plan: MatrixPlan, sources: _Sources, product: str) -> None:
        self.v = v
        self.code = v.code
        self.plan = plan
        self.sources = sources
        self.product = product
        self.width = min(plan.n, _WIDTH)
        self.height = min(plan.m, _HEIGHT)
        self.vector = f"<{self.width} x double>"
        v.code.parts.declare(f"llvm.fma.v{self.width}f64", self.vector, [self.vector] * 3)

    def emit(self) -> None:
        """Emit all loops."""
        plan = self.plan
        strips = (plan.blocks, plan.m // self.height, plan.n // self.width)
        self._loop(
            "b",
            strips[0],
            lambda b: self._loop(
                "i", strips[1], lambda i: self._loop("j", strips[2], lambda j: self._strip(b, i, j))
            ),
        )

    def _loop(self, stem: str, count: int, body: object) -> None:
        """Emit ``for x in range(count)``."""
        call: object = body
        assert callable(call)
        if count == 1:
            call("0")
            return
        code = self.code
        head, done = code.label(stem), code.label(f"{stem}.done")
        counter = code.allocate("i64")
        code.line(f"store i64 0, ptr {counter}")
        code.line(f"br label %{head}")
        code.block(head)
        x = code.effect(f"load i64, ptr {counter}")
        call(x)
        following = code.effect(f"add i64 {x}, 1")
        code.line(f"store i64 {following}, ptr {counter}")
        more = code.effect(f"icmp ult i64 {following}, {count}")
        code.line(f"br i1 {more}, label %{head}, label %{done}")
        code.block(done)

    def _strip(self, b: str, i: str, j: str) -> None:
        """Emit the product of a strip of rows and a strip of columns of block `b`."""
        code, height = self.code, self.height
        sums = [code.allocate(self.vector) for _ in range(height)]
        for place in sums:
            code.line(f"store {self.vector} zeroinitializer, ptr {place}, align 64")
        plan = self.plan
        groups = [
            1 if side.replicated else self.v.lane_count // (rows * plan.blocks)
            for side, rows in ((plan.a, plan.m), (plan.b, plan.n))
        ]
        row = code.effect(f"mul i64 {i}, {height}")
        column = code.effect(f"mul i64 {j}, {self.width}")
        # Both sides count k alike, though their lanes may hold it in different runs.
        terms = self._terms(groups)
        assert terms == plan.k
        runs = [
            self.sources.left_elements // plan.a.splits,
            self.sources.right_elements // plan.b.splits,
        ]
        if groups[0] == groups[1] and runs[0] == runs[1] and plan.a.splits == plan.b.splits:
            self._regular(b, row, column, sums, groups[0], runs[0])
        else:
            for k in range(terms):
                left = element_place(k, plan.a, groups[0], self.sources.left_elements)
                right = element_place(k, plan.b, groups[1], self.sources.right_elements)
                self._term(b, (row, column), left, right, sums)
        for at in range(height):
            self._result(b, code.effect(f"add i64 {row}, {at}"), column, sums[at])

    def _terms(self, groups: Sequence[int]) -> int:
        return self.sources.left_elements * groups[0]

    def _regular(
        self, b: str, row: str, column: str, sums: Sequence[str], groups: int, run: int
    ) -> None:
        """Emit the sum over k as loops over splits and groups around the elements of a run."""

        def one(h: str, g: str) -> None:
            for e in range(run):
                element = self.code.effect(f"mul i64 {h}, {run}")
                element = self.code.effect(f"add i64 {element}, {e}")
                self._term(b, (row, column), (element, g), (element, g), sums)

        self._loop("h", self.plan.a.splits, lambda h: self._loop("g", groups, lambda g: one(h, g)))

    def _term(
        self,
        b: str,
        corner: tuple[str, str],
        left: tuple[str | int, str | int],
        right: tuple[str | int, str | int],
        sums: Sequence[str],
    ) -> None:
        code, plan = self.code, self.plan
        a = self._place(self.sources.left, left, b, plan.m, corner[0])
        c = self._place(self.sources.right, right, b, plan.n, corner[1])
        columns = code.effect(f"load {self.vector}, ptr {c}, align 8")
        for at, place in enumerate(sums):
            where = code.effect(f"getelementptr double, ptr {a}, i64 {at}")
            factor = code.effect(f"load double, ptr {where}, align 8")
            first = code.effect(f"insertelement {self.vector} poison, double {factor}, i32 0")
            zeros = f"<{self.width} x i32> zeroinitializer"
            spread = code.effect(
                f"shufflevector {self.vector} {first}, {self.vector} poison, {zeros}"
            )
            total = code.effect(f"load {self.vector}, ptr {place}, align 64")
            name = f"llvm.fma.v{self.width}f64"
            fused = code.effect(
                f"call {self.vector} @{name}({self.vector} {spread}, {self.vector} {columns}, "
                f"{self.vector} {total})"
            )
            code.line(f"store {self.vector} {fused}, ptr {place}, align 64")

    def _place(
        self, base: str, where: tuple[str | int, str | int], b: str, rows: int, row: str
    ) -> str:
        """Return the address of an element: ``[element][(group * blocks + b) * rows + row]``."""
        code = self.code
        element = code.effect(f"mul i64 {where[0]}, {self.v.lane_count}")
        group = code.effect(f"mul i64 {where[1]}, {self.plan.blocks}")
        lane = code.effect(f"add i64 {group}, {b}")
        lane = code.effect(f"mul i64 {lane}, {rows}")
        index = code.effect(f"add i64 {element}, {lane}")
        index = code.effect(f"add i64 {index}, {row}")
        return code.effect(f"getelementptr double, ptr {base}, i64 {index}")

    def _result(self, b: str, row: str, column: str, sums: str) -> None:
        """Store one row of a strip where the accumulator holds it."""
        code, plan = self.code, self.plan
        lanes = self.v.lane_count
        if plan.accumulator == "f64" and plan.blocks > 1:
            # Rows of a block lie 16 lanes apart, as in the 16-row instruction.
            index = code.effect(f"mul i64 {row}, {plan.blocks * plan.n}")
            part = code.effect(f"mul i64 {b}, {plan.n}")
            index = code.effect(f"add i64 {index}, {part}")
        else:
            stacked = code.effect(f"mul i64 {b}, {plan.m}")
            stacked = code.effect(f"add i64 {stacked}, {row}")
            group, sets = plan.interleave, lanes // plan.n
            slot = code.effect(f"udiv i64 {stacked}, {group}")
            high = code.effect(f"udiv i64 {slot}, {sets}")
            register = code.effect(f"mul i64 {high}, {group}")
            low = code.effect(f"urem i64 {stacked}, {group}")
            register = code.effect(f"add i64 {register}, {low}")
            register = code.effect(f"mul i64 {register}, {lanes}")
            lane = code.effect(f"urem i64 {slot}, {sets}")
            lane = code.effect(f"mul i64 {lane}, {plan.n}")
            index = code.effect(f"add i64 {register}, {lane}")
        index = code.effect(f"add i64 {index}, {column}")
        total = code.effect(f"load {self.vector}, ptr {sums}, align 64")
        if self.product.startswith("%p"):
            self._accumulate(index, total)
            return
        place = code.effect(f"getelementptr double, ptr {self.product}, i64 {index}")
        code.line(f"store {self.vector} {total}, ptr {place}, align 8")

    def _accumulate(self, index: str, total: str) -> None:
        """Add a row to the accumulator's, which `product` points to, and store it as the result."""
        code = self.code
        narrow = f"<{self.width} x float>"
        source = code.effect(f"getelementptr float, ptr {self.product}, i64 {index}")
        addend = code.effect(f"load {narrow}, ptr {source}, align 4")
        wide = code.effect(f"fpext {narrow} {addend} to {self.vector}")
        sum_ = code.effect(f"fadd {self.vector} {total}, {wide}")
        rounded = code.effect(f"fptrunc {self.vector} {sum_} to {narrow}")
        target = code.effect(f"getelementptr float, ptr %result, i64 {index}")
        code.line(f"store {narrow} {rounded}, ptr {target}, align 4")
