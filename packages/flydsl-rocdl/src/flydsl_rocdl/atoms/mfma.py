"""Dense matrix multiply-add of the CDNA matrix cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flydsl.dialects.atoms import MmaOp
from flydsl.dialects.elements import element_bits
from flydsl.errors import UserValueError
from flydsl.layout import Layout

__all__ = ["MFMA"]

_WAVE = 64
_GROUP = 4
"""Rows of C that one lane holds next to each other."""


@dataclass(frozen=True, slots=True)
class MFMA(MmaOp):
    """D = A B + C by one wave of 64 lanes, one block.

    Lane t holds row ``t % m`` of A (column of B) and ``k m / 64`` consecutive k from
    ``t // m * (k m / 64)`` on; of C it holds column ``t % m`` and groups of four rows.

    Attributes:
        m: Rows of A and C: 16 or 32.
        n: Columns of B and C, equal to m.
        k: Columns of A.
        a: Element type of A as MLIR text.
        b: Element type of B.
        acc: Element type of C and D.

    Raises:
        UserError: The extents are not those of a one-block instruction.
    """

    prefix: ClassVar[str] = "mfma"
    m: int
    n: int
    k: int
    a: str
    b: str
    acc: str

    def __post_init__(self) -> None:
        if self.m != self.n or self.m not in (16, 32) or self.k <= 0 or self.k * self.m % _WAVE:
            raise UserValueError(
                "no one-block MFMA has these extents",
                code="FLY-U630",
                value=(self.m, self.n, self.k),
                allowed="m = n = 16 with k a multiple of 4, or m = n = 32 with k a multiple of 2",
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
        per_lane = self.k * self.m // _WAVE
        return Layout(((self.m, _WAVE // self.m), per_lane), ((1, self.m * per_lane), self.m))

    def layout_a_tv(self) -> Layout:
        """Return (lane, value) -> m + M k."""
        return self._operand()

    def layout_b_tv(self) -> Layout:
        """Return (lane, value) -> n + N k."""
        return self._operand()

    def layout_c_tv(self) -> Layout:
        """Return (lane, value) -> m + M n."""
        halves = _WAVE // self.m
        repeats = self.m // (_GROUP * halves)
        return Layout(
            ((self.m, halves), (_GROUP, repeats)), ((self.m, _GROUP), (1, _GROUP * halves))
        )
