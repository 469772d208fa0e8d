"""Floating-point formats in pure Python: rounding, encoding and decoding, exact.

Constants fold through these, so that a folded value is bit-equal to what a device computes.
Rounding is to nearest, ties to even. Every format has at most 53 bits of precision, so a Python
float holds each of its values exactly.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Literal

from flydsl.errors import UserValueError

__all__ = ["FORMATS", "FloatFormat"]


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary floating-point format.

    Attributes:
        name: MLIR spelling (``"f8E4M3FN"``).
        exponent_bits, mantissa_bits, bias: Field widths and exponent bias.
        specials: ``"ieee"`` has infinities and NaNs; ``"fn"`` only the all-ones NaN; ``"fnuz"``
            only the NaN with the code of minus zero, and no minus zero; ``"finite"`` neither;
            ``"scale"`` is unsigned exponents with one NaN (E8M0).
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: Literal["ieee", "fn", "fnuz", "finite", "scale"] = "ieee"

    @property
    def width(self) -> int:
        """Bits of one value."""
        sign = 0 if self.specials == "scale" else 1
        return sign + self.exponent_bits + self.mantissa_bits

    @property
    def largest(self) -> float:
        """The largest finite value."""
        top = (1 << self.exponent_bits) - 1
        fraction = (1 << self.mantissa_bits) - 1
        if self.specials == "ieee":
            top -= 1
        elif self.specials == "scale":
            return math.ldexp(1.0, top - 1 - self.bias)
        elif self.specials == "fn":
            fraction -= 1
        scale = top - self.bias - self.mantissa_bits
        return math.ldexp(float((1 << self.mantissa_bits) + fraction), scale)

    def round(self, value: float) -> float:
        """Return `value` rounded to the format.

        Beyond the largest value: infinity where the format has one, else NaN, else (formats with
        neither) the largest value.

        Raises:
            UserValueError: The format has no code for it (NaN in a finite-only format; zero or a
                negative number in E8M0).
        """
        if self.name == "f64":
            return value
        if self.name == "f32":
            return _round_packed(value, "<f")
        if self.name == "f16":
            return _round_packed(value, "<e")
        if math.isnan(value):
            if self.specials == "finite":
                raise self._no_code(value)
            return math.nan
        magnitude = abs(value)
        if self.specials == "scale" and (value <= 0.0):
            raise self._no_code(value)
        if magnitude != 0.0 and not math.isinf(value):
            exponent = max(math.frexp(magnitude)[1] - 1, self._lowest_exponent())
            quantum = exponent - self.mantissa_bits
            magnitude = math.ldexp(float(round(math.ldexp(magnitude, -quantum))), quantum)
        if magnitude > self.largest:
            magnitude = self._overflow()
        elif self.specials == "scale":
            magnitude = max(magnitude, math.ldexp(1.0, -self.bias))  # there is no zero
        if magnitude == 0.0 and self.specials == "fnuz":
            return 0.0
        return math.copysign(magnitude, value)

    def round_integer(self, value: int) -> float:
        """Return an integer of any size rounded once (``float(value)`` would round before).

        Raises:
            UserValueError: As `round`.
        """
        extra = abs(value).bit_length() - 53
        if extra <= 0 or self.name == "f64":
            return self.round(float(value))
        # Set the last of 53 digits if anything is lost: rounding that rounds right.
        digits = abs(value) >> extra
        digits |= digits << extra != abs(value)
        return self.round(math.copysign(math.ldexp(float(digits), extra), value))

    def holds(self, other: FloatFormat) -> bool:
        """Return whether every finite value of `other` is a value of this format."""
        if self is other:
            return True
        if self.specials == "scale":
            return False
        least = self._lowest_exponent() - self.mantissa_bits
        return (
            self.mantissa_bits >= other.mantissa_bits
            and self.largest >= other.largest
            and least <= other._lowest_exponent() - other.mantissa_bits
        )

    def encode(self, value: float) -> int:
        """Return the code of `value`, which is rounded first."""
        value = self.round(value)
        if self.name == "f64":
            return int.from_bytes(struct.pack("<d", value), "little")
        sign = 0
        if self.specials != "scale" and not math.isnan(value) and math.copysign(1.0, value) < 0:
            sign = 1 << (self.width - 1)
        if math.isnan(value):
            return self._nan_code()
        if math.isinf(value):
            return sign | ((1 << self.exponent_bits) - 1) << self.mantissa_bits
        magnitude = abs(value)
        lowest = self._lowest_exponent()
        exponent = max(math.frexp(magnitude)[1] - 1, lowest) if magnitude else lowest
        digits = int(math.ldexp(magnitude, self.mantissa_bits - exponent))
        if self.specials == "scale":
            return exponent + self.bias
        if digits >> self.mantissa_bits:
            field = exponent + self.bias
            return sign | field << self.mantissa_bits | (digits - (1 << self.mantissa_bits))
        return sign | digits

    def decode(self, code: int) -> float:
        """Return the value of a code."""
        if self.name == "f64":
            return float(struct.unpack("<d", code.to_bytes(8, "little"))[0])
        top = (1 << self.exponent_bits) - 1
        if self.specials == "scale":
            return math.nan if code == top else math.ldexp(1.0, code - self.bias)
        sign = -1.0 if code >> (self.width - 1) else 1.0
        field = code >> self.mantissa_bits & top
        fraction = code & ((1 << self.mantissa_bits) - 1)
        if self.specials == "fnuz" and code == 1 << (self.width - 1):
            return math.nan
        if self.specials == "ieee" and field == top:
            return math.nan if fraction else sign * math.inf
        if self.specials == "fn" and field == top and fraction == (1 << self.mantissa_bits) - 1:
            return math.nan
        if field == 0:
            return sign * math.ldexp(float(fraction), self._lowest_exponent() - self.mantissa_bits)
        digits = (1 << self.mantissa_bits) + fraction
        return sign * math.ldexp(float(digits), field - self.bias - self.mantissa_bits)

    def _lowest_exponent(self) -> int:
        return -self.bias if self.specials == "scale" else 1 - self.bias

    def _overflow(self) -> float:
        if self.specials == "ieee":
            return math.inf
        return self.largest if self.specials == "finite" else math.nan

    def _nan_code(self) -> int:
        top = (1 << self.exponent_bits) - 1
        if self.specials == "fnuz":
            return 1 << (self.width - 1)
        if self.specials == "scale":
            return top
        if self.specials == "fn":
            return (1 << (self.width - 1)) - 1
        return top << self.mantissa_bits | 1 << (self.mantissa_bits - 1)

    def _no_code(self, value: float) -> UserValueError:
        return UserValueError(
            f"{self.name} has no code for this value", code="FLY-U206", value=value
        )


def _round_packed(value: float, code: str) -> float:
    try:
        return float(struct.unpack(code, struct.pack(code, value))[0])
    except OverflowError:  # struct refuses exactly what rounds to infinity
        return math.copysign(math.inf, value)


_ALL = (
    FloatFormat("f64", 11, 52, 1023),
    FloatFormat("f32", 8, 23, 127),
    FloatFormat("f16", 5, 10, 15),
    FloatFormat("bf16", 8, 7, 127),
    FloatFormat("f8E5M2", 5, 2, 15),
    FloatFormat("f8E5M2FNUZ", 5, 2, 16, "fnuz"),
    FloatFormat("f8E4M3", 4, 3, 7),
    FloatFormat("f8E4M3FN", 4, 3, 7, "fn"),
    FloatFormat("f8E4M3FNUZ", 4, 3, 8, "fnuz"),
    FloatFormat("f8E4M3B11FNUZ", 4, 3, 11, "fnuz"),
    FloatFormat("f8E8M0FNU", 8, 0, 127, "scale"),
    FloatFormat("f6E2M3FN", 2, 3, 1, "finite"),
    FloatFormat("f6E3M2FN", 3, 2, 3, "finite"),
    FloatFormat("f4E2M1FN", 2, 1, 1, "finite"),
)

FORMATS = {item.name: item for item in _ALL}
"""Every floating-point format by its MLIR spelling."""
