"""A thread's share of a row: which elements it has, and how they are loaded and stored.

Of rows in registers, each `RowPlan.span` lanes have one piece, and of every chunk of it adjacent
vectors: a thread's chunks are so close together that their distances fit in the instructions. In
loops vector `i` belongs to lane ``i % lanes``. Elements after the last full vector, fewer than a
vector, go one each to the first lanes: every element is read once, nothing beyond the row is.
Offsets of rows are 64-bit.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import TargetError
from flydsl.expr.vector import vector_alias
from flydsl_kernels.norm.selection import RowPlan

__all__ = [
    "Share",
    "affine",
    "again",
    "blanked",
    "column_count",
    "in_order",
    "load_share",
    "load_tail",
    "load_vector",
    "narrowed",
    "opaque",
    "own_share",
    "place_chunk",
    "place_tail",
    "ratio",
    "store_part",
    "store_share",
    "store_tail",
    "store_vector",
    "widened",
]


ALIGNED = 32
"""Parts of rows begin at multiples of so many vectors."""


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of which row a thread has; run-time values are those of its kernel.

    Attributes:
        plan: The compile-time part.
        row: The thread's row; may be past the last one, then nothing of it is loaded or stored.
        lane: The thread's number within its row, or its part of it.
        first: The thread's first vector of a chunk, or of a loop.
        full: Number of full vectors of the row, or after its part; 0 past the last row.
        tail_column: Column of the element of the tail that this thread would have.
        in_tail: Whether it has one.
    """

    plan: RowPlan
    row: Any
    lane: Any
    first: Any
    full: Any
    tail_column: Any
    in_tail: Any

    def start(self, tensor: Any) -> Any:
        """Return the pointer to the thread's row of a matrix with contiguous rows."""
        return tensor.iter + self.row.to(fx.Int64) * tensor.stride[0]

    def is_first(self) -> Any:
        """Return whether the thread is the one of its row that stores what the row has one of."""
        first = self.lane == 0
        return first & (fx.block_idx.y == 0) if self.plan.splits > 1 else first

    def index(self, chunk: int) -> Any:
        """Return the number of the thread's vector of one chunk."""
        return self.first + chunk * self.plan.span


def column_count(tensor: Any) -> Any:
    """Return the number of columns of a matrix as a run-time `Int32`."""
    return fx.Int32(tensor.shape[1])


def own_share(plan: RowPlan, tensor: Any) -> Share:
    """Return the calling thread's share of a matrix."""
    row, lane = fx.block_idx.x, fx.thread_idx.x
    columns = column_count(tensor)
    full = columns // plan.vector
    if plan.splits > 1:
        return _part(plan, row, lane, columns)
    there = None
    if plan.rows > 1:
        row = row * plan.rows + lane // plan.lanes
        lane = lane % plan.lanes
        there = row < fx.Int32(tensor.shape[0])
    tail_column = full * plan.vector + lane
    in_tail = tail_column < columns
    if there is not None:
        in_tail = in_tail & there
        full = fx.arith.select(there, full, fx.Int32(0))
    first = lane
    if plan.lanes > plan.span and not plan.looped:
        first = lane // plan.span * (plan.span * plan.chunks) + lane % plan.span
    return Share(plan, row, lane, first, full, tail_column, in_tail)


def _part(plan: RowPlan, row: Any, lane: Any, columns: Any) -> Share:
    """Return the thread's share of its workgroup's part of a row; the last part has the tail."""
    full = columns // plan.vector
    # A multiple of the vectors that share a scale.
    size = (full + (plan.splits * ALIGNED - 1)) // (plan.splits * ALIGNED) * ALIGNED
    part = fx.block_idx.y
    start = part * size
    end = fx.arith.select(start + size < full, start + size, full)
    tail_column = full * plan.vector + lane
    in_tail = (tail_column < columns) & (part == plan.splits - 1)
    return Share(plan, row, lane, start + lane, end, tail_column, in_tail)


def in_order() -> None:
    """Keep the target's scheduler from computing what follows earlier, which costs registers."""
    with suppress(TargetError):  # only AMD targets have such a barrier
        fx.rocdl.sched_barrier(0)


