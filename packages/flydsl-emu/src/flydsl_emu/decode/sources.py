"""Operand encodings that all formats share; operands are interned."""

from __future__ import annotations

import struct
from functools import cache

from flydsl_emu.decode.instruction import Operand

__all__ = [
    "FIXED",
    "FLOATS",
    "LITERAL",
    "OFF",
    "DecodeError",
    "fixed",
    "immediate_literal",
    "register",
    "source",
]

LITERAL = 255
OFF = Operand("off")
FIXED = {"vcc": 106, "flat_scratch": 102, "xnack_mask": 104, "m0": 124, "exec": 126, "scc": 253}

FLOATS = {
    240: 0.5,
    241: -0.5,
    242: 1.0,
    243: -1.0,
    244: 2.0,
    245: -2.0,
    246: 4.0,
    247: -4.0,
    248: 0.15915494309189532,
}
_SINGLES = {int.from_bytes(struct.pack(">f", number)): number for number in FLOATS.values()}


class DecodeError(Exception):
    """The encoding is not one that the table describes."""


@cache
def register(kind: str, index: int, count: int) -> Operand:
    """Return the interned register operand."""
    return Operand(kind, index, count)


@cache
def source(code: int, count: int) -> Operand:
    """Return the operand of a 9-bit (or 8-bit scalar) source encoding other than a literal.

    Raises:
        DecodeError: A reserved encoding.
    """
    if code >= 256:
        return Operand("v", code - 256, count)
    if code <= 127:
        return Operand("s", code, count)
    if code <= 192:
        return Operand("i", 0, count, code - 128)
    if code <= 208:
        return Operand("i", 0, count, 192 - code)
    if code in FLOATS:
        return Operand("f", 0, count, FLOATS[code])
    if 235 <= code <= 239 or code in (251, 252, 253):
        return Operand("s", code, count)
    raise DecodeError(f"reserved source encoding {code}")


@cache
def fixed(name: str, count: int) -> Operand:
    """Return the operand of a fixed register such as ``vcc``."""
    if name in FIXED:
        return Operand("s", FIXED[name], count)
    if name[0] in "sva" and name[1:].isdigit():
        return Operand(name[0], int(name[1:]), count)
    raise DecodeError(f"unknown fixed register {name}")


def immediate_literal(value: int) -> Operand:
    """Return the 32 bits of an immediate operand, as the constant that prints shortest."""
    signed = (value ^ 0x80000000) - 0x80000000
    if -16 <= signed <= 64:
        return Operand("i", 0, 1, signed)
    if value in _SINGLES:
        return Operand("f", 0, 1, _SINGLES[value])
    return Operand("l", 0, 1, value)
