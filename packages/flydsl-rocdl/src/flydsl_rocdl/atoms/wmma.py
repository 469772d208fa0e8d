"""Dense matrix multiply-add of the RDNA wave matrix units, in waves of 32 lanes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flydsl.dialects.atoms import MmaOp
from flydsl.dialects.elements import element_bits
from flydsl.errors import UserValueError
from flydsl.layout import Layout

__all__ = ["WMMA"]

_WAVE = 32
_SIDE = 16


@dataclass(frozen=True, slots=True)
class WMMA(MmaOp):
    """D = A B + C by one wave of 32 lanes.

    Lane t holds row ``t % 16`` of A (column of B). With two copies (RDNA3) every lane holds all k
    and both halves of the wave hold the same; of C, lane t holds column ``t % 16`` and the even
    (t < 16) or odd rows. With one copy (RDNA4) a half of the wave holds a half of k, and eight rows
    of C next to each other.

    Attributes:
        m: Rows of A and C: 16.
        n: Columns of B and C: 16.
        k: Columns of A.
        a: Element type of A as MLIR text.
        b: Element type of B.
        acc: Element type of C and D.
        copies: How many lanes hold each element of A and B: 1 or 2.
        sign_a: Whether integers of A are signed.
        sign_b: Whether integers of B are signed.
        clamp: Whether integer results saturate.

    Raises:
        UserError: The extents or the number of copies are not those of an instruction.
    """

    prefix: ClassVar[str] = "wmma"
    m: int
    n: int
    k: int
    a: str
    b: str
    acc: str
    copies: int = 1
    sign_a: bool = True
    sign_b: bool = True
    clamp: bool = False

    def __post_init__(self) -> None:
        wanted = self.m == self.n == _SIDE and self.k in (16, 32) and self.copies in (1, 2)
        if not wanted:
            raise UserValueError(
                "no WMMA has these extents",
                code="FLY-U630",
                value=(self.m, self.n, self.k),
                allowed="m = n = 16 with k = 16 or 32",
            )
        for element in (self.a, self.b, self.acc):
            element_bits(element)

    @property
    def shape_mnk(self) -> tuple[int, int, int]:
        """Extents of one instruction."""
        return self.m, self.n, self.k

    @property
    def elements(self) -> tuple[str, str, str, str]:
        """Element types of A, B, C and D."""
        return self.a, self.b, self.acc, self.acc

    def thr_layout(self) -> Layout:
        """Return the lanes of one wave."""
        return Layout(_WAVE, 1)

    def _operand(self) -> Layout:
        per_lane = self.k * self.copies // 2
        half = 0 if self.copies == 2 else _SIDE * per_lane
        return Layout(((_SIDE, 2), per_lane), ((1, half), _SIDE))

    def layout_a_tv(self) -> Layout:
        """Return (lane, value) -> m + M k."""
        return self._operand()

    def layout_b_tv(self) -> Layout:
        """Return (lane, value) -> n + N k."""
        return self._operand()

    def layout_c_tv(self) -> Layout:
        """Return (lane, value) -> m + M n."""
        rows = 8
        if self.copies == 2:
            return Layout(((_SIDE, 2), rows), ((_SIDE, 1), 2))
        return Layout(((_SIDE, 2), rows), ((_SIDE, rows), 1))