def opaque(vector: Any) -> Any:
    """Return an f32 vector about whose origin the optimiser is told nothing.

    Its values are the thread's own: LLVM 22 fails on what is the same for all threads.
    """
    kind = vector_alias(fx.Float32, (len(vector),))
    return fx.llvm.call_intrinsic("llvm.arithmetic.fence", kind, vector)


def again(part: Any) -> Any:
    """Return a part of a share in its own type, to be widened again.

    Without this the compiler would keep the f32 values of its first use, in twice the registers.
    """
    if not isinstance(part, fx.Vector) or part.dtype is fx.Float32:
        return part
    return opaque(part.bitcast(fx.Float32)).bitcast(part.dtype)


def ratio(value: Any, divisor: Any) -> Any:
    """Return an f32 quotient of normal numbers to 2.5 units in the last place."""
    with fx.fastmath("arcp,afn"):
        return value / divisor


def load_vector(start: Any, index: Any, share: Share) -> Any:
    """Load vector `index` of a row, which has one, in its own type."""
    vector = vector_alias(start.element, (share.plan.vector,))
    return (start + index * share.plan.vector).load(vector)


@flyc.jit
def load_chunk(start: Any, chunk: int, share: Share, fill: float) -> Any:
    """Load the thread's vector of a chunk in its own type, or `fill` where it has none."""
    plan = share.plan
    vector = vector_alias(start.element, (plan.vector,))
    place = start + share.first * plan.vector + chunk * plan.span * plan.vector
    if fx.const_expr(plan.whole):
        value = place.load(vector)
    else:
        value = fx.Vector.filled((plan.vector,), fill, start.element)
        if share.index(chunk) < share.full:
            value = place.load(vector)
    return value


@flyc.jit
def place_chunk(start: Any, chunk: int, share: Share, value: Any) -> None:
    """Store a vector of the row's type as the thread's of a chunk, if it has one."""
    plan = share.plan
    place = start + share.first * plan.vector + chunk * plan.span * plan.vector
    if fx.const_expr(plan.whole) or share.index(chunk) < share.full:
        place.store(value)


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


def narrowed(value: Any, kind: Any, exact: bool) -> Any:
    """Round f32 values to the type of a row.

    Args:
        value: Number or vector.
        kind: The type.
        exact: Whether NaNs among them may have digits that `kind` does not; the others stay NaNs
            without being looked for.
    """
    if exact:
        return value.to(kind)
    with fx.fastmath("nnan"):
        return value.to(kind)


def store_part(start: Any, position: int, share: Share, value: Any) -> None:
    """Store one value of a share, of the row's type."""
    if position < share.plan.chunks:
        place_chunk(start, position, share, value)
    else:
        place_tail(start, share, value)


def store_share(start: Any, share: Share, values: list[Any], exact: bool = False) -> None:
    """Store f32 values in the order of `load_share`; `exact` as for `narrowed`."""
    for position, value in enumerate(values):
        store_part(start, position, share, narrowed(value, start.element, exact))


def widened(parts: list[Any]) -> list[Any]:
    """Convert values of `load_share` to f32."""
    return [part.to(fx.Float32) for part in parts]


def blanked(value: Any, position: int, share: Share) -> Any:
    """Return a value of a share, zero where the thread has no element at this position."""
    plan = share.plan
    if position >= plan.chunks:
        return fx.arith.select(share.in_tail, value, fx.Float32(0.0))
    if plan.whole:
        return value
    there = share.index(position) < share.full
    zero = fx.Float32(0.0)
    return fx.Vector.from_elements([fx.arith.select(there, item, zero) for item in value])


def affine(value: Any, weight: Any, bias: Any, factor: Any = None) -> Any:
    """Return (value * weight + bias) * factor; each may be None."""
    if weight is None:
        out = value if bias is None else value + bias.to(fx.Float32)
    elif bias is None:
        out = value * weight.to(fx.Float32)
    else:
        out = fx.math.fma(value, weight.to(fx.Float32), bias.to(fx.Float32))
    return out if factor is None else out * factor.to(fx.Float32)
