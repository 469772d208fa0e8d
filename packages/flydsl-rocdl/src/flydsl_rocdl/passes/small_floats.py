"""Numbers of 8, 6 and 4 bits in integer arithmetic, for architectures that cannot convert them.

The results are those of the conversion instructions of the architectures that have them: to
nearest, ties to even; too large becomes infinity where the format has it, else NaN, else the
largest value; NaN in a format without one becomes the largest value. ``f8E8M0FNU`` has neither zero
nor sign: zero and negative numbers become NaN, ties go to the larger power.
"""

from __future__ import annotations

import math

from flydsl.expr.numeric.formats import FORMATS, FloatFormat
from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.words import EQ, UGE, UGT, ULT, Words

__all__ = ["AWAY", "DOWN", "EVEN", "UP", "ZERO", "decode", "encode", "is_small"]

EVEN, DOWN, UP, ZERO, AWAY = range(5)
"""Rounding modes, as ``arith.roundingmode`` numbers them."""
_NAN = 0x7FC00000
_INFINITY = 0x7F800000


def is_small(element: str) -> bool:
    """Return whether `element` spells a float of less than 16 bits."""
    return element in FORMATS and FORMATS[element].width < 16


def decode(w: Words, form: FloatFormat, code: Value) -> Value:
    """Return the f32 values of codes, which are i32 with zeros above the format's width."""
    mantissa, sign_bit = form.mantissa_bits, 1 << (form.width - 1)
    if form.specials == "scale":
        plain = w.select(w.compare(EQ, code, 0), 0x00400000, w.binary("shli", code, 23))
        return w.bits(w.select(w.compare(EQ, code, 255), _NAN, plain), "f32")
    size = w.binary("andi", code, sign_bit - 1)
    placed = w.binary("shli", size, 23 - mantissa)
    normal = w.binary("addi", placed, (127 - form.bias) << 23)
    unit = w.constant(2.0 ** (1 - form.bias - mantissa), "f32")
    tiny = w.bits(w.binary("mulf", w.unary("uitofp", "f32", size), unit), "i32")
    bits = w.select(w.compare(ULT, size, 1 << mantissa), tiny, normal)
    if form.specials == "ieee":
        special = w.binary("ori", placed, _INFINITY)
        top = ((1 << form.exponent_bits) - 1) << mantissa
        bits = w.select(w.compare(UGE, size, top), special, bits)
    elif form.specials == "fn":
        bits = w.select(w.compare(EQ, size, sign_bit - 1), _NAN, bits)
    sign = w.binary("shli", w.binary("andi", code, sign_bit), 32 - form.width)
    bits = w.binary("ori", bits, sign)
    if form.specials == "fnuz":
        bits = w.select(w.compare(EQ, code, sign_bit), _NAN, bits)
    return w.bits(bits, "f32")


def encode(w: Words, form: FloatFormat, x: Value, mode: int = EVEN) -> Value:
    """Return the codes of f32 values as i32, rounded by `mode`."""
    bits = w.bits(x, "i32")
    size = w.binary("andi", bits, 0x7FFFFFFF)
    if form.specials == "scale":
        return _encode_scale(w, bits, size, mode)
    sign = w.binary("shli", w.binary("shrui", bits, 31), form.width - 1)
    code = _nearest(w, form, size) if mode == EVEN else _directed(w, form, bits, size, mode)
    largest = form.encode(form.largest)
    if form.specials == "finite":
        return w.binary("ori", w.binary("minui", code, largest), sign)
    nan, beyond = form.encode(math.nan), form.encode(math.inf)
    code = w.select(w.compare(UGT, code, largest), _limit(w, bits, mode, largest, beyond), code)
    special = w.constant(nan)
    if nan != beyond:
        special = w.select(w.compare(UGT, size, _INFINITY), special, beyond)
    code = w.select(w.compare(UGE, size, _INFINITY), special, code)
    if form.specials == "fnuz":  # zero and NaN have no sign
        sign = w.select(w.compare(UGE, w.binary("subi", code, 1), largest), 0, sign)
    return w.binary("ori", code, sign)


def _limit(w: Words, bits: Value, mode: int, largest: int, beyond: int) -> Value:
    """Return the code of a finite number that is too large."""
    if mode in (EVEN, AWAY):
        return w.constant(beyond)
    if mode == ZERO:
        return w.constant(largest)
    negative = w.compare(EQ, w.binary("shrui", bits, 31), 1)
    outward, inward = w.constant(beyond), w.constant(largest)
    return w.select(negative, *((outward, inward) if mode == DOWN else (inward, outward)))


def _nearest(w: Words, form: FloatFormat, size: Value) -> Value:
    """Round magnitudes, given as f32 bits, to nearest even; codes may exceed the format."""
    drop = 23 - form.mantissa_bits
    odd = w.binary("andi", w.binary("shrui", size, drop), 1)
    carried = w.binary("addi", w.binary("addi", size, (1 << (drop - 1)) - 1), odd)
    normal = w.binary("subi", w.binary("shrui", carried, drop), (127 - form.bias) << (23 - drop))
    # Adding a number whose last place is the format's smallest step makes the adder round.
    magic = FORMATS["f32"].encode(2.0 ** (24 - form.bias - form.mantissa_bits))
    sum_ = w.binary("addf", w.bits(size, "f32"), w.bits(w.constant(magic), "f32"))
    tiny = w.binary("subi", w.bits(sum_, "i32"), magic)
    return w.select(w.compare(ULT, size, (128 - form.bias) << 23), tiny, normal)


def _directed(w: Words, form: FloatFormat, bits: Value, size: Value, mode: int) -> Value:
    """Round magnitudes by another mode; codes may exceed the format."""
    drop, least = 23 - form.mantissa_bits, 128 - form.bias
    normal = w.compare(UGE, size, least << 23)
    digits = w.binary("ori", w.binary("andi", size, 0x7FFFFF), 0x800000)
    more = w.binary("subi", w.constant(drop + least), w.binary("shrui", size, 23))
    shift = w.select(normal, drop, w.binary("minui", more, 31))
    value = w.select(normal, w.binary("subi", size, (127 - form.bias) << 23), digits)
    value = w.select(w.compare(EQ, size, 0), 0, value)
    if mode == ZERO:
        return w.binary("shrui", value, shift)
    step = w.binary("shli", w.constant(1), shift)
    if mode == AWAY:
        added = w.binary("shrui", step, 1)
    else:
        outward = w.compare(EQ, w.binary("shrui", bits, 31), 1 if mode == DOWN else 0)
        added = w.select(outward, w.binary("subi", step, 1), 0)
    return w.binary("shrui", w.binary("addi", value, added), shift)


def _encode_scale(w: Words, bits: Value, size: Value, mode: int) -> Value:
    """Return exponents: half a power and more goes up, and what is below 2**-127 becomes it."""
    added = {EVEN: 0x400000, AWAY: 0x400000, UP: 0x7FFFFF, DOWN: 0, ZERO: 0}[mode]
    code = w.binary("shrui", w.binary("addi", size, added), 23)
    if mode in (EVEN, AWAY, UP):
        # Code 0 is 2**-127, half the least normal f32, so its neighbour starts elsewhere.
        limit = 0x00600000 if mode != UP else 0x00400001
        code = w.select(w.compare(ULT, size, limit), 0, w.binary("maxui", code, 1))
    # Zero, negative numbers and NaN.
    bad = w.compare(UGT, w.binary("subi", bits, 1), _INFINITY - 1)
    return w.select(bad, 255, code)
