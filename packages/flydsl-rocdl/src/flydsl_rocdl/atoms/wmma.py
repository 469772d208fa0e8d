"""Matrix multiply-add of the wave matrix units: dense, scaled and sparse, in waves of 32 lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from flydsl.dialects.elements import element_bits
from flydsl.layout import Layout
from flydsl_rocdl.atoms.checks import (
    HALVES,
    SMALL_FLOATS,
    bad_shape,
    check_choice,
    rows_then_columns,
)
from flydsl_rocdl.atoms.families import SAME, Family, MatrixOp, Rule

__all__ = ["SWMMAC", "WMMA", "WMMAScale"]

_WAVE = 32
_SIDE = 16
_EIGHT = ("f8E4M3FN", "f8E5M2")
_MODIFIERS = (0, 1, 2, 3)
_TYPES = (
    "f16 or bf16 with a result of f32 or the same type; two 8-bit floats with f32 or f16; "
    "i8 or i4 with i32"
)


def _squares(*ks: int) -> tuple[tuple[int, int, int], ...]:
    return tuple((_SIDE, _SIDE, k) for k in ks)


def _types(all_of: tuple[int, ...], small: tuple[int, ...]) -> tuple[Rule, ...]:
    """Return the rules of dense or sparse instructions; `small` has the k of 4 bits."""
    return (
        Rule(HALVES, ("f32", SAME), _squares(*all_of)),
        Rule(_EIGHT, ("f32", "f16"), _squares(*all_of), mixed=True),
        Rule(("i8",), ("i32",), _squares(*all_of)),
        Rule(("i4",), ("i32",), _squares(*small)),
    )


_KS = (16, 32, 64, 128)
_DENSE = Family(
    "WMMA",
    _WAVE,
    (*_types(_KS, _KS), Rule(("f32",), ("f32",), _squares(4))),
    f"{_TYPES}; f32",
    "m = n = 16 with k = 16, 32, 64 or 128 (f32: 4), one or two copies",
    options=MappingProxyType({"mod_c": _MODIFIERS}),
)
_SCALED = Family(
    "WMMAScale",
    _WAVE,
    (
        Rule(SMALL_FLOATS, ("f32",), _squares(128), mixed=True),
        Rule(("f4E2M1FN",), ("f32",), ((32, _SIDE, 128),)),
    ),
    "any two of the types, with a result of f32",
    "16 x 16 x 128; 32 x 16 x 128 of f4E2M1FN",
    listed=True,
    options=MappingProxyType(
        {"opsel_a": (0, 1), "opsel_b": (0, 1), "block_size": (32, 16), "mod_c": _MODIFIERS}
    ),
)
_SPARSE = Family(
    "SWMMAC",
    _WAVE,
    _types((32,), (32, 64)),
    _TYPES,
    "m = n = 16 with k = 32, or 64 for i4",
)


@dataclass(frozen=True, slots=True)
class WMMA(MatrixOp):
    """D = A B + C by one wave of 32 lanes.

    Lane t holds row ``t % 16`` of A (column of B). With two copies (RDNA3) every lane holds all k
    and both halves of the wave hold the same; of C, lane t holds column ``t % 16`` and the even
    (t < 16) or odd rows. With one copy (RDNA4) a half of the wave holds a half of k, and eight rows
    of C next to each other; with `interleaved` (CDNA5) the halves take turns every eight k.

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
        interleaved: Whether the halves of the wave hold alternating runs of eight k.
        mod_c: 0 to add C, 1 for -C, 2 for |C|, 3 for -|C|; floats of CDNA5.
        reuse_a: Hint that the next instruction has the same A (CDNA5).
        reuse_b: The same for B.

    Raises:
        UserError: No architecture has an instruction of these extents and types.
    """

    prefix: ClassVar[str] = "wmma"
    family: ClassVar[Family] = _DENSE
    copies: int = 1
    sign_a: bool = True
    sign_b: bool = True
    clamp: bool = False
    interleaved: bool = False
    mod_c: int = 0
    reuse_a: bool = False
    reuse_b: bool = False

    def __post_init__(self) -> None:
        MatrixOp.__post_init__(self)  # super() does not know the class that slots make
        if self.copies not in (1, 2):
            raise bad_shape("WMMA", (self.m, self.n, self.k), self.family.shapes)
        if self.mod_c and self.acc == "i32":
            raise bad_shape("WMMA", f"mod_c={self.mod_c}", "0 for integers")

    def _operand(self, side: int) -> Layout:  # noqa: ARG002  (A and B lie alike)
        if self.copies == 2:
            return Layout(((_SIDE, 2), self.k), ((1, 0), _SIDE))
        if self.interleaved and self.k > _SIDE:
            return _chunks(_SIDE, 8, self.k)
        return rows_then_columns(_SIDE, 2, self.k // 2)

    def layout_c_tv(self) -> Layout:
        """Return (lane, value) -> m + M n."""
        if self.copies == 2:
            return Layout(((_SIDE, 2), 8), ((_SIDE, 1), 2))
        return _result_layout(self.m)


def _chunks(rows: int, width: int, k: int) -> Layout:
    """Return the layout in which the halves of a wave hold alternating runs of `width` k."""
    return Layout(
        ((_SIDE, 2), (width, k // (2 * width))),
        ((1, rows * width), (rows, 2 * rows * width)),
    )


def _result_layout(m: int) -> Layout:
    """Return (lane, value) -> m + M n where a half of a wave holds eight rows of each sixteen."""
    values: tuple[object, object] = (8, 1)
    if m > _SIDE:
        values = ((8, m // _SIDE), (1, _SIDE))
    return Layout(((_SIDE, 2), values[0]), ((m, 8), values[1]))


@dataclass(frozen=True, slots=True)
class WMMAScale(MatrixOp):
    """D = (A scaled) (B scaled) + C by one wave of 32 lanes, of floats of 8, 6 and 4 bits.

    Each `block_size` consecutive k of a row of A (column of B) share a scale, a power of two as
    E8M0. State ``scale_a`` and ``scale_b`` are the four (eight) bytes of a row, lowest k first, in
    the 16 lanes that `opsel_a` and `opsel_b` choose; without them nothing is scaled.

    Lane t holds row ``t % 16``; the halves of the wave take turns every 16 k (8 bits) or 32 k. With
    m = 32 the second half of a lane's values are those of row ``t % 16 + 16``.

    Attributes:
        m: Rows of A and C: 16, or 32 where both types are f4E2M1FN.
        n: Columns of B and C: 16.
        k: Columns of A: 128.
        a: Element type of A as MLIR text.
        b: Element type of B.
        acc: Element type of C and D: f32.
        opsel_a: 0 where lanes 0 to 15 supply the scales of A, 1 where lanes 16 to 31 do.
        opsel_b: The same for B.
        block_size: How many k share a scale: 32 or 16.
        mod_c: 0 to add C, 1 for -C, 2 for |C|, 3 for -|C|.
        reuse_a: Hint that the next instruction has the same A.
        reuse_b: The same for B.

    Raises:
        UserError: No architecture has an instruction of these extents and types.
    """

    prefix: ClassVar[str] = "wmma_scale"
    family: ClassVar[Family] = _SCALED
    opsel_a: int = 0
    opsel_b: int = 0
    block_size: int = 32
    mod_c: int = 0
    reuse_a: bool = False
    reuse_b: bool = False

    @property
    def state(self) -> Mapping[str, str]:  # type: ignore[override]
        """Names and types of the scales."""
        kind = "i32" if self.block_size == 32 else "i64"
        return MappingProxyType({"scale_a": kind, "scale_b": kind})

    @property
    def intrinsic_prefix(self) -> str:
        """How the names of the intrinsics with this block size begin."""
        return "wmma.scale" if self.block_size == 32 else "wmma.scale16"

    def _operand(self, side: int) -> Layout:
        rows = (self.m, self.n)[side]
        width = 16 if element_bits((self.a, self.b)[side]) == 8 else 32
        layout = _chunks(rows, width, self.k)
        if rows == _SIDE:
            return layout
        (shape, values), (stride, steps) = layout.shape, layout.stride
        return Layout((shape, (*values, rows // _SIDE)), (stride, (*steps, _SIDE)))

    def layout_c_tv(self) -> Layout:
        """Return (lane, value) -> m + M n."""
        return _result_layout(self.m)


@dataclass(frozen=True, slots=True)
class SWMMAC(MatrixOp):
    """D = A B + D by one wave of 32 lanes, where of each four k of A two are kept.

    A tile of A is (M, K / 2): the kept elements. State ``index``, or the second part of operand A,
    is an i32 that tells their places: two bits for each kept element of the lane, in order; the
    first of a pair must have the smaller place. Lane t holds row ``t % 16`` of A (column of B) and
    a half of k.

    Attributes:
        m: Rows of A and C: 16.
        n: Columns of B and C: 16.
        k: Rows of B.
        a: Element type of A as MLIR text.
        b: Element type of B.
        acc: Element type of C and D.
        sign_a: Whether integers of A are signed.
        sign_b: Whether integers of B are signed.
        clamp: Whether integer results saturate.
        index_set: Which part of the index counts, where the lane's places take 8 or 16 bits.

    Raises:
        UserError: No architecture has an instruction of these extents and types.
    """

    prefix: ClassVar[str] = "swmmac"
    state: ClassVar[Mapping[str, str]] = MappingProxyType({"index": "i32"})
    family: ClassVar[Family] = _SPARSE
    sign_a: bool = True
    sign_b: bool = True
    clamp: bool = False
    index_set: int = 0

    def __post_init__(self) -> None:
        MatrixOp.__post_init__(self)  # super() does not know the class that slots make
        check_choice("SWMMAC", "index_set", self.index_set, tuple(range(64 // self.k)))

    def columns_per_place(self, operand: str) -> int:
        """See `MmaOp.columns_per_place`."""
        return 2 if operand == "A" else 1

    def _operand(self, side: int) -> Layout:
        return rows_then_columns(_SIDE, 2, self.k // (2 if side else 4))

    def layout_c_tv(self) -> Layout:
        """Return (lane, value) -> m + M n."""
        return _result_layout(self.m)
