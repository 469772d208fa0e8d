"""Element types of values in the vector API."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "B1",
    "F16",
    "F32",
    "F64",
    "I8",
    "I16",
    "I32",
    "I64",
    "TYPES",
    "U8",
    "U16",
    "U32",
    "U64",
    "Type",
]


@dataclass(frozen=True, slots=True)
class Type:
    """An element type: `kind` is ``"u"``, ``"i"``, ``"f"`` or ``"b"`` (one truth value)."""

    name: str
    kind: str
    bits: int

    @property
    def registers(self) -> int:
        """How many 32-bit registers hold one element."""
        return max(1, self.bits // 32)


B1 = Type("b1", "b", 1)
U8 = Type("u8", "u", 8)
I8 = Type("i8", "i", 8)
U16 = Type("u16", "u", 16)
I16 = Type("i16", "i", 16)
U32 = Type("u32", "u", 32)
I32 = Type("i32", "i", 32)
U64 = Type("u64", "u", 64)
I64 = Type("i64", "i", 64)
F16 = Type("f16", "f", 16)
F32 = Type("f32", "f", 32)
F64 = Type("f64", "f", 64)

TYPES = {t.name: t for t in (B1, U8, I8, U16, I16, U32, I32, U64, I64, F16, F32, F64)}
