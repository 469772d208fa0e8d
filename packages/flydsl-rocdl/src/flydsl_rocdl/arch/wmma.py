"""Wave matrix instructions of gfx11, gfx12 and gfx1250: dense, scaled and sparse.

Names follow LLVM's intrinsics. Sources: the RDNA3 and RDNA4 ISA reference guides; LLVM 22 for
gfx1250. Passes are not documented.
"""

from __future__ import annotations

from itertools import product

from flydsl_rocdl.arch.facts import MatrixShape
from flydsl_rocdl.arch.mfma import F8F6F4

__all__ = ["GFX11_MATRIX", "GFX12_MATRIX", "GFX1250_MATRIX"]

_EIGHT = ("fp8", "bf8")


def _halves(family: str, k: int) -> tuple[MatrixShape, ...]:
    """Return the shapes of 16-bit floats, with results of 32 bits and of the operands' type."""
    kinds = (("f16", "f32"), ("bf16", "f32"), ("f16", "f16"), ("bf16", "bf16"))
    return tuple(
        MatrixShape(16, 16, k, ab, ab, acc, f"{family}.{acc}.16x16x{k}.{ab}") for ab, acc in kinds
    )


def _mixes(family: str, k: int, *results: str) -> tuple[MatrixShape, ...]:
    return tuple(
        MatrixShape(16, 16, k, a, b, acc, f"{family}.{acc}.16x16x{k}.{a}.{b}")
        for acc in results
        for a, b in product(_EIGHT, _EIGHT)
    )


def _integers(family: str, *shapes: tuple[int, str]) -> tuple[MatrixShape, ...]:
    return tuple(
        MatrixShape(16, 16, k, ab, ab, "i32", f"{family}.i32.16x16x{k}.{ab}") for k, ab in shapes
    )


def _scaled(name: str) -> tuple[MatrixShape, ...]:
    """Return the shapes of ``scale`` or ``scale16``, by how many k share a scale."""
    square = tuple(
        MatrixShape(16, 16, 128, a, b, "f32", f"wmma.{name}.f32.16x16x128.f8f6f4")
        for a, b in product(F8F6F4, F8F6F4)
    )
    wide = MatrixShape(32, 16, 128, "fp4", "fp4", "f32", f"wmma.{name}.f32.32x16x128.f4")
    return (*square, wide)


GFX11_MATRIX: tuple[MatrixShape, ...] = (
    *_halves("wmma", 16),
    *_integers("wmma", (16, "iu8"), (16, "iu4")),
)
"""Of gfx11; both halves of the wave hold the same A and B."""

GFX12_MATRIX: tuple[MatrixShape, ...] = (
    *_halves("wmma", 16),
    *_integers("wmma", (16, "iu8"), (16, "iu4"), (32, "iu4")),
    *_mixes("wmma", 16, "f32"),
    *_halves("swmmac", 32),
    *_integers("swmmac", (32, "iu8"), (32, "iu4"), (64, "iu4")),
    *_mixes("swmmac", 32, "f32"),
)
"""Of gfx1200 and gfx1201."""

GFX1250_MATRIX: tuple[MatrixShape, ...] = (
    MatrixShape(16, 16, 4, "f32", "f32", "f32", "wmma.f32.16x16x4.f32"),
    *_halves("wmma", 32),
    *_mixes("wmma", 64, "f32", "f16"),
    *_mixes("wmma", 128, "f32", "f16"),
    *_integers("wmma", (64, "iu8")),
    *_halves("swmmac", 64),
    *_mixes("swmmac", 128, "f32", "f16"),
    *_integers("swmmac", (128, "iu8")),
    *_scaled("scale"),
    *_scaled("scale16"),
)
"""Of gfx1250."""
