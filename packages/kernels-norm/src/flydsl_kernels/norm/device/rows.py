"""A thread's share of a row: which elements it has, and how they are loaded and stored.

Vector `i` of a row belongs to lane ``i % lanes``. Elements after the last full vector, fewer than a
vector, go one each to the first lanes: every element is read once, nothing beyond the row is.
Offsets of rows are 64-bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.norm.selection import RowPlan

__all__ = [
    "Share",
    "affine",
    "blanked",
    "column_count",
    "load_share",
    "load_tail",
    "load_vector",
    "own_share",
    "place_chunk",
    "place_tail",
    "store_share",
    "store_tail",
    "store_vector",
    "widened",
]


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of which row a thread has; run-time values are those of its kernel.

    Attributes:
        plan: The compile-time part.
        row: The thread's row; may be past the last one, then nothing of it is loaded or stored.
        lane: The thread's number within its row.
        full: Number of full vectors of the row; 0 past the last row.
        tail_column: Column of the element of the tail that this thread would have.
        in_tail: Whether it has one.
        shared: The kernel's allocator of shared memory.
    """

    plan: RowPlan
    row: Any
    lane: Any
    full: Any
    tail_column: Any
    in_tail: Any
    shared: Any

    def start(self, tensor: Any) -> Any:
        """Return the pointer to the thread's row of a matrix with contiguous rows."""
        return tensor.iter + self.row.to(fx.Int64) * tensor.stride[0]

    def index(self, chunk: int) -> Any:
        """Return the number of the thread's vector of one chunk."""
        return self.lane + chunk * self.plan.lanes

    def masked(self, chunk: int) -> bool:
        """Return whether some threads have no vector in the chunk."""
        return chunk >= self.plan.whole


def column_count(tensor: Any) -> Any:
    """Return the number of columns of a matrix as a run-time `Int32`."""
    return fx.Int32(tensor.shape[1])


def own_share(plan: RowPlan, tensor: Any) -> Share:
    """Return the calling thread's share of a matrix."""
    thread = fx.thread_idx.x
    row, lane = fx.block_idx.x, thread
    columns = column_count(tensor)
    full = columns // plan.vector
    tail_column = full * plan.vector + lane
    if plan.rows > 1:
        lane = thread % plan.lanes
        row = row * plan.rows + thread // plan.lanes
        there = row < fx.Int32(tensor.shape[0])
        tail_column = full * plan.vector + lane
        in_tail = (tail_column < columns) & there
        full = fx.arith.select(there, full, fx.Int32(0))
    else:
        in_tail = tail_column < columns
    return Share(plan, row, lane, full, tail_column, in_tail, fx.SharedAllocator())


def load_vector(start: Any, index: Any, share: Share) -> Any:
    """Load vector `index` of a row, which has one, in its own type."""
    vector = vector_alias(start.element, (share.plan.vector,))
    return (start + index * share.plan.vector).load(vector)


@flyc.jit
def load_chunk(start: Any, chunk: int, share: Share, fill: float) -> Any:
    """Load the thread's vector of a chunk in its own type, or `fill` where it has none.

    The chunk moves the pointer that all threads of the row share, so that the thread's own offset
    is the same for every chunk.
    """
    plan = share.plan
    vector = vector_alias(start.element, (plan.vector,))
    place = start + chunk * plan.lanes * plan.vector
    if fx.const_expr(share.masked(chunk)):
        value = fx.Vector.filled((plan.vector,), fill, start.element)
        if share.index(chunk) < share.full:
            value = (place + share.lane * plan.vector).load(vector)
    else:
        value = (place + share.lane * plan.vector).load(vector)
    return value


@flyc.jit
def place_chunk(start: Any, chunk: int, share: Share, value: Any) -> None:
    """Store a vector of the row's type as the thread's of a chunk, if it has one."""
    plan = share.plan
    place = start + chunk * plan.lanes * plan.vector
    if fx.const_expr(share.masked(chunk)):
        if share.index(chunk) < share.full:
            (place + share.lane * plan.vector).store(value)
    else:
        (place + share.lane * plan.vector).store(value)


@flyc.jit
def load_tail(start: Any, share: Share, fill: float) -> Any:
    """Load the thread's element of the tail in its own type, or `fill` where it has none."""
    value = start.element(fill)
    if share.in_tail:
        value = (start + share.tail_column).load()
    return value


def store_vector(start: Any, index: Any, share: Share, value: Any) -> None:
    """Store an f32 vector as vector `index` of a row, rounded to the row's type."""
    (start + index * share.plan.vector).store(value.to(start.element))


@flyc.jit
def place_tail(start: Any, share: Share, value: Any) -> None:
    """Store the thread's element of the tail, of the row's type, if it has one."""
    if share.in_tail:
        (start + share.tail_column).store(value)


def store_tail(start: Any, share: Share, value: Any) -> None:
    """Store the thread's f32 element of the tail, rounded to the row's type, if it has one."""
    place_tail(start, share, value.to(start.element))


def load_share(start: Any, share: Share, fill: float = 0.0) -> list[Any]:
    """Load all that a thread has of a row: its vectors, then its element of the tail."""
    plan = share.plan
    parts = [load_chunk(start, chunk, share, fill) for chunk in range(plan.chunks)]
    return [*parts, load_tail(start, share, fill)] if plan.tail else parts


def store_share(start: Any, share: Share, values: list[Any]) -> None:
    """Store f32 values in the order of `load_share`."""
    chunks = share.plan.chunks
    for chunk, value in enumerate(values[:chunks]):
        place_chunk(start, chunk, share, value.to(start.element))
    for value in values[chunks:]:
        store_tail(start, share, value)


def widened(parts: list[Any]) -> list[Any]:
    """Convert values of `load_share` to f32."""
    return [part.to(fx.Float32) for part in parts]


def blanked(value: Any, position: int, share: Share) -> Any:
    """Return a value of a share, zero where the thread has no element at this position."""
    plan = share.plan
    if position >= plan.chunks:
        return fx.arith.select(share.in_tail, value, fx.Float32(0.0))
    if not share.masked(position):
        return value
    there = share.index(position) < share.full
    zero = fx.Float32(0.0)
    return fx.Vector.from_elements([fx.arith.select(there, item, zero) for item in value])


def affine(value: Any, weight: Any, bias: Any) -> Any:
    """Return value * weight + bias; either may be None."""
    if weight is None:
        return value if bias is None else value + bias.to(fx.Float32)
    factor = weight.to(fx.Float32)
    return value * factor if bias is None else fx.math.fma(value, factor, bias.to(fx.Float32))
