"""Matrix instructions on 16-byte fragments, chosen for the architecture being compiled for.

A fragment is what a lane loads at once: 16 bytes of K of one row, lane t of row ``t % 16`` and of
bytes ``t // 16 * 16`` and up of 64 bytes of K. Preshuffled weights and swizzled rows give every
operand in this form, and whichever instruction there is multiplies it: two with 8 bytes of it each,
one, or one for two fragments. Where several orders of K give the same sum, both operands have the
same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx
from flydsl.errors import TargetError
from flydsl.expr.ambient import IRValue, require
from flydsl.expr.emit import constant, emit
from flydsl_rocdl.arch import ArchFacts
from flydsl_rocdl.arch.facts import MatrixShape
from flydsl_rocdl.expr.access import intrinsic

__all__ = ["FRAGMENT", "MatrixStep", "Multiplier", "matrix_step"]

FRAGMENT = 16
"""Bytes of a fragment."""
_BITS = {"f16": 16, "bf16": 16, "i8": 8, "fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}
_LANES = 64
_SIDE = 16
_FORMATS = ("fp8", "bf8", "fp6", "bf6", "fp4")


@dataclass(frozen=True, slots=True)
class MatrixStep:
    """One matrix instruction of 16 x 16 results on fragments.

    Attributes:
        shape: The instruction.
        scaled: Whether it takes E8M0 scales.
    """

    shape: MatrixShape
    scaled: bool = False

    @property
    def lane_bytes(self) -> int:
        """Bytes of A that a lane gives to one instruction."""
        bits = 8 if self.shape.a in ("fp6", "bf6") else _BITS[self.shape.a]
        return self.shape.k * _SIDE // _LANES * bits // 8

    @property
    def fragments(self) -> int:
        """Fragments of A that one operand takes."""
        return max(1, self.lane_bytes // FRAGMENT)

    @property
    def per_fragment(self) -> int:
        """Instructions that share a fragment."""
        return max(1, FRAGMENT // self.lane_bytes)

    def operands(self, words: Sequence[Any], element: str | None = None) -> list[IRValue]:
        """Return the operands, one per instruction, that a group of fragments makes.

        Args:
            words: `fragments` vectors of four Int32 (fewer for a narrower type in a mix).
            element: Element type by its short name; default that of A.
        """
        values = [word.ir_value() for word in words]
        kind = element or self.shape.a
        if self.shape.family == "mfma_scale":
            return [_joined(values, 6 if kind in ("fp6", "bf6") else 8)]
        session = require("matrix_step")
        if self.per_fragment == 1:
            if kind == "i8":
                return values
            return [emit("llvm.bitcast", session.type(f"vector<8x{kind}>"), (values[0],))]
        if kind in ("i8", "fp8", "bf8"):
            pair = emit("llvm.bitcast", session.type("vector<2xi64>"), (values[0],))
            return [
                emit("llvm.extractelement", session.type("i64"),
                     (pair, constant(session, "i32", place)))
                for place in range(2)
            ]  # fmt: skip
        half = "f16" if kind == "f16" else "i16"
        whole = emit("llvm.bitcast", session.type(f"vector<8x{half}>"), (values[0],))
        return [
            emit("vector.shuffle", session.type(f"vector<4x{half}>"), (whole, whole),
                 _mask(session, 4 * place, 4))
            for place in range(2)
        ]  # fmt: skip

    def zero(self) -> Any:
        """Return an accumulator of zeros."""
        if self.shape.acc == "i32":
            return fx.Vector.filled((4,), 0, fx.Int32)
        return fx.Vector.filled((4,), 0.0, fx.Float32)

    def multiplier(self) -> Multiplier:
        """Return what runs the instruction; made outside loops, it works inside them."""
        session = require("matrix_step")
        return Multiplier(self, tuple(constant(session, "i32", value) for value in range(5)))


@dataclass(frozen=True, slots=True)
class Multiplier:
    """Runs one matrix instruction.

    Attributes:
        step: The instruction.
        immediates: The integers 0 to 4 as IR values.
    """

    step: MatrixStep
    immediates: tuple[IRValue, ...]

    def run(self, a: IRValue, b: IRValue, acc: Any, scales: tuple[Any, ...] = ()) -> Any:
        """Return acc + a b, with a's rows along the result's groups of four.

        Args:
            a: An operand of the first matrix, from `MatrixStep.operands`.
            b: One of the second.
            acc: Vector of four numbers: rows ``t // 16 * 4`` and up of column ``t % 16``.
            scales: ``(words of a, byte, words of b, byte)`` of a scaled instruction, words as
                Int32; none for scales of one.
        """
        shape, zero = self.step.shape, self.immediates[0]
        name, kind = f"amdgcn.{shape.intrinsic}", acc.value.type
        tail: tuple[IRValue, ...] = (zero, zero, zero)
        if shape.family == "mfma_scale":
            formats = (self.immediates[_FORMATS.index(e)] for e in (shape.a, shape.b))
            tail = (*formats, zero, zero, zero, zero)
            if scales:
                words_a, byte_a, words_b, byte_b = scales
                tail = (*tail[:2], self.immediates[byte_a], words_a.ir_value(),
                        self.immediates[byte_b], words_b.ir_value())  # fmt: skip
        return fx.Vector(intrinsic(name, kind, (a, b, acc.value, *tail)), None, acc.dtype)


def _mask(session: Any, first: int, count: int) -> dict[str, Any]:
    """Return the attributes of a shuffle of consecutive elements, made once per session."""
    key = ("consecutive elements", first, count)
    found: dict[str, Any] | None = session.attributes.get(key)
    if found is None:
        mask = session.ir.DenseI64ArrayAttr.get(list(range(first, first + count)))
        found = session.attributes[key] = {"mask": mask}
    return found


def _joined(values: Sequence[IRValue], count: int) -> IRValue:
    """Return one vector of `count` words."""
    if len(values) == 1:
        return values[0]
    session = require("matrix_step")
    kind = session.type(f"vector<{count}xi32>")
    return emit("vector.shuffle", kind, values, _mask(session, 0, count))


def matrix_step(
    facts: ArchFacts, a: str, b: str | None = None, *, scaled: bool = False, most: int = 32
) -> MatrixStep:
    """Return the instruction that does most in one step for these types.

    Args:
        facts: The architecture.
        a: Short element name of the first matrix: f16, bf16, i8, fp8, bf8, fp6, bf6 or fp4.
        b: The second's; default that of the first.
        scaled: E8M0 scales are applied.
        most: Bytes of a lane that one instruction may take at most.

    Raises:
        TargetError: The architecture has none of 16 x 16.
    """
    second = a if b is None else b
    families = ("mfma_scale",) if scaled or a in _FORMATS[2:] else ("mfma", "mfma_scale")
    found = [
        MatrixStep(shape, scaled)
        for shape in facts.matrix
        if (shape.m, shape.n, shape.blocks, shape.a, shape.b) == (_SIDE, _SIDE, 1, a, second)
        and shape.family in families
    ]
    found = [step for step in found if 8 <= step.lane_bytes <= most]
    if not found:
        raise TargetError(
            f"{facts.name} has no matrix instruction of 16 x 16 for {a} and {second}",
            code="FLY-T634", value=facts.name,
        )  # fmt: skip
    return max(found, key=lambda step: step.lane_bytes)
