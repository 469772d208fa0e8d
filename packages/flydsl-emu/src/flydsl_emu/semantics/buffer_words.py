"""Where a buffer descriptor holds its base, its extent and its stride.

Up to gfx12 the base has 48 bits, the stride 14 from bit 48 on, and the number of records 32 from
bit 64 on. On gfx1250 the base has 57 bits, the number of records 45 from bit 57 on, and the stride
14 from bit 108 on (what LLVM builds there).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import extract, join64
from flydsl_emu.semantics.value_types import U64

__all__ = ["BufferWords", "buffer_words"]


@dataclass(frozen=True, slots=True)
class BufferWords:
    """Fields of a descriptor, ``U64`` each.

    Attributes:
        base: Address.
        records: Number of records, or bytes.
        stride: Bytes of a record.
    """

    base: Value
    records: Value
    stride: Value


def buffer_words(v: VectorApi, words: Sequence[Value], wide: bool) -> BufferWords:
    """Return the fields of four words; `wide` for gfx1250."""
    if not wide:
        return BufferWords(
            join64(v, words[0], v.bit_and(words[1], 0xFFFF)),
            v.convert(words[2], U64),
            v.convert(extract(v, words[1], 16, 14), U64),
        )
    low = v.convert(v.shr(words[1], 25), U64)
    middle = v.shl(v.convert(words[2], U64), 7)
    high = v.shl(v.convert(v.bit_and(words[3], 0x3F), U64), 39)
    return BufferWords(
        join64(v, words[0], v.bit_and(words[1], 0x1FFFFFF)),
        v.bit_or(v.bit_or(low, middle), high),
        v.convert(extract(v, words[3], 12, 14), U64),
    )
