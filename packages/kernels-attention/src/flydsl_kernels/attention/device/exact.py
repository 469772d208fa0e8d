"""8-bit numbers in types of 16 bits, which hold them exactly.

Architectures convert one flavour of 8-bit floats, or none. The others are built of their bits, two
numbers to a register: a byte becomes the upper half of 16 bits. That is an e5m2 float as float16
already. Of an e4m3 float sign, exponent and mantissa are shifted to the places that float16 has
for them, and a multiplication by a power of two, exact for subnormal numbers too, corrects the
bias of the exponent.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl_rocdl.expr.access import amd_facts

__all__ = ["exact16"]

_NATIVE = {
    "ocp": (fx.Float8E4M3FN, fx.Float8E5M2),
    "fnuz": (fx.Float8E4M3FNUZ,),
}
_BIASES = {fx.Float8E4M3FN: 7, fx.Float8E4M3FNUZ: 8}
_BIAS = 15
"""Of float16."""
_SIGNS = 0x80008000 - (1 << 32)
"""The upper bits of both halves of a word."""


def exact16(values: Any, kind: Any) -> Any:
    """Return a vector of 8-bit elements in a type of 16 bits; one of that type as it is."""
    source = values.dtype
    if source is kind:
        return values
    known = source is fx.Int8 or source in _NATIVE.get(amd_facts("exact16").fp8, ())
    if known or values.numel % 4:
        wide = values.to(fx.Float32)
    else:
        half = _half_floats(values)
        if kind is fx.Float16:
            return half
        wide = half.to(fx.Float32)
    if kind is fx.Float16:
        return wide.to(fx.Float16)
    # The low halves are zero: no rounding.
    halves = wide.bitcast(fx.BFloat16)
    return halves.shuffle(halves, range(1, 2 * wide.shape[0], 2))


def _half_floats(values: Any) -> Any:
    """Return 8-bit floats, a multiple of four, as float16."""
    words, nans = [], []
    bias = _BIASES.get(values.dtype)
    for word in values.bitcast(fx.Int32):
        for order in (0x010C000C, 0x030C020C):
            pair = fx.rocdl.perm(fx.Int32, word, word, fx.Int32(order))
            if bias is not None:
                size = ((pair & 0x7F007F00) >> 1) & 0x3F803F80
                nans.append(_nans(values.dtype, pair, size))
                pair = (pair & _SIGNS) | size
            words.append(pair)
    found: Any = fx.Vector.from_elements(words).bitcast(fx.Float16)
    if bias is None:
        return found
    factor = fx.Vector.filled((values.numel,), 2.0 ** (_BIAS - bias), fx.Float16)
    scaled = (found * factor).bitcast(fx.Int32)
    marked = [word | nan for word, nan in zip(scaled, nans, strict=True)]
    return fx.Vector.from_elements(marked).bitcast(fx.Float16)


def _nans(kind: Any, pair: Any, size: Any) -> Any:
    """Return all bits but the sign for each of two numbers that is NaN, else none.

    Args:
        kind: Type of the numbers.
        pair: Their codes in the upper bytes of the halves.
        size: Codes without signs, shifted right by one.
    """
    if kind is fx.Float8E4M3FN:
        # Only the code 0x7F, 0x3F80 here, makes the sum carry into the upper bit.
        marks = size + 0x40804080
    else:
        # Only the code 0x80 leaves the upper bit when its difference to it is taken away.
        away = ((pair ^ _SIGNS) >> 1) & 0x7F807F80
        marks = fx.Int32(_SIGNS) - away
    marks = marks & _SIGNS
    return marks - ((marks >> 15) & 0x00010001)
