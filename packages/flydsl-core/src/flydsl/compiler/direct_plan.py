"""Layout of the plans that the native call path reads; see `flydsl.compiler.direct_code`."""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "BLOCK_BYTES",
    "ENTRY",
    "PLAN_START",
    "SHORT_TICKS",
    "TYPE_OFFSET",
    "Kind",
    "Word",
]

ENTRY = "fly_direct"
BLOCK_BYTES = 1024
"""Largest argument block of a stub that this path packs."""
PLAN_START, TYPE_OFFSET = 32, 8
SHORT_TICKS = 1000
"""Ticks of the processor's time stamp, some tenths of a microsecond, that a short launch takes. HIP
takes microseconds for one on a GPU."""


class Word(IntEnum):
    """Words of a plan's head; the records of the arguments follow at `RECORDS`.

    `SAVE` is 0 where launches keep the interpreter's lock. `TICKS` is the address of a number: how
    long launches take, in ticks of the processor's time stamp, recent ones the most; 0 where the
    processor has none that can be read.
    """

    COUNT = 0
    STUB = 1
    CONTEXT = 2
    DONE = 3
    MISS = 4
    FAIL = 5
    STREAM = 6
    STREAM_OFFSET = 7
    CALL_BARE = 8
    AS_LONG_LONG = 9
    AS_UNSIGNED = 10
    AS_DOUBLE = 11
    OCCURRED = 12
    CLEAR = 13
    SAVE = 14
    RESTORE = 15
    FROM_LONG = 16
    CALL = 17
    GET_ATTRIBUTE = 18
    DECREF = 19
    INCREF = 20
    FALSE = 21
    RECORD_COUNT = 22
    GET_ITEM = 23
    TICKS = 24
    RECORDS = 25


class Kind(IntEnum):
    """Word 0 of a record; word 1 is its length in words, word 2 the type wanted or 0.

    Word 3 is 0 for the next argument, or the name of a field of the struct before; word 4 is 0 or
    the name of the attribute that holds the value to read. Then follow:

    ``SAME`` 5: the object, or 0 where its content may change; 6: what tells, called with another
    object, whether that is the same value. ``INTEGER`` 5, 6: range; 7: offset; 8: bytes.
    ``UNSIGNED`` 7: offset. ``FLOAT`` 7: offset; 8: bytes. ``ATTRIBUTE`` 5: its name;
    7: offset; 8: name of the attribute that must be the integer 9, or 0. ``CURRENT`` 7: offset.
    ``KNOWN`` 5: the object; 6: its type; 7: whether it is an integer; 8: that; 9: whether None
    stands for it.
    ``STRUCT`` 5: name of the attribute that holds the dictionary of its fields.
    ``TENSOR`` 5: exchange function; 6: data type; 7: device; 8: rank; 9: alignment; 10: unit axis
    or -1; 11: bit mask of axes with 64-bit extents; 12: offset of the address; 13: count of leaves;
    14: name of the method that must return False, or 0; 15: where in the object the address of its
    flags' structure is, or 0; 16: where in there the flags are; 17: those that must be unset;
    then, from 18, one word a leaf: axis in bits 0-7, 1 for a stride in 8-15, bytes in 16-31, offset
    in 32-63.
    """

    IGNORE = 0
    SAME = 1
    INTEGER = 2
    UNSIGNED = 3
    FLOAT = 4
    ATTRIBUTE = 5
    CURRENT = 6
    TENSOR = 7
    STRUCT = 8
    KNOWN = 9
