"""Scalar element types by their MLIR text: widths, storage and alignment arithmetic."""

from __future__ import annotations

import math
import re
from functools import lru_cache

from flydsl.errors import UserTypeError, UserValueError

__all__ = ["check_alignment", "element_bits", "is_float", "narrowed_alignment", "storage_bits"]

_SCALAR = re.compile(r"(?:i|si|ui|f|bf)(\d+)(?:E\d+M\d+[A-Z0-9]*)?|tf32")


@lru_cache(maxsize=256)
def element_bits(element: str) -> int:
    """Return the bits of a scalar type given by its MLIR text, e.g. 16 for ``"bf16"``.

    Raises:
        UserError: Not a scalar of known width.
    """
    if element == "index":
        return 64
    match = _SCALAR.fullmatch(element)
    if match is None or not match[1]:
        raise UserTypeError(
            "not an element type",
            code="FLY-U310",
            value=element,
            allowed="integer and float types, such as i32, f16, bf16, f8E4M3FN",
        )
    return int(match[1])


def storage_bits(element: str) -> int:
    """Return the bits that one element takes in memory: a truth value takes a byte."""
    bits = element_bits(element)
    return 8 if bits == 1 else bits


def is_float(element: str) -> bool:
    """Return whether the element text names a floating-point type."""
    return element.startswith(("f", "bf", "tf"))


def check_alignment(alignment: object) -> None:
    """Raise UserError unless `alignment` is a power of two of bytes."""
    if (
        isinstance(alignment, bool)
        or not isinstance(alignment, int)
        or alignment < 1
        or alignment & (alignment - 1)
    ):
        raise UserValueError(
            "an alignment is not a power of two",
            code="FLY-U311",
            value=alignment,
            allowed="1, 2, 4, ... bytes",
        )


def narrowed_alignment(alignment: int, element: str, divisor: int) -> int:
    """Return the alignment in bytes after adding a multiple of `divisor` elements (0: none)."""
    if divisor == 0:
        return alignment
    bits = divisor * storage_bits(element)
    if bits % 8:
        return 1
    step = bits // 8
    return math.gcd(alignment, step & -step)
