"""Descriptors of the tensor data mover with other addresses, in 64-bit arithmetic."""

from __future__ import annotations

from typing import Any

from flydsl.expr.ambient import require
from flydsl.expr.emit import constant, emit
from flydsl.expr.numeric import Int32, Int64
from flydsl_rocdl.expr.tensor_words import Descriptor

__all__ = [
    "add_addr_with_carry",
    "at_address",
    "with_both_words",
    "with_lds_address",
    "with_low_word",
]

_LDS, _LOW, _HIGH = 1, 2, 3
"""Words of group 0."""
_ADDRESS_BITS = 0x1FFFFFF
_TYPE = -0x80000000
"""Bits 31:30 of the high address word: 2, the type of all descriptors."""


def _word(value: Any) -> Int32:
    """Return a word as an Int32 of the same bits."""
    if isinstance(value, int):
        return Int32(value - (1 << 32) if value & 0x80000000 else value)
    return Int32(value)


def _wide(low: Any, high: Any) -> Int64:
    words = [Int64.wrap(emit("arith.extui", Int64.ir_type, (_word(x).ir_value(),)))
             for x in (low, high)]  # fmt: skip
    return Int64(words[1] << 32 | words[0])


def _words(address: Int64) -> tuple[Int32, Int32]:
    session = require("an address")
    whole = address.ir_value()
    upper = emit("arith.shrui", Int64.ir_type, (whole, constant(session, "i64", 32)))
    low, high = (Int32.wrap(emit("arith.trunci", Int32.ir_type, (x,))) for x in (whole, upper))
    return low, high


def add_addr_with_carry(low: Any, high: Any, offset: Any) -> tuple[Int32, Int32]:
    """Return the words of a 64-bit address moved by a number of bytes.

    Args:
        low: Low word.
        high: High word.
        offset: Bytes, any integer.
    """
    return _words(Int64(_wide(low, high) + Int64(offset)))


def _typed(high: Any) -> Int32:
    return Int32(Int32(_word(high) & _ADDRESS_BITS) | Int32(_TYPE))


def at_address(words: Descriptor, address: Any) -> Descriptor:
    """Return the words with another 64-bit address."""
    low, high = _words(Int64(address))
    return with_both_words(words, low, high)


def with_both_words(words: Descriptor, low: Any, high: Any) -> Descriptor:
    """Return the words with both words of another address."""
    return words.with_words(0, {_LOW: _word(low), _HIGH: _typed(high)})


def with_lds_address(words: Descriptor, address: Any) -> Descriptor:
    """Return the words with another address in LDS."""
    return words.with_words(0, {_LDS: _word(address)})


def with_low_word(words: Descriptor, low: Any) -> Descriptor:
    """Return the words with the nearest address, up to 2 GiB away, whose low word is `low`."""
    row = words.words[0]
    change = Int32(_word(low) - _word(row[_LOW]))
    upper = Int32(_word(row[_HIGH]) & _ADDRESS_BITS)
    return with_both_words(words, *add_addr_with_carry(row[_LOW], upper, Int64(change)))
