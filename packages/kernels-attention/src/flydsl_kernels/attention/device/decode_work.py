"""Divides the keys of all sequences into parts of about equal size, on the device.

With T keys in all, B sequences and room for S parts, parts have max(least, T / (S - B)) keys,
rounded up: then there are at most (S - B) + B of them. Lengths are read where they are, so nothing
waits for the host.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.ext import coop

__all__ = ["Work", "key_range", "launch_work", "own_part", "part_count"]

_THREADS = 256


@fx.struct
class Work(fx.Struct):
    """Which parts there are.

    Attributes:
        lengths: Keys of each sequence, int32 [sequences]; taken as at least 0 and at most `most`.
        starts: Number of the first part of each sequence, and of all parts, int32 [sequences + 1].
        items: Sequence and number within it of each part, int32 [parts, 2].
        size: Keys of a part, int32 [1].
        most: Keys that the pages of a sequence hold.
    """

    lengths: fx.Tensor
    starts: fx.Tensor
    items: fx.Tensor
    size: fx.Tensor
    most: fx.Int32


def _length(work: Work, sequence: Any) -> Any:
    """Return the keys of a sequence."""
    return fx.max(fx.min(work.lengths[sequence], work.most), 0)


def part_count(work: Work) -> Any:
    """Return how many parts there are; uniform."""
    return fx.rocdl.read_first_lane(work.starts[fx.Int32(work.lengths.shape)])


def own_part(work: Work, slot: Any) -> tuple[Any, Any, Any, Any]:
    """Return a part's sequence, its number there, the keys of a part and of the sequence; uniform.

    `slot` is less than `part_count`.
    """
    sequence = fx.rocdl.read_first_lane(work.items[slot, 0])
    number = fx.rocdl.read_first_lane(work.items[slot, 1])
    size = fx.rocdl.read_first_lane(work.size[0])
    return sequence, number, size, fx.rocdl.read_first_lane(_length(work, sequence))


@flyc.jit
def key_range(length: Any, queries: int, left: Any, step: int, window: bool) -> tuple[Any, Any]:
    """Return the first key of a sequence's first step, and the number of keys from there on."""
    begin = fx.Int32(0)
    if fx.const_expr(window):
        begin = fx.max(length - queries - left, 0) // step * step
    return begin, length - begin


@flyc.kernel
def work_kernel(
    work: Work, left: fx.Int32, least: fx.Int32, queries: fx.Constexpr[int],
    step: fx.Constexpr[int], window: fx.Constexpr[bool],
) -> None:  # fmt: skip
    """One workgroup lists the parts."""
    thread = fx.thread_idx.x
    count = fx.Int32(work.lengths.shape)
    total = fx.Int64(0)
    for sequence in range(thread, count, _THREADS):
        _, keys = key_range(_length(work, sequence), queries, left, step, window)
        total = total + keys.to(fx.Int64)
    total = coop.block_sum(total)
    room = (fx.Int32(work.items.shape[0]) - count).to(fx.Int64)
    wanted = fx.max((total + room - 1) // room, least.to(fx.Int64))
    # Every wave of a workgroup takes a step in turn.
    size = ((wanted + least - 1) // least * least).to(fx.Int32)
    before = fx.Int32(0)
    for first in range(0, count, _THREADS):
        sequence = first + thread
        parts = fx.Int32(0)
        if sequence < count:
            _, keys = key_range(_length(work, sequence), queries, left, step, window)
            parts = (keys + size - 1) // size
        start, together = coop.block_exclusive_scan(parts, "sum", init=0, with_aggregate=True)
        start = before + start
        before = before + together
        if sequence < count:
            work.starts[sequence] = start
            for part in range(parts):
                work.items[start + part, 0] = sequence
                work.items[start + part, 1] = part
    if thread == 0:
        work.starts[count] = before
        work.size[0] = size


@flyc.jit
def launch_work(
    work: Work, left: fx.Int32, least: fx.Int32, queries: fx.Constexpr[int],
    step: fx.Constexpr[int], window: fx.Constexpr[bool], stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch the one workgroup."""
    work_kernel(work, left, least, queries, step, window).launch(
        grid=(1,), block=(_THREADS,), stream=stream
    )
