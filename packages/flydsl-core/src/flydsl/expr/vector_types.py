"""Vector types by name: ``Float32x4`` is ``Vector[Float32, 4]``."""

from __future__ import annotations

from flydsl.expr.numeric import (
    BFloat16,
    Float4E2M1FN,
    Float8E4M3,
    Float8E4M3B11FNUZ,
    Float8E4M3FN,
    Float8E4M3FNUZ,
    Float8E5M2,
    Float8E8M0FNU,
    Float16,
    Float32,
    Float64,
    Int4,
    Int8,
    Int16,
    Int32,
    Int64,
    Int128,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Uint128,
)
from flydsl.expr.vector import vector_alias

__all__ = [
    "BFloat16x1",
    "BFloat16x2",
    "BFloat16x4",
    "BFloat16x8",
    "BFloat16x16",
    "Float4E2M1FNx2",
    "Float4E2M1FNx4",
    "Float4E2M1FNx8",
    "Float4E2M1FNx16",
    "Float4E2M1FNx32",
    "Float8E4M3B11FNUZx1",
    "Float8E4M3B11FNUZx2",
    "Float8E4M3B11FNUZx4",
    "Float8E4M3B11FNUZx8",
    "Float8E4M3B11FNUZx16",
    "Float8E4M3FNUZx1",
    "Float8E4M3FNUZx2",
    "Float8E4M3FNUZx4",
    "Float8E4M3FNUZx8",
    "Float8E4M3FNUZx16",
    "Float8E4M3FNx1",
    "Float8E4M3FNx2",
    "Float8E4M3FNx4",
    "Float8E4M3FNx8",
    "Float8E4M3FNx16",
    "Float8E4M3x1",
    "Float8E4M3x2",
    "Float8E4M3x4",
    "Float8E4M3x8",
    "Float8E4M3x16",
    "Float8E5M2x1",
    "Float8E5M2x2",
    "Float8E5M2x4",
    "Float8E5M2x8",
    "Float8E5M2x16",
    "Float8E8M0FNUx1",
    "Float8E8M0FNUx2",
    "Float8E8M0FNUx4",
    "Float8E8M0FNUx8",
    "Float8E8M0FNUx16",
    "Float16x1",
    "Float16x2",
    "Float16x4",
    "Float16x8",
    "Float16x16",
    "Float32x1",
    "Float32x2",
    "Float32x4",
    "Float32x8",
    "Float64x1",
    "Float64x2",
    "Float64x4",
    "Int4x2",
    "Int4x4",
    "Int4x8",
    "Int4x16",
    "Int4x32",
    "Int8x1",
    "Int8x2",
    "Int8x4",
    "Int8x8",
    "Int8x16",
    "Int16x1",
    "Int16x2",
    "Int16x4",
    "Int16x8",
    "Int16x16",
    "Int32x1",
    "Int32x2",
    "Int32x4",
    "Int32x8",
    "Int64x1",
    "Int64x2",
    "Int64x4",
    "Int128x1",
    "Uint8x1",
    "Uint8x2",
    "Uint8x4",
    "Uint8x8",
    "Uint8x16",
    "Uint16x1",
    "Uint16x2",
    "Uint16x4",
    "Uint16x8",
    "Uint16x16",
    "Uint32x1",
    "Uint32x2",
    "Uint32x4",
    "Uint32x8",
    "Uint64x1",
    "Uint64x2",
    "Uint64x4",
    "Uint128x1",
]

