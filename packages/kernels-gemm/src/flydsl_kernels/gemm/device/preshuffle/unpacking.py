"""Weights of four bits unpacked in registers.

Eight bytes hold 16 neighbouring k: the even nibbles of each word are its first four, the odd ones
the next four. As int8 they are spread and their signs extended, four at a time; as 16-bit floats
each becomes a number, which it is exactly: a bfloat16 is the upper half of an f32, and in a float16
an unsigned nibble below 0x6400 makes 1024 more than it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flydsl.expr as fx
from flydsl.expr.ambient import require
from flydsl_rocdl.expr.access import intrinsic

__all__ = ["unpacker"]

__flydsl_internal__ = True  # plain Python: nothing here decides on run-time values

_NIBBLES, _SIGNS, _TOP = 0x0F0F0F0F, 0x08080808, -0x77777778


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


def _picked(high: Any, low: Any, selector: int) -> Any:
    """Return four bytes: each digit of `selector` names one, 0 to 3 of `low`, 4 to 7 of `high`."""
    session = require("unpacker")
    values = fx.Int32(high), fx.Int32(low), fx.Int32(selector)
    word = intrinsic("amdgcn.perm", session.type("i32"), tuple(v.ir_value() for v in values))
    return fx.Int32(word)


def _as_bfloats(share: Any) -> Any:
    """Return eight bfloat16 as four words; `share` is one word of eight k."""
    words = []
    for first in range(0, 8, 2):
        pair = []
        for number in (first, first + 1):
            # Nibble n of the first four is the lower half of byte n, else the upper one.
            place = number % 4 * 8 + number // 4 * 4
            signed = fx.Int32(share << (28 - place)) >> 28
            pair.append(signed.to(fx.Float32).bitcast(fx.Int32))
        words.append(_picked(pair[1], pair[0], 0x07060302))
    return fx.Vector.from_elements(words)


def _as_halves(share: Any) -> Any:
    """Return eight float16 as four words; `share` is one word of eight k."""
    shifted = share ^ _TOP  # nibbles from 0 on: 8 more than the numbers
    words = []
    for nibbles in (shifted & _NIBBLES, fx.shrui(shifted, 4) & _NIBBLES):
        for selector in (0x00050004, 0x00070006):
            word = _picked(nibbles, 0x64646464, selector)
            halves: Any = fx.Vector.from_elements([word]).bitcast(fx.Float16)
            halves = halves - fx.Vector.filled((2,), 1032.0, fx.Float16)
            words.append(halves.bitcast(fx.Int32)[0])
    return fx.Vector.from_elements(words)


def unpacker(in_dtype: str) -> Callable[[Any], Any]:
    """Return what makes fragments of Int32x4 of a loaded share of B."""
    if in_dtype == "int4":
        return _as_bytes
    if in_dtype == "bf16_int4":
        return _as_bfloats
    if in_dtype == "fp16_int4":
        return _as_halves
    return lambda share: share
