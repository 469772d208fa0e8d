"""The matrix instruction of an architecture, and which elements of a product a lane has.

Attention computes both products transposed: Sᵀ = K Qᵀ and Oᵀ = Vᵀ Pᵀ. A lane then has a row of
queries for itself: maxima and sums of the row are its own registers, and what it has of Pᵀ is what
the second product takes as its B operand.

Of a result a lane has column ``lane % rows``; in half ``lane // rows`` of the wave, register r is
row ``Unit.row(r) + half * Unit.group``. Operands are read in pieces of 16 k, of which a lane of an
instruction without copies has 8, those that its registers of a result are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

__all__ = ["ELEMENTS", "PIECE", "UNITS", "Unit", "load_pieces", "paired"]

ELEMENTS: dict[str, Any] = {
    "float16": fx.Float16,
    "bfloat16": fx.BFloat16,
    "float8_e4m3fn": fx.Uint8,
    "float8_e4m3fnuz": fx.Uint8,
}
"""Numeric classes that operands are moved as: 8-bit floats are bytes."""
PIECE = 16
"""k of a piece."""
_CHUNK = 8


@dataclass(frozen=True, slots=True)
class Unit:
    """A matrix instruction with f32 results.

    Attributes:
        bf16: Its builder in ``fx.rocdl`` for bf16, empty for 8-bit floats.
        f16: The same for f16; for 8-bit floats that one.
        rows: Rows and columns of the result.
        k: Depth of one instruction.
        group: Neighbouring rows of the result that a lane has.
        lanes: Lanes of a wave.
        copies: Both halves of the wave take the whole operand.
    """

    bf16: str
    f16: str
    rows: int
    k: int
    group: int
    lanes: int
    copies: bool = False

    @property
    def registers(self) -> int:
        """Elements of a result that a lane has."""
        return self.rows * self.rows // self.lanes

    @property
    def chunks(self) -> int:
        """Chunks of 8 elements that a lane has of a piece."""
        return 2 if self.copies else 1

    def row(self, register: int) -> int:
        """Return the row of a register of a result in the first half of the wave."""
        turn, inside = divmod(register, self.group)
        return turn * self.group * 2 + inside

    def place(self, quad: int) -> tuple[int, int]:
        """Return (chunk, half of the chunk) of four neighbouring k of a piece, by their number."""
        return (quad % 2, quad // 2) if self.group == 4 else (quad // 2, quad % 2)

    def multiply(self, a: Any, b: Any, c: Any) -> Any:
        """Return c + a b for a piece: one instruction, or two of half its depth.

        Args:
            a: The lane's part of the piece, a vector of 8 or 16 elements.
            b: The same of the other operand.
            c: The lane's part of the result.
        """
        name = self.bf16 if a.dtype is fx.BFloat16 else self.f16
        build = getattr(fx.rocdl, name)
        if not self.bf16:
            a, b = a.bitcast(fx.Int32), b.bitcast(fx.Int32)
            if self.lanes == 64:
                a, b = a.bitcast(fx.Int64)[0], b.bitcast(fx.Int64)[0]
        if self.k == PIECE:
            return build(None, a, b, c)
        c = build(None, a.shuffle(a, range(4)), b.shuffle(b, range(4)), c)
        return build(None, a.shuffle(a, range(4, 8)), b.shuffle(b, range(4, 8)), c)


def load_pieces(places: list[Any], element: Any) -> Any:
    """Load a lane's part of a piece: one chunk of 8 elements, or two that follow each other.

    Args:
        places: Pointers to the chunks, aligned to 16 bytes.
        element: Numeric class.
    """
    from flydsl.expr.vector import vector_alias

    chunk = vector_alias(element, (_CHUNK,))
    parts = [place.load(chunk) for place in places]
    return parts[0] if len(parts) == 1 else parts[0].shuffle(parts[1], range(2 * _CHUNK))


def paired(values: Any, unit: Unit, half: Any) -> Any:
    """Return a lane's part of a piece of Pᵀ: what a second product takes of a first one's result.

    Args:
        values: The lane's eight elements of the piece, in 16 bits.
        unit: The instruction. With copies the other half's elements are fetched: those of the
            halves take turns.
        half: Which half of the wave the lane is in.
    """
    if not unit.copies:
        return values
    low = fx.arith.select(half == 0, fx.Int32(0x05040100), fx.Int32(0x01000504))
    high = fx.arith.select(half == 0, fx.Int32(0x07060302), fx.Int32(0x03020706))
    words = []
    for own in values.bitcast(fx.Int32):
        other = fx.rocdl.permlanex16(
            fx.Int32, own, own, fx.Int32(0x76543210), fx.Int32(-0x01234568), False, False
        )
        words += [fx.rocdl.perm(fx.Int32, other, own, order) for order in (low, high)]
    return fx.Vector.from_elements(words).bitcast(values.dtype)


UNITS: dict[str, Unit] = {
    "mfma-8": Unit("mfma_f32_32x32x8bf16_1k", "mfma_f32_32x32x8f16", 32, 8, 4, 64),
    "mfma-16": Unit("mfma_f32_32x32x16_bf16", "mfma_f32_32x32x16_f16", 32, 16, 4, 64),
    "mfma-fp8": Unit("", "mfma_f32_32x32x16_fp8_fp8", 32, 16, 4, 64),
    "wmma-fp8": Unit("", "wmma_f32_16x16x16_fp8_fp8", 16, 16, 8, 32),
    "wmma-12": Unit("wmma_f32_16x16x16_bf16", "wmma_f32_16x16x16_f16", 16, 16, 8, 32),
    "wmma-11": Unit("wmma_f32_16x16x16_bf16", "wmma_f32_16x16x16_f16", 16, 16, 1, 32, copies=True),
}
"""The instructions, by the names that plans use."""
