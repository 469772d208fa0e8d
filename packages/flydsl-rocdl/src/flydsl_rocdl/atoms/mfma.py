"""Matrix multiply-add of the CDNA matrix cores: dense, scaled and sparse, in waves of 64 lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from flydsl.dialects.elements import element_bits
from flydsl.layout import Layout
from flydsl_rocdl.atoms.checks import (
    EIGHT_BIT,
    HALVES,
    SMALL_FLOATS,
    check_choice,
    rows_then_columns,
)
from flydsl_rocdl.atoms.families import Family, MatrixOp, Rule

__all__ = ["MFMA", "SMFMAC", "MFMA_Scale"]

_WAVE = 64
_GROUP = 4
"""Rows of C that one lane holds next to each other, but for f64."""
_BLOCK_SIDES: Mapping[int, tuple[int, int]] = MappingProxyType(
    {64: (4, 4), 256: (4, 16), 1024: (16, 4), 2048: (32, 2)}
)
"""Rows and columns of the result -> (side of a block, blocks)."""


_DENSE = Family(
    "MFMA",
    _WAVE,
    (
        Rule(("f64",), ("f64",)),
        Rule(("xf32", "f32", *HALVES), ("f32",)),
        Rule(("i8",), ("i32",)),
        Rule(EIGHT_BIT, ("f32",), mixed=True),
    ),
    "A and B of one type or two floats of 8 bits; C is f64 for f64, i32 for i8, else f32",
    "m = n = 16 with k a multiple of 4, m = n = 32 with k a multiple of 2; blocks of 4 x 4: "
    "m n = 256 (f64: 64) or m = n = 4; of 16 x 16: m n = 1024; of 32 x 32: m n = 2048",
    listed=True,
)
_SCALED = Family(
    "MFMA_Scale",
    _WAVE,
    (Rule(SMALL_FLOATS, ("f32",), ((16, 16, 128), (32, 32, 64)), mixed=True),),
    "any two of the types, with a result of f32",
    "16 x 16 x 128, 32 x 32 x 64",
    listed=True,
    options=MappingProxyType({"opsel_a": (0, 1, 2, 3), "opsel_b": (0, 1, 2, 3)}),
)
_IN_HALVES = ((16, 16, 32), (32, 32, 16), (16, 16, 64), (32, 32, 32))
_IN_BYTES = ((16, 16, 64), (32, 32, 32), (16, 16, 128), (32, 32, 64))
_SPARSE = Family(
    "SMFMAC",
    _WAVE,
    (
        Rule(HALVES, ("f32",), _IN_HALVES),
        Rule(("i8",), ("i32",), _IN_BYTES),
        Rule(EIGHT_BIT, ("f32",), _IN_BYTES, mixed=True),
    ),
    "A and B of one type or two floats of 8 bits; C is i32 for i8, else f32",
    "m = n = 16 or 32; m k = 512 or 1024 for 16 bits, 1024 or 2048 for 8 bits",
    listed=True,
)


def _result_layout(side: int, blocks: tuple[int, int], group: int) -> Layout:
    """Return (lane, value) -> m + M n of a result of ``blocks[0] x blocks[1]`` square blocks.

    The hardware stacks the rows of all blocks: row r and column j of the stack lie in lane
    ``r // group % R * side + j`` with R = 64 / side, as value ``r // (group * R) * group + r %
    group``. The blocks of f64 differ: row r of block b lies in lane ``16 r + 4 b + j``, as the k of
    the operands do.
    """
    down, along = blocks
    rows = side * down
    count = down * along
    lane_rows = min(_WAVE // side, side // group)
    in_lanes = _WAVE // side // lane_rows  # blocks that lie in different lanes: all or one
    steps = side // (group * lane_rows)
    lanes = [(side, rows), (lane_rows, group)]
    values = [(group, 1), (steps, group * lane_rows)]
    apart = [mode for mode in ((down, side), (along, side * rows)) if mode[0] > 1]
    if group == 1:
        lanes[1:1] = apart
    else:
        (lanes if in_lanes == count else values).extend(apart)
    shape = tuple(m[0] for m in lanes), tuple(m[0] for m in values)
    return Layout(shape, (tuple(m[1] for m in lanes), tuple(m[1] for m in values)))


@dataclass(frozen=True, slots=True)
class MFMA(MatrixOp):
    """D = A B + C by one wave of 64 lanes.

    Lane t holds row ``t % m`` of A (column of B) and ``k m / 64`` consecutive k from
    ``t // m * (k m / 64)`` on; of C it holds column ``t % m`` and groups of four rows (f64: rows
    four apart).

    Instructions of several blocks multiply as many pairs of square blocks. Here their blocks lie
    next to each other: with m = 4 and n = 64 all sixteen blocks of B meet the same block of A, of
    which the lanes hold copies; with m = 8 and n = 32 two blocks of A meet eight of B. With
    m = n = 4, an operation of four lanes, each group of four lanes in a wave multiplies its own
    block: a wave always does sixteen of them.

    Attributes:
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A.
        a: Element type of A as MLIR text, or ``xf32``: f32 rounded to 10 bits of mantissa.
        b: Element type of B.
        acc: Element type of C and D.

    Raises:
        UserError: No architecture has an instruction of these extents and types.
    """

    prefix: ClassVar[str] = "mfma"
    family: ClassVar[Family] = _DENSE

    def _exists(self, rules: list[Rule]) -> bool:  # noqa: ARG002  (blocks make up the extents)
        side = self._blocks()[0] if self.m > 0 and self.n > 0 else 0
        groups = self._groups() if side else 0
        return groups > 0 and self.k > 0 and self.k % groups == 0

    def _blocks(self) -> tuple[int, int, int]:
        """Return the side of a block, and the blocks along M and N; side 0 when there are none."""
        if self.m == self.n and (self.m in (16, 32) or (self.m == 4 and self.a != "f64")):
            return self.m, 1, 1
        side, blocks = _BLOCK_SIDES.get(self.m * self.n, (0, 0))
        doubles = self.m * self.n == 64
        if not side or self.m % side or self.n % side or doubles != (self.a == "f64"):
            return 0, 0, 0
        assert self.m // side * (self.n // side) == blocks
        return side, self.m // side, self.n // side

    def _groups(self) -> int:
        """Return how many groups of lanes share the k of one row."""
        side, down, along = self._blocks()
        return 1 if self.m == self.n == _GROUP else _WAVE // (side * down * along)

    @property
    def instruction_mnk(self) -> tuple[int, int, int, int]:
        """Extents m, n, k of the instruction's blocks, and their number."""
        side, down, along = self._blocks()
        return side, side, self.k, 16 if self.m == self.n == _GROUP else down * along

    @property
    def elements(self) -> tuple[str, str, str, str]:
        """Element types of A, B, C and D."""
        a, b = ("f32" if e == "xf32" else e for e in (self.a, self.b))
        return a, b, self.acc, self.acc

    def thr_layout(self) -> Layout:
        """Return the lanes of one wave, or of one block of 4 x 4."""
        return Layout(_GROUP if self.m == self.n == _GROUP else _WAVE, 1)

    def _operand(self, side: int) -> Layout:
        rows, is_b = (self.m, self.n)[side], side == 1
        side, down, along = self._blocks()
        strides = (0, side) if is_b else (side, 0)
        per_lane = self.k // self._groups()
        if down * along == 1:
            if side == _GROUP:
                return Layout((side, per_lane), (1, side))
            return rows_then_columns(side, self._groups(), per_lane)
        lanes = [(side, 1), (down, strides[0]), (along, strides[1])]
        lanes = [mode for mode in lanes if mode[0] > 1]
        if self._groups() > 1:
            lanes.append((self._groups(), rows * per_lane))
        return Layout((tuple(m[0] for m in lanes), per_lane), (tuple(m[1] for m in lanes), rows))

    def layout_c_tv(self) -> Layout:
        """Return (lane, value) -> m + M n."""
        side, down, along = self._blocks()
        if self.m == self.n == _GROUP:
            return Layout((_GROUP, _GROUP), (_GROUP, 1))
        return _result_layout(side, (down, along), 1 if self.a == "f64" else _GROUP)


