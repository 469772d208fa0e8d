"""Types in memory: Fly pointer types, element widths, and what is loaded for each element type."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from flydsl.errors import CompilerBug

__all__ = ["PointerType", "bit_width", "element_of", "parse_pointer", "storage"]

_POINTER = re.compile(r'!fly\.ptr<([^,]+), "([^"]*)", (\d+)(?: : i64)?, "([^"]*)">')


@dataclass(frozen=True, slots=True)
class PointerType:
    """A parsed ``!fly.ptr`` type.

    Attributes:
        element: MLIR text of the element type.
        space: Address space name.
        align: Alignment of the pointer in bytes.
        swizzle: Swizzle text, empty for none.
    """

    element: str
    space: str
    align: int
    swizzle: str = ""

    @property
    def bits(self) -> int:
        """Bits from one element to the next."""
        return 8 if self.element == "i1" else bit_width(self.element)


@functools.lru_cache(1024)
def parse_pointer(text: str) -> PointerType | None:
    """Parse a type's text; None when it is not a Fly pointer.

    Raises:
        CompilerBug: It is one, but not in the form this package knows.
    """
    if not text.startswith("!fly.ptr<"):
        return None
    match = _POINTER.fullmatch(text)
    if match is None:
        raise CompilerBug(f"cannot read the pointer type {text}", code="FLY-B611")
    return PointerType(match[1], match[2], int(match[3]), match[4])


@functools.lru_cache(1024)
def bit_width(text: str) -> int:
    """Return the width in bits of a number or vector type; 0 when its text tells none."""
    if text.startswith("vector<"):
        count, element = element_of(text)
        return count * bit_width(element)
    match = re.fullmatch(r"(?:bf|f|i)(\d+)(?:E\w+)?", text)
    return int(match[1]) if match else 0


def element_of(text: str) -> tuple[int, str]:
    """Return (vector length, element type text); length 0 for a scalar.

    Raises:
        CompilerBug: A vector of more than one dimension.
    """
    if not text.startswith("vector<"):
        return 0, text
    count, _, element = text[len("vector<") : -1].partition("x")
    if not count.isdigit() or "x" in element:
        raise CompilerBug(f"{text} is not a one-dimensional vector", code="FLY-B611")
    return int(count), element


def storage(text: str) -> str:
    """Return the LLVM-compatible type that memory holds for a scalar or vector type.

    Numbers of 8 bits and less become integers; a Boolean is a byte.
    """
    count, element = element_of(text)
    if element == "i1":
        stored = "i8"
    elif element.startswith("f") and bit_width(element) < 16:
        stored = f"i{bit_width(element)}"
    else:
        stored = element
    return f"vector<{count}x{stored}>" if count else stored
