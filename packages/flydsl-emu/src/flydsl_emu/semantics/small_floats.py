"""8-, 6- and 4-bit floats: decoding tables and encoders.

gfx942 has the FNUZ encodings of 8-bit floats (one NaN, no infinity, no negative zero), gfx950 the
OCP ones. The 6- and 4-bit formats have neither NaN nor infinity.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache

from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.value_types import F32, U32

__all__ = [
    "BF6",
    "BF8",
    "BF8_FNUZ",
    "FP4",
    "FP6",
    "FP8",
    "FP8_FNUZ",
    "HALF",
    "Format",
    "decode",
    "encode",
]


@dataclass(frozen=True, slots=True)
class Format:
    """One small float format.

    Attributes:
        name: Name.
        exponent, mantissa: Field widths; a sign bit goes above.
        bias: Exponent bias.
        nan: Code of NaN, or None when the format has none.
        infinity: Code of infinity, or None.
        largest: Code of the largest finite value.
        fnuz: The code of negative zero is the NaN.
    """

    name: str
    exponent: int
    mantissa: int
    bias: int
    nan: int | None
    infinity: int | None
    largest: int
    fnuz: bool = False

    @property
    def bits(self) -> int:
        """Width in bits."""
        return 1 + self.exponent + self.mantissa

    def value(self, code: int) -> float:
        """Return the value of one code."""
        sign = -1.0 if code >> (self.bits - 1) else 1.0
        size = code & (1 << (self.bits - 1)) - 1
        if self.fnuz and code == self.nan:
            return float("nan")
        if not self.fnuz and size > self.largest:
            return sign * float("inf") if size == self.infinity else float("nan")
        field, fraction = size >> self.mantissa, size & (1 << self.mantissa) - 1
        unit = 2.0**-self.mantissa
        if field == 0:
            return sign * fraction * unit * 2.0 ** (1 - self.bias)
        return sign * (1 + fraction * unit) * 2.0 ** (field - self.bias)


FP8_FNUZ = Format("fp8", 4, 3, 8, 0x80, None, 0x7F, True)
BF8_FNUZ = Format("bf8", 5, 2, 16, 0x80, None, 0x7F, True)
FP8 = Format("fp8", 4, 3, 7, 0x7F, None, 0x7E)
BF8 = Format("bf8", 5, 2, 15, 0x7F, 0x7C, 0x7B)
FP6 = Format("fp6", 2, 3, 1, None, None, 0x1F)
BF6 = Format("bf6", 3, 2, 3, None, None, 0x1F)
FP4 = Format("fp4", 2, 1, 1, None, None, 0x7)
HALF = Format("f16", 5, 10, 15, 0x7E00, 0x7C00, 0x7BFF)


@cache
def _table(form: Format) -> tuple[int, ...]:
    values = (form.value(code) for code in range(1 << form.bits))
    return tuple(struct.unpack("<I", struct.pack("<f", x))[0] for x in values)


def decode(v: VectorApi, form: Format, code: Value) -> Value:
    """Return the ``F32`` values of codes in ``U32`` (already masked to the format's width)."""
    return v.cast(v.lookup(_table(form), code), F32)


def encode(
    v: VectorApi, form: Format, x: Value, random: Value | None = None, saturate: bool = False
) -> Value:
    """Round ``F32`` values to codes, as ``U32``.

    Args:
        v: Vector API.
        form: Format.
        x: Values.
        random: ``U32`` whose high bits are added below the kept mantissa (stochastic rounding);
            None rounds to nearest even.
        saturate: Values too large give the largest finite one instead of infinity or NaN.
    """
    drop = 23 - form.mantissa
    size = v.abs(x)
    bits = v.cast(size, U32)
    if random is None:
        odd = v.bit_and(v.shr(bits, drop), 1)
        carried = v.add(v.add(bits, (1 << (drop - 1)) - 1), odd)
    else:
        carried = v.add(bits, v.shr(random, 32 - drop))
    normal = v.sub(v.shr(carried, drop), (127 - form.bias) << form.mantissa)
    scaled = v.mul(size, 2.0 ** (form.bias - 1 + form.mantissa))
    if random is None:
        small = v.truncate(v.rint(scaled), U32)
    else:
        fixed = v.truncate(v.mul(v.min(scaled, v.const(F32, 2.0**form.mantissa)), 2.0**drop), U32)
        small = v.shr(v.add(fixed, v.shr(random, 32 - drop)), drop)
    code = v.select(v.lt(size, 2.0 ** (1 - form.bias)), small, normal)
    if saturate or (form.nan is None and form.infinity is None):
        beyond = form.largest
    elif form.infinity is not None:
        beyond = form.infinity
    else:
        beyond = form.nan or 0
    over = v.bit_or(v.lt(form.largest, code), v.eq(size, float("inf")))
    sign = v.shl(v.shr(v.cast(x, U32), 31), form.bits - 1)
    if form.fnuz:
        sign = v.select(v.eq(code, 0), v.const(U32, 0), sign)
        if not saturate:
            sign = v.select(over, v.const(U32, 0), sign)
    result = v.bit_or(v.select(over, v.const(U32, beyond), code), sign)
    if form.nan is None:
        largest = v.bit_or(v.const(U32, form.largest), sign)
        return v.select(v.is_nan(x), largest, result)
    return v.select(v.is_nan(x), v.const(U32, form.nan), result)
