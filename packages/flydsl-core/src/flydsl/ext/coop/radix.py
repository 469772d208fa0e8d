"""Sorting the items of a block by a range of their bits."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.numeric import BY_TEXT, as_numeric
from flydsl.expr.numeric.operators import select
from flydsl.ext.coop.places import like_items
from flydsl.ext.coop.sorting import block_sort

__all__ = ["block_radix_sort", "digits_of"]


def digits_of(key: Any, begin_bit: Any, end_bit: Any) -> Any:
    """Return the bits of a key that order it, as an unsigned number.

    The bits of an unsigned integer are its own; those of a signed one have the sign flipped;
    those of a float are changed so that -NaN, -inf, …, -0, +0, …, inf, NaN follow in order.

    Raises:
        UserTypeError: The key is no number of 8 to 64 bits.
        UserValueError: The bits are out of range.
    """
    number = as_numeric(key)
    if number is None or number.width not in (8, 16, 32, 64) or number.is_index:
        raise UserTypeError(
            "keys of a radix sort are numbers of 8 to 64 bits", code="FLY-U280", value=key
        )
    width = number.width
    last = width if end_bit is None else end_bit
    if not (
        isinstance(begin_bit, int) and isinstance(last, int) and 0 <= begin_bit < last <= width
    ):
        raise UserValueError(
            "no such bits of the key",
            code="FLY-U283",
            value=(begin_bit, end_bit),
            allowed=f"0 <= begin_bit < end_bit <= {width}",
        )
    unsigned = BY_TEXT[f"ui{width}"]
    sign = 1 << (width - 1)
    if number.is_float:
        bits = number.bitcast(unsigned)
        negative = (bits & unsigned(sign)) != unsigned(0)
        bits = select(negative, ~bits, bits | unsigned(sign)).to(unsigned)
    elif number.signed:
        bits = number.to(unsigned) ^ unsigned(sign)
    else:
        bits = number.to(unsigned)
    if begin_bit:
        bits = bits >> unsigned(begin_bit)
    if last - begin_bit < width:
        bits = bits & unsigned((1 << (last - begin_bit)) - 1)
    return bits


def block_radix_sort(
    keys: Any,
    values: Any = None,
    *,
    descending: bool = False,
    begin_bit: int = 0,
    end_bit: int | None = None,
    target: str = "blocked",
    storage: Any = None,
) -> Any:
    """Sort the keys of a block by a range of their bits (`digits_of`); equal ones keep their order.

    Args:
        keys: The thread's keys, numbers of 8 to 64 bits, which lie blocked.
        values: One value per key that moves with it.
        descending: Reverse the order of different keys.
        begin_bit: First bit that counts, from the lowest.
        end_bit: One past the last; default: the width.
        target: How the results lie: ``"blocked"`` or ``"striped"``.
        storage: Shared memory to use, of `BlockRadixSort.SharedStorage`.

    Returns:
        The keys in the form of the argument; with values, a pair.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """

    def less(a: Any, b: Any) -> Any:
        x, y = (digits_of(k, begin_bit, end_bit) for k in ((b, a) if descending else (a, b)))
        return x < y

    found, carried = block_sort(keys, values, less, None, target, storage)
    shown = like_items(keys, found)
    return shown if carried is None else (shown, like_items(values, carried))
