"""Operands by encoding, as lookup tables that all instructions share.

A table maps the content of a field to its operand; content that needs another word (a literal, a
DPP control) or is reserved is missing from it, so that looking it up raises `KeyError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from flydsl_emu.decode.instruction import M0, NULL, Operand
from flydsl_emu.decode.sources import FLOATS

__all__ = ["fixed", "halves", "packed_halves", "scalars", "sources", "vectors"]

Table = Mapping[int, Operand]

_SPECIAL = (230, 231, 235, 236, 237, 238, 239, 251, 252, 253)
# Bits of a constant that prints as a pattern, by style letter of the decode table.
_PATTERN_BITS = {"": 0, "f": 0, "i": 16, "x": 32, "w": 0}


@cache
def vectors(count: int, negate: bool = False, absolute: bool = False) -> Table:
    """Return the vector registers by number."""
    return {n: Operand("v", n, count, 0, negate, absolute) for n in range(256)}


@cache
def halves(high: bool, negate: bool = False, absolute: bool = False) -> Table:
    """Return the low or high halves of vector registers by number."""
    return {n: Operand("v", n, 1, 0, negate, absolute, half=1 + high) for n in range(256)}


@cache
def packed_halves(negate: bool = False, absolute: bool = False) -> Table:
    """Return the register halves of short encodings: bit 7 chooses the high half of v0 to v127."""
    return {n: Operand("v", n & 127, 1, 0, negate, absolute, half=1 + (n >> 7)) for n in range(256)}


@cache
def scalars(count: int) -> Table:
    """Return the scalar registers by 7-bit encoding."""
    swapped = {124: NULL, 125: M0}
    return {n: Operand("s", swapped.get(n, n), count) for n in range(128)}


@cache
def sources(
    kind: str,
    count: int,
    select: str = "",
    negate: bool = False,
    absolute: bool = False,
) -> Table:
    """Return the operands of a 9-bit (or 8-bit scalar) source field.

    Args:
        kind: Kind of the slot: ``v``, ``s`` or ``h``, and the style letter of its constants.
        count: Registers covered.
        select: Which half an ``h`` slot names: ``"low"``, ``"high"`` or ``"packed"`` (by bit 7).
        negate: Whether the operand is negated.
        absolute: Whether its absolute value is taken.
    """
    bits = _PATTERN_BITS[kind[1:]]
    table = {n: _modified(o, negate, absolute) for n, o in scalars(count).items()}
    for code in range(128, 209):
        value = code - 128 if code <= 192 else 192 - code
        table[code] = Operand("i", 0, count, value, negate, absolute)
    for code, number in FLOATS.items():
        wide = 1 if kind[1:] == "w" else count
        table[code] = Operand("f", bits, wide, number, negate, absolute)
    for code in _SPECIAL:
        table[code] = Operand("s", code, count, 0, negate, absolute)
    if kind[0] == "h":
        registers = (
            packed_halves(negate, absolute)
            if select == "packed"
            else halves(select == "high", negate, absolute)
        )
    else:
        registers = vectors(count, negate, absolute)
    table.update({256 + n: o for n, o in registers.items()})
    return table


def _modified(operand: Operand, negate: bool, absolute: bool) -> Operand:
    return operand.modified(negate, absolute) if negate or absolute else operand


@cache
def fixed(name: str, count: int) -> Table:
    """Return the table of a register that no field names: its only content is 0."""
    codes = {"vcc": 106, "m0": M0, "exec": 126, "scc": 253}
    return {0: Operand("s", codes[name], count)}
