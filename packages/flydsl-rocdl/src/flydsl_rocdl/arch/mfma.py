"""Matrix instructions of the CDNA architectures: dense, scaled and sparse.

Names follow LLVM's intrinsics. Sources: the instruction tables of the CDNA3 and CDNA4 ISA reference
guides for what exists; LLVM 22's scheduling model for the passes (of four clocks each), which a
test compares. An f8f6f4 instruction takes half the passes when neither operand has 8 bits (CDNA4
ISA reference guide).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from flydsl_rocdl.arch.facts import MatrixShape

__all__ = ["CDNA3_MATRIX", "CDNA4_MATRIX", "F8F6F4"]

F8F6F4 = ("fp8", "bf8", "fp6", "bf6", "fp4")
"""Element formats by their codes in ``f8f6f4`` instructions."""
_EIGHT = ("fp8", "bf8")


def _dense(
    element: str, acc: str, suffix: str, shapes: Iterable[tuple[int, int, int, int]]
) -> tuple[MatrixShape, ...]:
    """Return dense shapes of (rows, k, blocks, passes); `suffix` is the end of the intrinsic."""
    return tuple(
        MatrixShape(
            m, m, k, element, element, acc, f"mfma.{acc}.{m}x{m}x{k}{suffix}", passes, blocks
        )
        for m, k, blocks, passes in shapes
    )


def _mixes(family: str, shapes: Iterable[tuple[int, int, int]]) -> tuple[MatrixShape, ...]:
    """Return the four mixes of 8-bit floats for shapes of (rows, k, passes)."""
    return tuple(
        MatrixShape(m, m, k, a, b, "f32", f"{family}.f32.{m}x{m}x{k}.{a}.{b}", passes)
        for m, k, passes in shapes
        for a, b in product(_EIGHT, _EIGHT)
    )


def _sparse(
    element: str, acc: str, shapes: Iterable[tuple[int, int, int]]
) -> tuple[MatrixShape, ...]:
    return tuple(
        MatrixShape(m, m, k, element, element, acc, f"smfmac.{acc}.{m}x{m}x{k}.{element}", passes)
        for m, k, passes in shapes
    )


def _scaled() -> tuple[MatrixShape, ...]:
    return tuple(
        MatrixShape(
            m, m, k, a, b, "f32", f"mfma.scale.f32.{m}x{m}x{k}.f8f6f4",
            passes if a in _EIGHT or b in _EIGHT else passes // 2,
        )
        for m, k, passes in ((16, 128, 8), (32, 64, 16))
        for a, b in product(F8F6F4, F8F6F4)
    )  # fmt: skip


_HALF = ((32, 4, 2, 16), (16, 4, 4, 8), (4, 4, 16, 2), (32, 8, 1, 8), (16, 16, 1, 4))
_COMMON = (
    *_dense("f32", "f32", "f32",
            ((32, 1, 2, 16), (16, 1, 4, 8), (4, 1, 16, 2), (32, 2, 1, 16), (16, 4, 1, 8))),
    *_dense("f16", "f32", "f16", _HALF),
    *_dense("bf16", "f32", "bf16.1k", _HALF),
    *_dense("i8", "i32", "i8", ((32, 4, 2, 16), (16, 4, 4, 8), (4, 4, 16, 2))),
    *_dense("i8", "i32", ".i8", ((32, 16, 1, 8), (16, 32, 1, 4))),
    *_dense("f64", "f64", "f64", ((4, 4, 4, 4),)),
    *_mixes("mfma", ((16, 32, 4), (32, 16, 8))),
    *_sparse("f16", "f32", ((16, 32, 4), (32, 16, 8))),
    *_sparse("bf16", "f32", ((16, 32, 4), (32, 16, 8))),
    *_sparse("i8", "i32", ((16, 64, 4), (32, 32, 8))),
    *_mixes("smfmac", ((16, 64, 4), (32, 32, 8))),
)  # fmt: skip

CDNA3_MATRIX: tuple[MatrixShape, ...] = (
    *_COMMON,
    *_dense("f64", "f64", "f64", ((16, 4, 1, 8),)),
    *_dense("xf32", "f32", ".xf32", ((16, 8, 1, 4), (32, 4, 1, 8))),
)
"""Matrix instructions of CDNA3."""

CDNA4_MATRIX: tuple[MatrixShape, ...] = (
    *_COMMON,
    *_dense("f64", "f64", "f64", ((16, 4, 1, 16),)),
    *_dense("f16", "f32", ".f16", ((16, 32, 1, 4), (32, 16, 1, 8))),
    *_dense("bf16", "f32", ".bf16", ((16, 32, 1, 4), (32, 16, 1, 8))),
    *_dense("i8", "i32", ".i8", ((16, 64, 1, 4), (32, 32, 1, 8))),
    *_sparse("f16", "f32", ((16, 64, 4), (32, 32, 8))),
    *_sparse("bf16", "f32", ((16, 64, 4), (32, 32, 8))),
    *_sparse("i8", "i32", ((16, 128, 4), (32, 64, 8))),
    *_mixes("smfmac", ((16, 128, 4), (32, 64, 8))),
    *_scaled(),
)
"""Matrix instructions of CDNA4: without xf32, with doubled k and with scales."""
