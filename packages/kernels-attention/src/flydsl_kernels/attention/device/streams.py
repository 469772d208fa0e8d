"""Tiles that go straight from global memory to LDS, in two buffers of each kind.

K lies in LDS as in `tiles`; V as rows too, and is transposed by the loads from LDS. A load into LDS
writes neighbouring places for neighbouring lanes, so the swizzle is in what a lane loads: the chunk
at place c of a row is chunk c ^ swizzle(row).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import flydsl.expr as fx
from flydsl.expr.storage import ArrayType
from flydsl_kernels.attention.device.block import Block, Lane
from flydsl_kernels.attention.device.matrix import ELEMENTS, UNITS
from flydsl_kernels.attention.device.rows import Source, key_source, within
from flydsl_kernels.attention.device.tiles import Tiles
from flydsl_kernels.attention.selection import FlashPlan

__all__ = [
    "Cursor",
    "first_cursor",
    "key_loads",
    "loads",
    "own_streams",
    "read_keys",
    "read_values",
    "value_loads",
]

_CHUNK = 8
Task = Callable[[], None]


def value_swizzle(row: Any, plan: FlashPlan) -> Any:
    """Return what a chunk's number is combined with in a row of V.

    Four neighbouring rows then have their windows of 64 bytes in different banks.
    """
    if plan.wide_v % 128 == 0:
        return row % 4 * 4
    return row // 2 % 2 * 4 if plan.wide_v % 64 == 0 else row * 0


@dataclass(frozen=True, slots=True)
class Cursor:
    """Which buffers and places in memory are next.

    Attributes:
        turn: Buffer of the values of the tile at hand; its keys were there too.
        keys: Elements from the first key to that which is loaded next, two tiles further.
        values: The same for values.
    """

    turn: Any
    keys: Any
    values: Any

    def moved(self, tiles: Tiles) -> Cursor:
        """Return the cursor a tile further."""
        tile = tiles.plan.tile
        return Cursor(
            1 - self.turn, self.keys + tiles.keys.stride * tile,
            self.values + tiles.values.stride * tile,
        )  # fmt: skip


def first_cursor(tiles: Tiles) -> Cursor:
    """Return the cursor at the first tile: two tiles are loaded."""
    next_key = (tiles.block.begin + 2 * tiles.plan.tile).to(fx.Int64)
    return Cursor(fx.Int32(0), next_key * tiles.keys.stride, next_key * tiles.values.stride)


def key_loads(tiles: Tiles, first: Any, turn: Any, moved: Any = None) -> list[Task]:
    """Return what starts the loads of the tile of K from key `first` into buffer `turn`."""
    plan = tiles.plan
    target = tiles.lds_k + fx.rocdl.read_first_lane(turn) * (plan.tile * plan.wide_qk)
    place = (first, moved, target)
    return _loads(tiles, tiles.keys, place, (plan.wide_qk, plan.d_qk), tiles.key_swizzle)


def value_loads(tiles: Tiles, first: Any, turn: Any, moved: Any = None) -> list[Task]:
    """Return what starts the loads of the tile of V from key `first` into buffer `turn`."""
    plan = tiles.plan
    target = tiles.lds_v + fx.rocdl.read_first_lane(turn) * (plan.tile * plan.wide_v)
    place = (first, moved, target)
    return _loads(tiles, tiles.values, place, (plan.wide_v, plan.d_v),
                  lambda row: value_swizzle(row, plan))  # fmt: skip


def loads(tiles: Tiles, first: Any, cursor: Cursor, half: int) -> list[Task]:
    """Return what starts the loads that a part of the tile at key `first` makes room for.

    The last operands of the tile's keys are read before its first part, those of its values during
    it: so the first part loads the keys two tiles further, the second one the values. The last task
    ends the stage.
    """
    further = first + 2 * tiles.plan.tile
    if half == 0:
        moves = key_loads(tiles, further, cursor.turn, cursor.keys)
    else:
        moves = value_loads(tiles, further, cursor.turn, cursor.values)
    return [*moves, lambda: fx.rocdl.pipeline().commit()]


def _loads(
    tiles: Tiles, source: Source, where: tuple[Any, Any, Any], widths: tuple[int, int],
    swizzle: Any,
) -> list[Task]:  # fmt: skip
    """Return what starts the loads of a tile.

    Args:
        tiles: The tiles.
        source: Rows of k or v.
        where: First key, its place in memory or None, and the buffer.
        widths: Elements of a row in LDS and in memory.
        swizzle: Returns what a chunk's number is combined with in a row.
    """
    first, moved, target = where
    wide, width = widths
    chunks = wide // _CHUNK
    atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS128b(), tiles.element)
    thread, threads = tiles.lane.thread, tiles.threads
    stride = source.stride.to(fx.Int32)
    vector = fx.make_layout(_CHUNK, 1)

    def load(step: int) -> None:
        row, place = (thread + step * threads) // chunks, (thread + step * threads) % chunks
        if threads % chunks == 0:
            row, place = thread // chunks + step * (threads // chunks), thread % chunks
        buffer, inside, _ = tiles.reach(source, first, row, moved)
        chunk = place ^ swizzle(row)
        offset = inside * stride + chunk * _CHUNK
        if wide != width:
            offset = within(chunk < width // _CHUNK, offset)
        to = target + (tiles.lane.wave * UNITS[tiles.plan.unit].lanes + step * threads) * _CHUNK
        fx.copy_atom_call(atom, fx.make_view(buffer + offset, vector), fx.make_view(to, vector))

    return [partial(load, step) for step in range(tiles.plan.tile * chunks // threads)]


def read_keys(tiles: Tiles, turn: Any, row: int, piece: int) -> Any:
    """Return the operand of the rows of K from `row` on in buffer `turn`."""
    return tiles.key_piece(row, piece, turn * (tiles.plan.tile * tiles.plan.wide_qk))


def read_values(tiles: Tiles, turn: Any, row: int, piece: int) -> Any:
    """Return the operand of the elements of v from `row` on, for a piece of the keys."""
    plan, lane = tiles.plan, tiles.lane
    atom = fx.make_copy_atom(fx.rocdl.cdna4.LDSReadTrans16_64b(), tiles.element)
    inside = lane.column % 16
    key = lane.half * 4 + inside // 4
    part = lane.column // 16 * 2 + inside % 4 // 2
    base = turn * (plan.tile * plan.wide_v) + key * plan.wide_v + inside % 2 * 4
    chunk = (row // _CHUNK + part) ^ value_swizzle(key, plan)
    halves = []
    for quad in fx.range_constexpr(2):
        place = base + chunk * _CHUNK + (piece * 16 + quad * 8) * plan.wide_v
        found = fx.make_rmem_tensor(4, tiles.element)
        fx.copy_atom_call(atom, fx.make_view(tiles.lds_v + place, fx.make_layout(4, 1)), found)
        halves.append(fx.memref_load_vec(found))
    return halves[0].shuffle(halves[1], range(8))


def own_streams(a: Any, plan: FlashPlan, lane: Lane, block: Block) -> Tiles:
    """Allocate two buffers of each kind and return the thread's share of their movement."""
    shared = fx.SharedAllocator()
    element = ELEMENTS[plan.element]
    lds_k = shared.allocate(ArrayType(element, 2 * plan.tile * plan.wide_qk), alignment=1024).ptr
    lds_v = shared.allocate(ArrayType(element, 2 * plan.tile * plan.wide_v), alignment=1024).ptr
    keys = key_source(a.k, plan, block, plan.d_qk)
    values = key_source(a.v, plan, block, plan.d_v)
    return Tiles(a, plan, lane, block, keys, values, lds_k, lds_v)
