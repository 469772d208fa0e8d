"""An operand's tile on its way from global memory to LDS, and from there to fragments.

LDS holds rows of pieces of 16 bytes along k. Piece `c` of row `p` lies at ``c ^ key(p)`` in its
row, so that reads of one piece of consecutive rows, and writes, spread over all banks. Row `p`
of LDS is row ``natural_row(p)`` of the tile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.gemm.device.transposing import transposed
from flydsl_kernels.gemm.device.windows import OUTSIDE, load_words, near_window, wide, window
from flydsl_kernels.gemm.instruction import PIECE
from flydsl_kernels.gemm.plan import OperandPlan

__all__ = [
    "Operand",
    "bring",
    "fetch",
    "key",
    "lds_row",
    "natural_row",
    "piece",
    "place",
    "start",
    "turned",
]


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand in a kernel; run-time values are those of its workgroup.

    Attributes:
        plan: The compile-time part.
        pointer: Start of the matrix.
        stride: Elements from one row to the next (where rows are contiguous: from one k to the
            next), 64 bits.
        first: The tile's first row.
        rows: Rows of the matrix.
        k: Columns of A, where the workgroup's part of them ends.
        lds: Pointer to LDS, in pieces.
    """

    plan: OperandPlan
    pointer: Any
    stride: Any
    first: Any
    rows: Any
    k: Any
    lds: Any

    def until(self, rows: Any) -> Operand:
        """Return the operand with fewer rows."""
        return replace(self, rows=rows)

    def moved(self, tensor: Any, layer: Any, first: Any, k: Any) -> Operand:
        """Return the operand of another tile: of a layer of `tensor`, from a row on, up to `k`."""
        pointer = tensor.iter + wide(layer) * tensor.stride[0]
        return replace(self, pointer=pointer, first=first, k=k)


