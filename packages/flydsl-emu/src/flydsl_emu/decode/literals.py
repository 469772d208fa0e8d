"""Which literals LLVM marks: those whose value an inline constant could give as well.

Such a literal prints as ``lit(0x1)``, so that the text assembles to the same bytes.
"""

from __future__ import annotations

import struct

__all__ = ["could_be_inline"]

_NUMBERS = (0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0)
_SINGLE = frozenset(
    [*(int.from_bytes(struct.pack(">f", n)) for n in _NUMBERS), 0x3E22F983]  # 1/(2 pi)
)
_HALF = frozenset([*(int.from_bytes(struct.pack(">e", n)) for n in _NUMBERS), 0x3118])


def could_be_inline(value: int, count: int, kind: str) -> bool:
    """Whether an inline constant has the value of a literal.

    Args:
        value: The literal's 32 bits.
        count: Registers that the operand covers.
        kind: Its type: ``"f16"``, ``"packed f16"``, ``"f64"`` or ``"b32"`` (any other).
    """
    if kind == "f64":
        return False
    if count > 1:
        return value <= 64
    if kind == "f16":
        value &= 0xFFFF
        return value <= 64 or value >= 0xFFF0 or value in _HALF
    if value <= 64 or value >= 0xFFFFFFF0:
        return True
    return value in (_HALF if kind == "packed f16" else _SINGLE)