@dataclass(frozen=True, slots=True)
class _OneBlock(MatrixOp):
    """What scaled and sparse instructions share: one square block of 16 or 32 rows."""

    def layout_c_tv(self) -> Layout:
        """Return (lane, value) -> m + M n."""
        return _result_layout(self.m, (1, 1), _GROUP)


@dataclass(frozen=True, slots=True)
class MFMA_Scale(_OneBlock):  # noqa: N801  (the name of the public API)
    """D = (A scaled) (B scaled) + C by one wave of 64 lanes, of floats of 8, 6 and 4 bits.

    Each 32 consecutive k of a row of A (column of B) share a scale, a power of two as E8M0. State
    ``scale_a`` and ``scale_b`` are four such bytes per lane, of which the selectors choose one;
    without them nothing is scaled. Lane t holds the scale of row ``t % m`` and of
    k = ``t // m * 32`` and up (`layout_scale_tv`).

    A lane holds row ``t % m`` and 32 k: of 6 and 4 bits, k = ``t // m * 32`` and up; of 8 bits
    sixteen k from ``t // m * 16`` on and sixteen more half of K later.

    Attributes:
        m: Rows of A and C: 16 (k = 128) or 32 (k = 64).
        n: Columns of B and C, equal to m.
        k: Columns of A.
        a: Element type of A as MLIR text.
        b: Element type of B.
        acc: Element type of C and D: f32.
        opsel_a: Which byte of ``scale_a`` counts, 0 to 3.
        opsel_b: Which byte of ``scale_b`` counts.

    Raises:
        UserError: No architecture has an instruction of these extents and types.
    """

    prefix: ClassVar[str] = "mfma_scale"
    state: ClassVar[Mapping[str, str]] = MappingProxyType({"scale_a": "i32", "scale_b": "i32"})
    family: ClassVar[Family] = _SCALED
    opsel_a: int = 0
    opsel_b: int = 0

    def _operand(self, side: int) -> Layout:
        groups = _WAVE // self.m
        if element_bits((self.a, self.b)[side]) < 8:
            return rows_then_columns(self.m, groups, 32)
        run = self.m * 16
        return Layout(((self.m, groups), (16, 2)), ((1, run), (self.m, run * groups)))

    def layout_scale_tv(self) -> Layout:
        """Return (lane, 0) -> row + M (k // 32): whose scale a lane holds."""
        return Layout(((self.m, _WAVE // self.m), 1), ((1, self.m), 0))


@dataclass(frozen=True, slots=True)
class SMFMAC(_OneBlock):
    """D = A B + D by one wave of 64 lanes, where of each four k of A two are kept.

    A tile of A is (M, K / 2): the kept elements. State ``index``, or the second part of operand A,
    is an i32 that tells their places: two bits for each kept element of the lane, in order; the
    first of a pair must have the smaller place.

    Lane t holds row ``t % m`` and consecutive kept elements; of B consecutive k, or with 32 bytes
    per lane two runs of 16 bytes half of K apart.

    Attributes:
        m: Rows of A and C: 16 or 32.
        n: Columns of B and C, equal to m.
        k: Rows of B.
        a: Element type of A as MLIR text.
        b: Element type of B.
        acc: Element type of C and D.
        index_set: Which part of the index counts, where the lane's places take 8 or 16 bits.

    Raises:
        UserError: No architecture has an instruction of these extents and types.
    """

    prefix: ClassVar[str] = "smfmac"
    state: ClassVar[Mapping[str, str]] = MappingProxyType({"index": "i32"})
    family: ClassVar[Family] = _SPARSE
    index_set: int = 0

    def __post_init__(self) -> None:
        MatrixOp.__post_init__(self)  # super() does not know the class that slots make
        check_choice("SMFMAC", "index_set", self.index_set, tuple(range(16 // self._kept())))

    def _kept(self) -> int:
        """Return how many elements of A a lane holds."""
        return self.k * self.m // (2 * _WAVE)

    def columns_per_place(self, operand: str) -> int:
        """See `MmaOp.columns_per_place`."""
        return 2 if operand == "A" else 1

    def _operand(self, side: int) -> Layout:
        groups, kept = _WAVE // self.m, self._kept()
        if side == 0:
            return rows_then_columns(self.m, groups, kept)
        if 2 * kept * element_bits(self.b) <= 128:
            return rows_then_columns(self.n, groups, 2 * kept)
        return Layout(
            ((self.n, groups), (kept, 2)),
            ((1, self.n * kept), (self.n, self.n * kept * groups)),
        )
