"""The matrix instruction of an architecture, and which elements of a product a lane has.

Attention computes both products transposed: Sᵀ = K Qᵀ and Oᵀ = Vᵀ Pᵀ. A lane then has a row of
queries for itself: maxima and sums of the row are its own registers, and what it has of Pᵀ is what
the second product takes as its B operand.

Of a result a lane has column ``lane % rows``; in part ``lane // rows`` of the wave, register r is
row ``Unit.row(r) + part * Unit.group``. Operands are read in pieces of as many k as one or two
instructions take, of which a lane has `Unit.own`, and with copies the other half's too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

__all__ = ["ELEMENTS", "PIECE", "UNITS", "Unit", "joined", "load_pieces", "paired"]

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
    def parts(self) -> int:
        """Parts of a wave, which have different rows of a result and k of an operand."""
        return self.lanes // self.rows

    @property
    def own(self) -> int:
        """Elements that a part of the wave adds to an operand: 8, or more for one instruction."""
        return max(_CHUNK, self.k // self.parts)

    @property
    def ballot(self) -> Any:
        """Numeric class of a bit for every lane."""
        return fx.Int64 if self.lanes == 64 else fx.Int32

    @property
    def chunks(self) -> int:
        """Chunks of 8 elements that a lane has of a piece."""
        return 2 if self.copies else 1

    def row(self, register: int) -> int:
        """Return the row of a register of a result in the first part of the wave."""
        turn, inside = divmod(register, self.group)
        return turn * self.group * self.parts + inside

    def holder(self, row: Any) -> tuple[Any, Any]:
        """Return (part of the wave, register) of a row of a result."""
        turn = self.group * self.parts
        return row % turn // self.group, row // turn * self.group + row % self.group

    def place(self, quad: int) -> tuple[int, int]:
        """Return (chunk, half of the chunk) of four neighbouring k of a piece, by their number."""
        return (quad % 2, quad // 2) if self.group == 4 else (quad // 2, quad % 2)

    def multiply(self, a: Any, b: Any, c: Any) -> Any:
        """Return c + a b for a piece: one instruction, or two of half its depth.

        Args:
            a: The lane's part of the piece, a vector of `own` elements, with copies of twice that;
                or of half as many, where that is what one instruction takes.
            b: The same of the other operand.
            c: The lane's part of the result.
        """
        name = self.bf16 if a.dtype is fx.BFloat16 else self.f16
        depth = a.numel * (1 if self.copies else self.parts)
        build = getattr(fx.rocdl, name)
        if not self.bf16:
            a, b = a.bitcast(fx.Int32), b.bitcast(fx.Int32)
            if self.lanes == 64:
                a, b = a.bitcast(fx.Int64)[0], b.bitcast(fx.Int64)[0]
        if self.k == depth:
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
        other = _across(own)
        words += [fx.rocdl.perm(fx.Int32, other, own, order) for order in (low, high)]
    return fx.Vector.from_elements(words).bitcast(values.dtype)


def joined(values: Any, unit: Unit, half: Any) -> Any:
    """Return a lane's part of a piece from what the halves of the wave have of it.

    Args:
        values: The lane's `Unit.own` elements, in 16 bits.
        unit: The instruction. With copies, those of the first half of the wave come first.
        half: Which half of the wave the lane is in.
    """
    if not unit.copies:
        return values
    low, high = [], []
    for own in values.bitcast(fx.Int32):
        other = _across(own)
        low.append(fx.arith.select(half == 0, own, other))
        high.append(fx.arith.select(half == 0, other, own))
    return fx.Vector.from_elements([*low, *high]).bitcast(values.dtype)


def _across(word: Any) -> Any:
    """Return the word of the lane in the other half of a wave of 32."""
    order = fx.Int32(0x76543210), fx.Int32(-0x01234568)
    return fx.rocdl.permlanex16(fx.Int32, word, word, *order, True, False)


UNITS: dict[str, Unit] = {
    "mfma-8": Unit("mfma_f32_32x32x8bf16_1k", "mfma_f32_32x32x8f16", 32, 8, 4, 64),
    "mfma-16": Unit("mfma_f32_32x32x16_bf16", "mfma_f32_32x32x16_f16", 32, 16, 4, 64),
    "mfma-fp8": Unit("", "mfma_f32_32x32x16_fp8_fp8", 32, 16, 4, 64),
    "mfma-4x16": Unit("mfma_f32_16x16x16bf16_1k", "mfma_f32_16x16x16f16", 16, 16, 4, 64),
    "mfma-4x32": Unit("mfma_f32_16x16x32_bf16", "mfma_f32_16x16x32_f16", 16, 32, 4, 64),
    "wmma-fp8": Unit("", "wmma_f32_16x16x16_fp8_fp8", 16, 16, 8, 32),
    "wmma-12": Unit("wmma_f32_16x16x16_bf16", "wmma_f32_16x16x16_f16", 16, 16, 8, 32),
    "wmma-11": Unit("wmma_f32_16x16x16_bf16", "wmma_f32_16x16x16_f16", 16, 16, 1, 32, copies=True),
    "wmma-1250": Unit("wmma_f32_16x16x32_bf16", "wmma_f32_16x16x32_f16", 16, 32, 8, 32),
}
"""The instructions, by the names that plans use."""
