"""Global memory of one tile behind a bounded descriptor, with byte offsets of 32 bits.

The base of a window moves with 64-bit arithmetic in scalar registers; a load outside gives zero and
a store outside is dropped. `OUTSIDE` is an offset that no window contains.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl.expr.vector import vector_alias

__all__ = [
    "OUTSIDE",
    "REACH",
    "load_elements",
    "load_words",
    "near_window",
    "store_elements",
    "wide",
    "window",
]

REACH = 0x7FFFFFF0
"""Most bytes of a window."""
OUTSIDE = -16
"""Outside of every window, as it counts unsigned."""

_SMALL = {2: "Uint16", 1: "Uint8"}


def wide(value: Any) -> Any:
    """Return an integer in 64 bits."""
    return fx.Int64(value)


def window(pointer: Any, offset: Any, extent: Any) -> Any:
    """Return a buffer pointer to bytes.

    Args:
        pointer: Pointer to global memory.
        offset: Bytes from there, 64 bits, the same for all lanes.
        extent: Bytes that may be accessed, 64 bits; less than 0 counts as none.
    """
    # By words: a minimum of 64 bits may be in vector registers, where a descriptor costs a loop.
    high, low = fx.Int32(extent >> 32), fx.Uint32(extent)
    near = fx.Int32(fx.min(low, fx.Uint32(REACH)))
    bounded = (high < 0).select(fx.Int32(0), (high > 0).select(fx.Int32(REACH), near))
    return fx.rocdl.make_buffer_ptr(fx.recast_iter(fx.Int8, pointer) + offset, bounded)


def near_window(pointer: Any, offset: Any, extent: Any) -> Any:
    """Return a buffer pointer to bytes, where the whole matrix spans less than `REACH`.

    Args:
        pointer: Pointer to global memory.
        offset: Bytes from there, 32 bits, the same for all lanes.
        extent: Bytes that may be accessed, 32 bits, from 0 on.
    """
    return fx.rocdl.make_buffer_ptr(fx.recast_iter(fx.Int8, pointer) + offset, extent)


def load_words(source: Any, offset: Any, words: int, vector: int, limit: Any = None) -> Any:
    """Load whole words of 32 bits by loads of `vector` bytes.

    Args:
        source: A window.
        offset: Byte offset.
        words: How many words; a power of two up to 4.
        vector: Bytes of a load, a power of two up to 16.
        limit: Bytes from `offset` on that count; the others are zero. None: all count.

    Returns:
        A vector of `Int32`.
    """
    step = min(vector, 4 * words)
    parts = [_load(source, offset, at, step, limit) for at in range(0, 4 * words, step)]
    if step >= 4:
        return (
            parts[0]
            if len(parts) == 1
            else fx.Vector.from_elements([part[0] for part in parts], fx.Int32)
        )
    return fx.Vector.from_elements(parts, getattr(fx, _SMALL[step])).bitcast(fx.Int32)


def _load(source: Any, offset: Any, at: int, size: int, limit: Any) -> Any:
    """Load `size` bytes, or zeros where they are past the limit.

    By an intrinsic: a plain load that a loop does for its next turn, and nothing else stores after,
    would be moved to that turn, where it is waited for at once.
    """
    place = offset + at
    if limit is not None:
        place = fx.arith.select(fx.Int32(at) < limit, place, fx.Int32(OUTSIDE))
    if size >= 4:
        descriptor = fx.rocdl.get_buffer_rsrc(source)
        kind = vector_alias(fx.Int32, (size // 4,)) if size > 4 else fx.Int32
        words = fx.rocdl.raw_ptr_buffer_load(kind, descriptor, place, 0, 0)
        return words if size > 4 else fx.Vector.from_elements([words], fx.Int32)
    return _narrow(source, place, getattr(fx, _SMALL[size]))


def _narrow(source: Any, place: Any, kind: Any) -> Any:
    """Load one element of fewer than 4 bytes.

    An intrinsic, because the back end would join neighbouring loads to wider ones, of which the
    hardware drops all where the last one is outside.
    """
    descriptor = fx.rocdl.get_buffer_rsrc(source)
    word = fx.Int16 if kind.width == 16 else fx.Int8
    return fx.rocdl.raw_ptr_buffer_load(word, descriptor, place, 0, 0).bitcast(kind)


def load_elements(source: Any, offset: Any, kind: Any, count: int) -> Any:
    """Load elements as a vector, zeros where they are outside.

    Args:
        source: A window.
        offset: Byte offset.
        kind: Element class.
        count: Elements, of whole words together, or one.
    """
    if count * kind.width < 32:
        return fx.Vector.from_elements([_narrow(source, offset, kind)], kind)
    return (source + offset).load(vector_alias(kind, (count,)))


def store_elements(target: Any, offset: Any, value: Any, inside: Any) -> None:
    """Store a vector where `inside` holds.

    Args:
        target: A window.
        offset: Byte offset.
        value: The vector.
        inside: A Boolean.
    """
    place = fx.arith.select(inside, offset, fx.Int32(OUTSIDE))
    (target + place).store(value.bitcast(fx.Int8))
