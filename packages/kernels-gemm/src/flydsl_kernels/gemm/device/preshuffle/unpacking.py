"""Weights of four bits unpacked in registers.

Eight bytes hold 16 neighbouring k: the even nibbles of each word are its first four, the odd ones
the next four. As int8 they are spread and their signs extended, four at a time; as 16-bit floats
each becomes a number, which it is exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flydsl.expr as fx
from flydsl.expr.ambient import require
from flydsl.expr.emit import emit

__all__ = ["unpacker"]

__flydsl_internal__ = True  # plain Python: nothing here decides on run-time values

_NIBBLES, _SIGNS = 0x0F0F0F0F, 0x08080808


def _signed(nibbles: Any) -> Any:
    """Extend the sign of four nibbles, one per byte: bits 4 to 7 are bit 3."""
    return nibbles | (nibbles & _SIGNS) * 0x1E


def _as_bytes(share: Any) -> Any:
    """Return 16 int8 as four words."""
    words = []
    for place in range(2):
        word = share[place]
        words += [_signed(word & _NIBBLES), _signed(fx.shrui(word, 4) & _NIBBLES)]
    return fx.Vector.from_elements(words)


def _as_floats(share: Any, kind: Any) -> Any:
    """Return eight 16-bit floats as four words; `share` is one word of eight k."""
    numbers = []
    for number in range(8):
        # Nibble n of the first four is the lower half of byte n, else the upper one.
        place = number % 4 * 8 + number // 4 * 4
        numbers.append(fx.Int32(share << (28 - place)) >> 28)
    floats = fx.Vector.from_elements(numbers).to(fx.Float32).to(kind)
    value = emit("llvm.bitcast", require("unpacker").type("vector<4xi32>"), (floats.ir_value(),))
    return fx.Vector(value, None, fx.Int32)


def unpacker(in_dtype: str) -> Callable[[Any], Any]:
    """Return what makes fragments of Int32x4 of a loaded share of B."""
    if in_dtype == "int4":
        return _as_bytes
    if in_dtype == "bf16_int4":
        return lambda share: _as_floats(share, fx.BFloat16)
    if in_dtype == "fp16_int4":
        return lambda share: _as_floats(share, fx.Float16)
    return lambda share: share
