"""What a workgroup computes: which rows of which sequence, and which keys those see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx
from flydsl_kernels.attention.device.matrix import UNITS, Unit
from flydsl_kernels.attention.selection import FlashPlan

__all__ = ["Block", "Lane", "own_block", "own_lane"]

_PAGED_STEP = 16
"""Where keys are paged, tiles start at multiples of this."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A thread's place.

    Attributes:
        thread: Number in the workgroup.
        wave: Number of its wave.
        column: Column of a result that it has.
        half: Which half of the wave it is in.
    """

    thread: Any
    wave: Any
    column: Any
    half: Any


@dataclass(frozen=True, slots=True)
class Block:
    """The rows of a workgroup and the keys that they see; all of it is uniform.

    Attributes:
        sequence: Number of the sequence.
        batch: Index of the batch in the arrays.
        out: The same in the results, which have one for every split.
        head: Head of q.
        kv_head: Head of k and v.
        base_q: Row of the arrays at which the sequence of q starts.
        base_k: The same for k and v.
        first: First row of the workgroup in its sequence.
        length_q: Rows of the sequence.
        length_k: Keys of the sequence.
        offset: The key that row 0 stands at, for aligned last rows.
        seen: First key that a row of the workgroup sees.
        begin: First key of the first tile.
        end: One past the last key that a row sees.
        whole_begin: First key of the tiles that every row sees whole.
        whole_end: One past the last key of those tiles.
    """

    sequence: Any
    batch: Any
    out: Any
    head: Any
    kv_head: Any
    base_q: Any
    base_k: Any
    first: Any
    length_q: Any
    length_k: Any
    offset: Any
    seen: Any
    begin: Any
    end: Any
    whole_begin: Any
    whole_end: Any


def own_lane(unit: Unit) -> Lane:
    """Return the calling thread's place."""
    thread = fx.thread_idx.x
    wave = fx.rocdl.read_first_lane(thread // unit.lanes)
    lane = thread % unit.lanes
    return Lane(thread, wave, lane % unit.rows, lane // unit.rows)


def bounds(tensor: Any, sequence: Any, rows: Any) -> tuple[Any, Any]:
    """Return where a packed sequence starts, and its length: within the rows that there are."""
    start, end = (fx.rocdl.read_first_lane(tensor[place]) for place in (sequence, sequence + 1))
    start = clamp(start, 0, fx.Int32(rows))
    return start, clamp(end, start, fx.Int32(rows)) - start


def clamp(value: Any, low: Any, high: Any) -> Any:
    """Return the number limited to a range; `low` wins."""
    return fx.max(fx.min(value, high), low)


def spans(a: Any, plan: FlashPlan, rows: tuple[Any, Any], length: Any, split: Any) -> list[Any]:
    """Return (seen, begin, end, whole_begin, whole_end) as in `Block`.

    Args:
        a: The arguments.
        plan: The plan.
        rows: Keys at which the first and the last row stand.
        length: Keys of the sequence.
        split: Which part of the keys.
    """
    first, last = rows
    tile = plan.tile
    seen, end, whole_begin, whole_end = fx.Int32(0), length, fx.Int32(0), length
    if plan.left:
        seen = clamp(first - a.left, 0, length)
        whole_begin = clamp(last - a.left, 0, length)
    if plan.right:
        end = clamp(last + a.right + 1, 0, length)
        whole_end = clamp(first + a.right + 1, 0, length)
    begin = seen // _PAGED_STEP * _PAGED_STEP if plan.page and plan.left else seen
    end = fx.max(end, begin)
    start = begin
    if plan.splits > 1:
        share = ((end - begin + (tile - 1)) // tile + (plan.splits - 1)) // plan.splits * tile
        begin = fx.min(begin + split * share, end)
        end = fx.min(begin + share, end)
    # Tiles are counted from the start; a part has whole ones.
    whole_begin = start + (whole_begin - start + (tile - 1)) // tile * tile
    whole_end = start + fx.max(whole_end - start, 0) // tile * tile
    whole_begin = clamp(whole_begin, begin, end)
    return [seen, begin, end, whole_begin, clamp(whole_end, whole_begin, end)]


def own_block(a: Any, blocks: Any, plan: FlashPlan) -> Block:
    """Return what the workgroup computes.

    The blocks of rows of a head follow each other, the last one first: it sees the most keys where
    rows see none to their right.

    Args:
        a: The arguments.
        blocks: Workgroups of a sequence and head.
        plan: The plan.
    """
    unit = UNITS[plan.unit]
    rows = plan.waves * plan.columns * unit.rows
    heads = fx.Int32(a.q.shape[2])
    number = fx.block_idx.x
    place = number % blocks
    head = number // blocks % heads
    rest = number // blocks // heads
    sequence, split = rest % a.sequences, rest // a.sequences
    zero = fx.Int32(0)
    batch, base_q, base_k = sequence, zero, zero
    length_q, length_k = fx.Int32(a.q.shape[1]), fx.Int32(a.k.shape[1])
    if plan.varlen:
        batch = zero
        base_q, length_q = bounds(a.starts_q, sequence, a.q.shape[1])
        if not plan.page:
            base_k, length_k = bounds(a.starts_k, sequence, a.k.shape[1])
    if plan.lengths:
        places = fx.Int32(a.pages.shape[1]) * plan.page if plan.page else length_k
        length_k = clamp(fx.rocdl.read_first_lane(a.lengths[sequence]), 0, places)
    first = (blocks - 1 - place) * rows
    offset = length_k - length_q
    last = fx.min(first + rows, length_q) - 1
    found = spans(a, plan, (first + offset, last + offset), length_k, split)
    out = batch
    if plan.splits > 1:
        out = split * fx.Int32(a.q.shape[0]) + batch
    return Block(
        sequence, batch, out, head, head // a.group, base_q, base_k, first, length_q, length_k,
        offset, *found,
    )  # fmt: skip