def key(plan: OperandPlan, row: Any) -> Any:
    """Return what positions of pieces of a row of LDS are exclusive-ored with."""
    shared = max(1, plan.line // plan.pitch)
    if plan.transposing:
        # 32 lanes read two neighbouring pieces of 4 k and of the 4 that are 8 later; as many of
        # them as share a line of banks lie apart already.
        rest = 4 // min(4, shared)
        return (row % 4 // min(4, shared) + row // 8 % 2 * rest) * 2 % plan.pitch
    lines = row // shared
    if not plan.k_major:
        lines = lines ^ (lines // plan.chunks)
    return lines % plan.chunks


def _fields(plan: OperandPlan) -> tuple[int, int, int]:
    return plan.values, plan.spread, 16 // plan.values


def natural_row(plan: OperandPlan, row: Any) -> Any:
    """Return the row of the tile that a row of LDS holds.

    Row `r` of instruction tile `j`, which becomes result `i` of lane group `g`, is row
    ``g * values * spread + j * values + i`` of the `spread` tiles.
    """
    values, spread, groups = _fields(plan)
    within, tile = row % 16, row // 16
    i, g = (within // groups, within % groups) if plan.interleaved else (
        within % values, within // values)  # fmt: skip
    return (tile // spread * spread * 16) + g * (values * spread) + (tile % spread) * values + i


def lds_row(plan: OperandPlan, row: Any) -> Any:
    """Return the row of LDS that holds a row of the tile: the inverse of `natural_row`."""
    values, spread, groups = _fields(plan)
    within, block = row % (16 * spread), row // (16 * spread)
    i, j, g = within % values, within // values % spread, within // (values * spread)
    return block * (16 * spread) + j * 16 + (i * groups + g if plan.interleaved else g * values + i)


def _item(plan: OperandPlan, turn: int) -> Any:
    return fx.thread_idx.x + turn * plan.threads


def _chunk(plan: OperandPlan, turn: int) -> Any:
    """Return the piece of its row that an item is, where pieces are moved whole."""
    # Keys repeat after as many rows; often turns differ by a multiple of them.
    period = max(plan.line, plan.pitch)
    same = plan.threads // plan.pitch % period == 0
    item = _item(plan, 0 if same else turn)
    return (item % plan.pitch) ^ key(plan, item // plan.pitch)


def _natural(plan: OperandPlan, turn: int) -> Any:
    """Return the row of the tile, or for transposing reads the k, that an item is of."""
    if plan.transposing:
        return _item(plan, turn) // plan.pitch
    step = turn * plan.threads // plan.pitch
    if step % (16 * plan.spread) == 0:
        return natural_row(plan, fx.thread_idx.x // plan.pitch) + step
    return natural_row(plan, _item(plan, turn) // plan.pitch)


def start(operand: Operand) -> list[Any]:
    """Return the byte offset of each of the thread's items from the start of a tile."""
    plan, found = operand.plan, []
    stride = fx.Int32(operand.stride) * plan.element_bytes
    for turn in range(plan.turns):
        if plan.whole:
            found.append(_natural(plan, turn) * stride + _chunk(plan, turn) * PIECE)
        else:
            item = _item(plan, turn)
            runs = plan.rows // plan.run
            first = item % runs * plan.run
            k = item // runs * (PIECE // plan.element_bytes)
            found.append(k * stride + first * plan.element_bytes)
    return found


def _window(operand: Operand, k: Any) -> Any:
    """Return the window of the tile that begins at column `k` of A."""
    plan, size = operand.plan, operand.plan.element_bytes
    whole = fx.Int32 if plan.near else wide
    left, rows = whole(operand.k - k), whole(operand.rows - operand.first)
    stride = whole(operand.stride)
    if plan.k_major:
        offset = whole(operand.first) * stride + whole(k)
        extent = (rows - 1) * stride + left
    else:
        offset = whole(k) * stride + whole(operand.first)
        extent = (left - 1) * stride + rows
    there = (left > 0) & (rows > 0)
    extent = fx.arith.select(there, extent * size, whole(0))
    if plan.near:
        return near_window(operand.pointer, offset * size, extent)
    return window(operand.pointer, offset * size, extent)


def fetch(operand: Operand, k: Any, offsets: list[Any]) -> list[Any]:
    """Load the thread's items of the tile at column `k`: lists of vectors of words.

    Past the last column there are zeros; rows past the last one hold anything.
    """
    plan = operand.plan
    source = _window(operand, k)
    if plan.whole:
        left = _left(operand, k)
        return [
            load_words(source, offset, 4, plan.vector, _limit(plan, turn, left))
            for turn, offset in enumerate(offsets)
        ]
    words = plan.run * plan.element_bytes // 4
    stride = fx.Int32(operand.stride) * plan.element_bytes
    return [
        load_words(source, offset + stride * j, words, plan.vector)
        for offset in offsets
        for j in range(PIECE // plan.element_bytes)
    ]


@flyc.jit
def bring(operand: Operand, k: Any, offsets: list[Any], buffer: Any) -> None:
    """Load the tile at column `k` into LDS without registers; it arrives some time later.

    Args:
        operand: The operand, whose k is contiguous.
        k: Column of A.
        offsets: What `start` returned.
        buffer: Where the tile begins in LDS, in pieces.
    """
    if fx.const_expr(operand.plan.partial):
        if fx.thread_idx.x < operand.plan.items:
            _bring(operand, k, offsets, buffer)
    else:
        _bring(operand, k, offsets, buffer)


def _bring(operand: Operand, k: Any, offsets: list[Any], buffer: Any) -> None:
    plan = operand.plan
    source = _window(operand, k)
    atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS128b(), fx.Int8)
    whole = fx.make_layout(PIECE, 1)
    left = _left(operand, k)
    for turn, offset in enumerate(offsets):
        limit = _limit(plan, turn, left)
        at = offset
        if limit is not None:
            at = fx.arith.select(limit > 0, offset, fx.Int32(OUTSIDE))
        target = fx.recast_iter(fx.Int8, operand.lds + (buffer + _item(plan, turn)))
        fx.copy_atom_call(atom, fx.make_view(source + at, whole), fx.make_view(target, whole))


def _left(operand: Operand, k: Any) -> Any:
    """Return how many bytes of the tile's rows there are; None if all, or if k are rows."""
    plan = operand.plan
    if not (plan.ragged and plan.k_major):
        return None
    return fx.min(operand.k - k, fx.Int32(plan.tile_k)) * plan.element_bytes


def _limit(plan: OperandPlan, turn: int, left: Any) -> Any:
    """Return how many bytes of an item's piece count, of `left` bytes of its row; None for all."""
    return None if left is None else left - _chunk(plan, turn) * PIECE


@flyc.jit
def place(operand: Operand, items: list[Any], buffer: Any) -> None:
    """Write what `fetch` loaded to LDS.

    Args:
        operand: The operand.
        items: The loaded words.
        buffer: Where the tile begins in LDS, in pieces.
    """
    if fx.const_expr(operand.plan.partial):
        if fx.thread_idx.x < operand.plan.items:
            write(operand, items, buffer)
    else:
        write(operand, items, buffer)


def write(operand: Operand, items: list[Any], buffer: Any) -> None:
    """Write every item of the thread."""
    plan = operand.plan
    if plan.whole:
        for turn in range(plan.turns):
            _store(operand.lds + (buffer + _item(plan, turn)), items[turn])
        return
    each = PIECE // plan.element_bytes
    runs = plan.rows // plan.run
    for turn in range(plan.turns):
        item = _item(plan, turn)
        chunk = item // runs
        pieces = transposed(items[turn * each : (turn + 1) * each], plan.element_bytes)
        for i, words in enumerate(pieces):
            row = lds_row(plan, item % runs * plan.run + i)
            position = row * plan.chunks + (chunk ^ key(plan, row))
            _store(operand.lds + (buffer + position), words)


def _store(pointer: Any, words: Any) -> None:
    fx.recast_iter(fx.Int32, pointer).store(words)


def piece(operand: Operand, row: Any, chunk: Any, buffer: Any) -> Any:
    """Read a piece of a row of LDS: four words."""
    plan = operand.plan
    if plan.tensor:
        position = natural_row(plan, row) * plan.distance + chunk
    else:
        position = row * plan.chunks + (chunk ^ key(plan, row))
    return (operand.lds + (buffer + position)).load(vector_alias(fx.Int32, (4,)))


def turned(operand: Operand, row: Any, first: Any, buffer: Any) -> Any:
    """Read 8 neighbouring k of a row where rows are contiguous in LDS: four words.

    Of 16 lanes, lane `i` points to four rows of one k, from which all get one row of four k.

    Args:
        operand: The operand.
        row: The row of LDS, in the order of the instruction, of the first of the 16 lanes.
        first: The first k of the lane's group within the tile, a multiple of 8.
        buffer: Where the tile begins in LDS, in pieces.
    """
    plan = operand.plan
    lane = fx.thread_idx.x % 16
    at = natural_row(plan, row + lane % 4 * 4)
    chunk, half = at // 8, at // 4 % 2
    words = []
    for part in range(2):
        k = first + part * 4 + lane // 4
        position = k * plan.pitch + (chunk ^ key(plan, k))
        place = fx.recast_iter(fx.Int64, operand.lds + (buffer + position)) + half
        kind = vector_alias(fx.Int16, (4,))
        found = fx.rocdl.ds_read_tr16_b64(kind, place)
        words.append(found.bitcast(fx.Int32))
    return words[0].shuffle(words[1], range(4))
