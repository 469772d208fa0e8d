"""Matrix instructions that several CDNA architectures share.

Names follow LLVM's ``llvm.amdgcn.mfma.*`` intrinsics. Passes (of four clocks) are from the
instruction tables of the CDNA3 ISA reference guide, section on dense matrix instructions.
"""

from __future__ import annotations

from flydsl_rocdl.arch.facts import MatrixShape

__all__ = ["CDNA3_MFMA", "CDNA4_MFMA"]


def _fp8(m: int, k: int, passes: int) -> tuple[MatrixShape, ...]:
    return tuple(
        MatrixShape(m, m, k, a, b, "f32", f"mfma.f32.{m}x{m}x{k}.{a}.{b}", passes)
        for a in ("fp8", "bf8")
        for b in ("fp8", "bf8")
    )


CDNA3_MFMA: tuple[MatrixShape, ...] = (
    MatrixShape(16, 16, 4, "f32", "f32", "f32", "mfma.f32.16x16x4f32", 8),
    MatrixShape(32, 32, 2, "f32", "f32", "f32", "mfma.f32.32x32x2f32", 16),
    MatrixShape(16, 16, 16, "f16", "f16", "f32", "mfma.f32.16x16x16f16", 4),
    MatrixShape(16, 16, 16, "bf16", "bf16", "f32", "mfma.f32.16x16x16bf16.1k", 4),
    MatrixShape(32, 32, 8, "f16", "f16", "f32", "mfma.f32.32x32x8f16", 8),
    MatrixShape(32, 32, 8, "bf16", "bf16", "f32", "mfma.f32.32x32x8bf16.1k", 8),
    MatrixShape(16, 16, 32, "i8", "i8", "i32", "mfma.i32.16x16x32.i8", 4),
    MatrixShape(32, 32, 16, "i8", "i8", "i32", "mfma.i32.32x32x16.i8", 8),
    *_fp8(16, 32, 4),
    *_fp8(32, 16, 8),
)
"""Dense shapes of CDNA3; all exist on CDNA4 as well."""

CDNA4_MFMA: tuple[MatrixShape, ...] = (
    *CDNA3_MFMA,
    MatrixShape(16, 16, 32, "f16", "f16", "f32", "mfma.f32.16x16x32.f16", 4),
    MatrixShape(16, 16, 32, "bf16", "bf16", "f32", "mfma.f32.16x16x32.bf16", 4),
    MatrixShape(32, 32, 16, "f16", "f16", "f32", "mfma.f32.32x32x16.f16", 8),
    MatrixShape(32, 32, 16, "bf16", "bf16", "f32", "mfma.f32.32x32x16.bf16", 8),
)
"""CDNA3's shapes and those with doubled k."""