Float16x1 = vector_alias(Float16, (1,))
Float16x2 = vector_alias(Float16, (2,))
Float16x4 = vector_alias(Float16, (4,))
Float16x8 = vector_alias(Float16, (8,))
Float16x16 = vector_alias(Float16, (16,))
BFloat16x1 = vector_alias(BFloat16, (1,))
BFloat16x2 = vector_alias(BFloat16, (2,))
BFloat16x4 = vector_alias(BFloat16, (4,))
BFloat16x8 = vector_alias(BFloat16, (8,))
BFloat16x16 = vector_alias(BFloat16, (16,))
Float32x1 = vector_alias(Float32, (1,))
Float32x2 = vector_alias(Float32, (2,))
Float32x4 = vector_alias(Float32, (4,))
Float32x8 = vector_alias(Float32, (8,))
Float64x1 = vector_alias(Float64, (1,))
Float64x2 = vector_alias(Float64, (2,))
Float64x4 = vector_alias(Float64, (4,))
Float8E5M2x1 = vector_alias(Float8E5M2, (1,))
Float8E5M2x2 = vector_alias(Float8E5M2, (2,))
Float8E5M2x4 = vector_alias(Float8E5M2, (4,))
Float8E5M2x8 = vector_alias(Float8E5M2, (8,))
Float8E5M2x16 = vector_alias(Float8E5M2, (16,))
Float8E4M3x1 = vector_alias(Float8E4M3, (1,))
Float8E4M3x2 = vector_alias(Float8E4M3, (2,))
Float8E4M3x4 = vector_alias(Float8E4M3, (4,))
Float8E4M3x8 = vector_alias(Float8E4M3, (8,))
Float8E4M3x16 = vector_alias(Float8E4M3, (16,))
Float8E4M3FNx1 = vector_alias(Float8E4M3FN, (1,))
Float8E4M3FNx2 = vector_alias(Float8E4M3FN, (2,))
Float8E4M3FNx4 = vector_alias(Float8E4M3FN, (4,))
Float8E4M3FNx8 = vector_alias(Float8E4M3FN, (8,))
Float8E4M3FNx16 = vector_alias(Float8E4M3FN, (16,))
Float8E4M3FNUZx1 = vector_alias(Float8E4M3FNUZ, (1,))
Float8E4M3FNUZx2 = vector_alias(Float8E4M3FNUZ, (2,))
Float8E4M3FNUZx4 = vector_alias(Float8E4M3FNUZ, (4,))
Float8E4M3FNUZx8 = vector_alias(Float8E4M3FNUZ, (8,))
Float8E4M3FNUZx16 = vector_alias(Float8E4M3FNUZ, (16,))
Float8E4M3B11FNUZx1 = vector_alias(Float8E4M3B11FNUZ, (1,))
Float8E4M3B11FNUZx2 = vector_alias(Float8E4M3B11FNUZ, (2,))
Float8E4M3B11FNUZx4 = vector_alias(Float8E4M3B11FNUZ, (4,))
Float8E4M3B11FNUZx8 = vector_alias(Float8E4M3B11FNUZ, (8,))
Float8E4M3B11FNUZx16 = vector_alias(Float8E4M3B11FNUZ, (16,))
Float8E8M0FNUx1 = vector_alias(Float8E8M0FNU, (1,))
Float8E8M0FNUx2 = vector_alias(Float8E8M0FNU, (2,))
Float8E8M0FNUx4 = vector_alias(Float8E8M0FNU, (4,))
Float8E8M0FNUx8 = vector_alias(Float8E8M0FNU, (8,))
Float8E8M0FNUx16 = vector_alias(Float8E8M0FNU, (16,))
Float4E2M1FNx2 = vector_alias(Float4E2M1FN, (2,))
Float4E2M1FNx4 = vector_alias(Float4E2M1FN, (4,))
Float4E2M1FNx8 = vector_alias(Float4E2M1FN, (8,))
Float4E2M1FNx16 = vector_alias(Float4E2M1FN, (16,))
Float4E2M1FNx32 = vector_alias(Float4E2M1FN, (32,))
Int4x2 = vector_alias(Int4, (2,))
Int4x4 = vector_alias(Int4, (4,))
Int4x8 = vector_alias(Int4, (8,))
Int4x16 = vector_alias(Int4, (16,))
Int4x32 = vector_alias(Int4, (32,))
Int8x1 = vector_alias(Int8, (1,))
Int8x2 = vector_alias(Int8, (2,))
Int8x4 = vector_alias(Int8, (4,))
Int8x8 = vector_alias(Int8, (8,))
Int8x16 = vector_alias(Int8, (16,))
Int16x1 = vector_alias(Int16, (1,))
Int16x2 = vector_alias(Int16, (2,))
Int16x4 = vector_alias(Int16, (4,))
Int16x8 = vector_alias(Int16, (8,))
Int16x16 = vector_alias(Int16, (16,))
Uint8x1 = vector_alias(Uint8, (1,))
Uint8x2 = vector_alias(Uint8, (2,))
Uint8x4 = vector_alias(Uint8, (4,))
Uint8x8 = vector_alias(Uint8, (8,))
Uint8x16 = vector_alias(Uint8, (16,))
Uint16x1 = vector_alias(Uint16, (1,))
Uint16x2 = vector_alias(Uint16, (2,))
Uint16x4 = vector_alias(Uint16, (4,))
Uint16x8 = vector_alias(Uint16, (8,))
Uint16x16 = vector_alias(Uint16, (16,))
Int32x1 = vector_alias(Int32, (1,))
Int32x2 = vector_alias(Int32, (2,))
Int32x4 = vector_alias(Int32, (4,))
Int32x8 = vector_alias(Int32, (8,))
Uint32x1 = vector_alias(Uint32, (1,))
Uint32x2 = vector_alias(Uint32, (2,))
Uint32x4 = vector_alias(Uint32, (4,))
Uint32x8 = vector_alias(Uint32, (8,))
Int64x1 = vector_alias(Int64, (1,))
Int64x2 = vector_alias(Int64, (2,))
Int64x4 = vector_alias(Int64, (4,))
Uint64x1 = vector_alias(Uint64, (1,))
Uint64x2 = vector_alias(Uint64, (2,))
Uint64x4 = vector_alias(Uint64, (4,))
Int128x1 = vector_alias(Int128, (1,))
Uint128x1 = vector_alias(Uint128, (1,))
