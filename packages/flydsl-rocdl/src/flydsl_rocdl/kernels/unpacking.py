"""Weights of four bits unpacked in registers.

Eight bytes hold 16 neighbouring k: the even nibbles of each word are its first four, the odd ones
the next four. With its upper bit inverted a nibble counts from 0: it is 8 more than its number. As
int8 four at a time lose the 8 and extend their signs, and nothing carries from byte to byte. Below
the byte 0x43, a byte is the number 128 more than it in bfloat16, below 0x64 the one 1024 more in
float16, so 16-bit floats come by putting bytes together and subtracting. 8-bit floats are looked up
by three bits of a nibble in two words, those of either sign. All of this is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any

import flydsl.expr as fx
from flydsl.expr.ambient import require
from flydsl_rocdl.expr.access import intrinsic

__all__ = ["unpacker"]

__flydsl_internal__ = True  # plain Python: nothing here decides on run-time values

_NIBBLES = 0x0F0F0F0F
_INVERTED, _ABOVE = -0x77777778, -0x7F7F7F80  # 0x88888888, 0x80808080
_LESS_8 = -0x08080808
_FLOATS = MappingProxyType(
    {"e4m3fn": (7, 3), "e4m3fnuz": (8, 3), "e5m2": (15, 2), "e5m2fnuz": (16, 2)}
)
"""Exponent's bias, and bits of the mantissa, of 8-bit floats."""


def _bytes_of(share: Any) -> tuple[Any, Any]:
    """Return the nibbles of a word, one per byte: those of its first four k and the other four."""
    return share & _NIBBLES, fx.shrui(share, 4) & _NIBBLES


def _as_bytes(share: Any) -> Any:
    """Return 16 int8 as four words."""
    fours = [four for word in (share[0], share[1]) for four in _bytes_of(word)]
    return fx.Vector.from_elements([((x ^ _INVERTED) + _LESS_8) ^ _ABOVE for x in fours])


def _picked(high: Any, low: Any, selector: Any) -> Any:
    """Return the bytes that those of `selector` name: 0 to 3 `low`, 4 to 7 `high`, 12 a zero."""
    session = require("unpacker")
    values = fx.Int32(high), fx.Int32(low), fx.Int32(selector)
    word = intrinsic("amdgcn.perm", session.type("i32"), tuple(v.ir_value() for v in values))
    return fx.Int32(word)


def _as_bfloats(share: Any) -> Any:
    """Return eight bfloat16 as four words; `share` is one word of eight k."""
    words = []
    for four in _bytes_of(share ^ _INVERTED):
        for first in (4, 6):
            # An f32 whose upper half is a bfloat16 is the same number.
            pair = [
                _picked(four, 0x43434343, (number << 16) | 0x0C0C) for number in (first, first + 1)
            ]
            two: Any = fx.Vector.from_elements(pair).bitcast(fx.Float32)
            two = (two - fx.Vector.filled((2,), 136.0, fx.Float32)).bitcast(fx.Int32)
            words.append(_picked(two[1], two[0], 0x07060302))
    return fx.Vector.from_elements(words)


def _as_halves(share: Any) -> Any:
    """Return eight float16 as four words; `share` is one word of eight k."""
    words = []
    for four in _bytes_of(share ^ _INVERTED):
        for selector in (0x00050004, 0x00070006):
            pair = fx.Vector.from_elements([_picked(four, 0x64646464, selector)])
            two: Any = pair.bitcast(fx.Float16)
            two = two - fx.Vector.filled((2,), 1032.0, fx.Float16)
            words.append(two.bitcast(fx.Int32)[0])
    return fx.Vector.from_elements(words)


def _code(number: int, bias: int, mantissa: int) -> int:
    """Return the 8-bit float of a small integer: a sign, an exponent, and a mantissa of bits."""
    size = abs(number)
    if not size:
        return 0
    exponent = size.bit_length() - 1
    fraction = ((size << mantissa) >> exponent) - (1 << mantissa)
    return (number < 0) << 7 | (exponent + bias) << mantissa | fraction


def _table(numbers: range, bias: int, mantissa: int) -> list[int]:
    """Return the codes of eight numbers as two words, as signed integers."""
    codes = bytes(_code(number, bias, mantissa) for number in numbers)
    return [int.from_bytes(codes[at : at + 4], "little", signed=True) for at in (0, 4)]


def _as_codes(share: Any, bias: int, mantissa: int) -> Any:
    """Return 16 floats of 8 bits as four words."""
    words = []
    positive, negative = (_table(r, bias, mantissa) for r in (range(8), range(-8, 0)))
    for word in (share[0], share[1]):
        for four in _bytes_of(word):
            places, signs = four & 0x07070707, fx.shrui(four, 3) & 0x01010101
            mask = (signs << 8) - signs
            plus = _picked(positive[1], positive[0], places)
            minus = _picked(negative[1], negative[0], places)
            words.append(plus ^ ((plus ^ minus) & mask))
    return fx.Vector.from_elements(words)


def unpacker(kind: str) -> Callable[[Any], Any]:
    """Return what makes 16 bytes, as four Int32, of the weights of as many bytes.

    Args:
        kind: ``int4`` for int8, ``bf16_int4`` and ``fp16_int4``, ``e4m3fn_int4``,
            ``e4m3fnuz_int4``, ``e5m2_int4`` and ``e5m2fnuz_int4``; with another name there is
            nothing to unpack.

    Returns:
        A function of two Int32 of 16 weights where elements have a byte, of one of eight where they
        have two.
    """
    name = kind.removesuffix("_int4")
    if name in _FLOATS:
        return partial(_as_codes, bias=_FLOATS[name][0], mantissa=_FLOATS[name][1])
    found = {"int4": _as_bytes, "bf16_int4": _as_bfloats, "fp16_int4": _as_halves}
    return found.get(kind, lambda share: share)
