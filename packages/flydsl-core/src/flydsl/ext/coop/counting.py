"""Counting and ranking the items of a block."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr import gpu
from flydsl.expr.atomics import atomic_add
from flydsl.expr.numeric import Int32, Uint32
from flydsl.expr.numeric.operators import select
from flydsl.expr.shared import scratch, scratch_turn
from flydsl.expr.storage import Array, ArrayType
from flydsl.ext.coop.block import block_inclusive_sum
from flydsl.ext.coop.cells import Cells, only_where
from flydsl.ext.coop.places import (
    block_threads,
    integers,
    item_list,
    like_items,
    moved,
    places,
)
from flydsl.ext.coop.radix import digits_of
from flydsl.ext.coop.sorting import block_order
from flydsl.ext.coop.warp import linear_thread

__all__ = ["block_histogram", "block_radix_rank", "block_run_length_decode"]


def _compile_time(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserValueError(
            f"{what} is a positive, compile-time int", code="FLY-U283", value=value
        )
    return value


def block_histogram(items: Any, bins: int, *, storage: Array | None = None) -> Array:
    """Count how often each number occurs among the items of a block.

    Args:
        items: A list or tuple of the thread's items, or one: integers from 0 to ``bins - 1``;
            others are not counted.
        bins: How many numbers there are.
        storage: Shared memory for the counts, of `BlockHistogram.SharedStorage`; default: an
            allocation that calls with as many bins share.

    Returns:
        The counts, `Uint32`, in shared memory. All threads may read them until the next call
        with as many bins.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    bins = _compile_time(bins, "a number of bins")
    own = integers(items, len(item_list(items)), "items of a histogram")
    counts = storage
    if counts is None:
        turn, _ = scratch_turn(("histogram", bins))
        counts = scratch(("histogram", bins, turn), ArrayType(Uint32, bins))
    if not isinstance(counts, Array) or counts.kind.element is not Uint32 or len(counts) < bins:
        raise UserTypeError(
            "the storage does not fit the counts",
            code="FLY-U284",
            value=getattr(counts, "kind", counts),
            allowed=f"at least {bins} elements of Uint32",
        )
    threads, thread = block_threads(), linear_thread()
    gpu.barrier()  # counts of an earlier call may still be read
    for start in range(0, bins, threads):
        place = thread + start
        with only_where(place < bins):
            counts[place] = Uint32(0)
    gpu.barrier()
    for item in own:
        with only_where((item >= 0) & (item < bins)):
            atomic_add(counts.ptr + item, Uint32(1))
    gpu.barrier()
    return counts


def block_radix_rank(
    keys: Any, *, begin_bit: int = 0, end_bit: int | None = None, descending: bool = False
) -> Any:
    """Return where each key of a block belongs by a range of its bits; equal ones keep their order.

    Args:
        keys: The thread's keys, numbers of 8 to 64 bits, which lie blocked.
        begin_bit: First bit that counts, from the lowest.
        end_bit: One past the last; default: the width.
        descending: Reverse the order of different keys.

    Returns:
        The ranks, `Int32`, in the form of the keys.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    own = item_list(keys)
    digits = [digits_of(key, begin_bit, end_bit) for key in own]

    def less(a: Any, b: Any) -> Any:
        return b < a if descending else a < b

    total = block_threads() * len(own)
    found = block_order(digits, less, total, "blocked", None)
    here = places("blocked", len(own))
    ranks = [Int32(place) for place in here]
    return like_items(keys, moved(ranks, [x["origin"] for x in found], here))


def block_run_length_decode(
    values: Any, lengths: Any, count: int, *, start: Any = 0
) -> tuple[list[Any], list[Any], Any]:
    """Repeat each value of a block as often as its length says.

    Args:
        values: The thread's values, which lie blocked: a list or tuple, or one.
        lengths: One integer per value, at least 0.
        count: How many decoded values each thread gets.
        start: Place in the decoded sequence of the first thread's first value; may be computed
            at run time.

    Returns:
        The thread's `count` decoded values, which lie blocked from `start` on; the place of each
        in its run; and the length of the whole decoded sequence. Past its end come the last value
        and places that go on counting.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    count = _compile_time(count, "a number of decoded values")
    own = item_list(values)
    sizes = integers(lengths, len(own), "lengths of runs")
    (begin,) = integers(start, 1, "a place")
    upto = block_inclusive_sum(sizes)
    total_runs = block_threads() * len(own)
    runs = [
        {"value": value, "end": end, "size": size}
        for value, end, size in zip(own, upto, sizes, strict=True)
    ]
    cells = Cells.of(runs[0], total_runs, None)
    cells.begin()
    for run, place in zip(runs, places("blocked", len(own)), strict=True):
        cells.write(place, run)
    gpu.barrier()
    decoded, offsets = [], []
    for place in places("blocked", count):
        wanted = begin + place
        found = cells.read(_run_of(cells, wanted, total_runs))
        decoded.append(found["value"])
        offsets.append(wanted - (found["end"] - found["size"]))
    return decoded, offsets, cells.read(total_runs - 1)["end"]


def _run_of(cells: Cells, wanted: Any, total: int) -> Any:
    """Return the first run that ends behind a place, by binary search; the last one if none."""
    low: Any = Int32(0)
    step = 1 << (total.bit_length() - 1)
    while step:
        ahead = low + step
        inside = ahead < total
        end = cells.read(select(inside, ahead - 1, Int32(total - 1)))["end"]
        low = select(inside & (end <= wanted), ahead, low)
        step //= 2
    return low
