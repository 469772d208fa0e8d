"""Tiles of keys and values: from global memory to registers, to LDS, to operands.

K lies in LDS as rows, V transposed: a row per element of v, the keys along it in the order in which
lanes take them. Both are divided into chunks of 8 elements, whose numbers are swizzled by the row
so that neighbouring rows use different banks.

Keys past the last one that the workgroup sees are not read: their part of a tile is zero, so that
whatever their memory holds cannot reach a result through a weight of zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx
from flydsl.expr.storage import ArrayType
from flydsl.expr.vector import vector_alias
from flydsl_kernels.attention.device.block import Block, Lane
from flydsl_kernels.attention.device.caches import known_page
from flydsl_kernels.attention.device.matrix import ELEMENTS, UNITS, load_pieces
from flydsl_kernels.attention.device.nonfinite import cleaned
from flydsl_kernels.attention.device.rows import (
    NOWHERE,
    Source,
    buffer_rows,
    key_source,
    page_of,
    within,
)
from flydsl_kernels.attention.selection import FlashPlan

__all__ = ["Tiles", "own_tiles"]

_CHUNK = 8


@dataclass(frozen=True, slots=True)
class Tiles:
    """A thread's share of the movement of tiles.

    Attributes:
        a: The arguments.
        plan: The compile-time part.
        lane: The thread's place.
        block: The workgroup's part.
        keys: Rows of k.
        values: Rows of v.
        lds_k: Pointer to the tile of K in LDS.
        lds_v: Pointer to the tile of V.
    """

    a: Any
    plan: FlashPlan
    lane: Lane
    block: Block
    keys: Source
    values: Source
    lds_k: Any
    lds_v: Any

    @property
    def threads(self) -> int:
        """Threads of the workgroup."""
        return self.plan.waves * UNITS[self.plan.unit].lanes

    @property
    def element(self) -> Any:
        """Numeric class that elements are moved as."""
        return ELEMENTS[self.plan.element]

    def load(self, keys: Any, values: Any) -> list[Any]:
        """Load the thread's share of the tile of K that starts at a key, and of that of V."""
        return [*self.load_keys(keys), *self.load_values(values)]

    def store(self, share: list[Any], flag: Any = None) -> Any:
        """Store what `load` returned to LDS; `flag` as of `store_values`."""
        count = self.key_steps
        self.store_keys(share[:count])
        return self.store_values(share[count:], flag)

    def reach(
        self, source: Source, first: Any, row: Any, moved: Any = None
    ) -> tuple[Any, Any, Any]:
        """Return (buffer pointer, row counted from it, rows that it reaches) of a tile's row.

        Where keys are paged, the rows of the lanes of a wave are in one page.

        Args:
            source: Rows of k or v.
            first: First key of the tile.
            row: A row of the tile.
            moved: As of `buffer_rows`.
        """
        plan, block = self.plan, self.block
        if not plan.page:
            count = fx.min(block.end - first, plan.tile)
            return buffer_rows(source, first, count, moved), row, count
        start, page = page_of(self.a, plan, block, source, first + fx.rocdl.read_first_lane(row))
        count = fx.min(block.end - page, plan.page)
        if plan.vectorised:
            return fx.rocdl.make_buffer_ptr(start, 2 * NOWHERE), first + row - page, count
        of_page = Source(start, source.stride, source.width)
        return buffer_rows(of_page, fx.Int32(0), count), first + row - page, count

    # K

    @property
    def key_steps(self) -> int:
        """Chunks of a tile of K that a thread moves."""
        return self.plan.tile * self.plan.wide_qk // _CHUNK // self.threads

    def key_place(self, step: int) -> tuple[Any, Any]:
        """Return (row, chunk) of the thread's chunk of a step."""
        chunks = self.plan.wide_qk // _CHUNK
        thread = self.lane.thread
        if self.threads % chunks == 0:
            return thread // chunks + step * (self.threads // chunks), thread % chunks
        position = thread + step * self.threads
        return position // chunks, position % chunks

    def load_keys(self, first: Any) -> list[Any]:
        """Load the thread's chunks of the tile of K that starts at key `first`."""
        source, plan = self.keys, self.plan
        vector = vector_alias(self.element, (_CHUNK,))
        out = []
        for step in fx.range_constexpr(self.key_steps):
            row, chunk = self.key_place(step)
            buffer, inside, count = self.reach(source, first, row)
            offset = inside * source.stride.to(fx.Int32) + chunk * _CHUNK
            if plan.vectorised:
                offset = (inside + chunk * source.step.to(fx.Int32) // _CHUNK) * _CHUNK
                offset = within(inside < count, offset)
            if plan.wide_qk != plan.d_qk:
                offset = within(chunk < plan.d_qk // _CHUNK, offset)
            out.append((buffer + offset).load(vector))
        return out

    def key_swizzle(self, row: Any) -> Any:
        """Return what the chunk's number is combined with in a row of K."""
        return row % 8 if self.plan.wide_qk % 64 == 0 else row // 2 % 4

    def store_keys(self, share: list[Any]) -> None:
        """Store the thread's chunks of a tile of K to LDS."""
        for step, value in enumerate(share):
            row, chunk = self.key_place(step)
            place = row * self.plan.wide_qk + (chunk ^ self.key_swizzle(row)) * _CHUNK
            (self.lds_k + place).store(value)

    def key_piece(self, row: int, piece: int, start: Any = 0) -> Any:
        """Return the operand of the rows from `row` on, piece `piece` of their elements.

        Args:
            row: First row of the block.
            piece: Which elements.
            start: Where the tile begins in LDS.
        """
        plan, unit = self.plan, UNITS[self.plan.unit]
        low = 8 if plan.wide_qk % 64 == 0 else 4
        swizzle = self.key_swizzle(self.lane.column)
        base = start + self.lane.column * plan.wide_qk
        places = []
        for part in fx.range_constexpr(unit.chunks):
            inside = swizzle ^ (part if unit.copies else self.lane.half)
            chunk = (inside ^ (2 * piece % low)) + 2 * piece // low * low
            places.append(self.lds_k + (base + chunk * _CHUNK + row * plan.wide_qk))
        return load_pieces(places, self.element)

    # V

    @property
    def value_width(self) -> int:
        """Elements of four neighbouring rows of V that a thread transposes at once."""
        units = self.plan.tile // 4 * self.plan.wide_v
        return next(w for w in (8, 4, 2, 1) if units % (w * self.threads) == 0)

    @property
    def value_steps(self) -> int:
        """How often a thread does."""
        return self.plan.tile // 4 * self.plan.wide_v // self.value_width // self.threads

    def value_place(self, step: int) -> tuple[Any, Any, Any, Any]:
        """Return (piece, chunk of the piece, half of the chunk, first element) of a step.

        Lanes that differ in the lowest bit have the two halves of a chunk.
        """
        columns = self.plan.wide_v // self.value_width
        position = self.lane.thread + step * self.threads
        inside = position % (4 * columns)
        rest = inside // 2
        return position // (4 * columns), rest // columns, inside % 2, rest % columns

    def value_swizzle(self, row: Any) -> Any:
        """Return what the chunk's number is combined with in a row of the turned V."""
        return (row ^ (row // 8)) % (self.plan.tile // _CHUNK)

    def load_values(self, first: Any) -> list[Any]:
        """Load the thread's rows of the tile of V that starts at key `first`.

        Returns:
            For each step four rows; of the vectorised layout as many vectors of four keys as the
            thread has elements.
        """
        source, plan, width = self.values, self.plan, self.value_width
        stride = source.stride.to(fx.Int32)
        vector = vector_alias(self.element, (width,))
        out = []
        for step in fx.range_constexpr(self.value_steps):
            piece, chunk, half, column = self.value_place(step)
            quad = half * 2 + chunk if UNITS[plan.unit].group == 4 else chunk * 2 + half
            row = piece * 16 + quad * 4
            buffer, inside, count = self.reach(source, first, row)
            if plan.vectorised:
                out += self.load_turned(buffer, inside, count, column)
                continue
            offset = inside * stride + column * width
            if plan.wide_v != plan.d_v:
                offset = within(column * width < plan.d_v, offset)
            out += [(buffer + offset + number * stride).load(vector) for number in range(4)]
        return out

    def load_turned(self, buffer: Any, row: Any, count: Any, column: Any) -> list[Any]:
        """Load four keys of each of the thread's elements from a vectorised page."""
        source, plan, width = self.values, self.plan, self.value_width
        stride, step = source.stride.to(fx.Int32), source.step.to(fx.Int32)
        vector = vector_alias(self.element, (4,))
        out = []
        for number in fx.range_constexpr(width):
            element = column * width + number
            offset = row // _CHUNK * step + element * stride + row % _CHUNK
            found = (buffer + within((row < count) & (element < plan.d_v), offset)).load(vector)
            zero = self.element(0)
            out.append(
                fx.Vector.from_elements(
                    [fx.arith.select(row + at < count, found[at], zero) for at in range(4)]
                )
            )
        return out

    def store_values(self, share: list[Any], flag: Any = None) -> Any:
        """Transpose the thread's rows of a tile of V and store them to LDS.

        Args:
            share: What `load_values` returned.
            flag: None, or a number: then what is not finite is stored as zero, and 1
                returned if the wave had any.

        Returns:
            The flag.
        """
        width, plan = self.value_width, self.plan
        places = [(step, element) for step in range(self.value_steps) for element in range(width)]
        kept: list[Any] = []
        if flag is not None:
            turned = [self.turned(share, *place) for place in places]
            lanes = UNITS[plan.unit].lanes
            kept, flag = cleaned(turned, plan.element, flag, lanes)
        for step, element in places:
            piece, chunk, half, column = self.value_place(step)
            row = column * width + element
            number = (piece * 2 + chunk) ^ self.value_swizzle(row)
            place = row * plan.tile + number * _CHUNK + half * 4
            found = kept[step * width + element] if kept else self.turned(share, step, element)
            (self.lds_v + place).store(found)
        return flag

    def turned(self, share: list[Any], step: int, element: int) -> Any:
        """Return four keys of an element of a step of what `load_values` returned."""
        if self.plan.vectorised:
            return share[self.value_width * step + element]
        return fx.Vector.from_elements([row[element] for row in share[4 * step : 4 * step + 4]])

    def value_at(self, key: Any, element: Any) -> Any:
        """Return an element of the value of a key that a row of the workgroup sees."""
        source, plan, block = self.values, self.plan, self.block
        if not plan.page:
            return (source.start + (key.to(fx.Int64) * source.stride + element)).load()
        page, inside = self.a.pages[block.sequence, key // plan.page], key % plan.page
        page = known_page(page, self.a.k)
        start = source.start + page.to(fx.Int64) * source.page
        if not plan.vectorised:
            return (start + (inside.to(fx.Int64) * source.stride + element)).load()
        chunk = (inside // _CHUNK).to(fx.Int64) * source.step
        return (start + (chunk + element * source.stride + inside % _CHUNK)).load()

    def value_piece(self, row: int, piece: int) -> Any:
        """Return the operand of the elements of v from `row` on, for a piece of the keys."""
        plan, unit = self.plan, UNITS[self.plan.unit]
        column = self.lane.column
        swizzle = self.value_swizzle(column)
        fixed = (2 * piece) ^ self.value_swizzle(row // 8 * 8)
        places = []
        for part in fx.range_constexpr(unit.chunks):
            inside = swizzle ^ (part if unit.copies else self.lane.half)
            place = column * plan.tile + (inside ^ fixed) * _CHUNK + row * plan.tile
            places.append(self.lds_v + place)
        return load_pieces(places, self.element)


def own_tiles(a: Any, plan: FlashPlan, lane: Lane, block: Block) -> Tiles:
    """Allocate the tiles and return the thread's share of their movement."""
    shared = fx.SharedAllocator()
    element = ELEMENTS[plan.element]
    lds_k = shared.allocate(ArrayType(element, plan.tile * plan.wide_qk)).ptr
    lds_v = shared.allocate(ArrayType(element, plan.tile * plan.wide_v)).ptr
    keys = key_source(a.k, plan, block, plan.d_qk)
    values = key_source(a.v, plan, block, plan.d_v)
    return Tiles(a, plan, lane, block, keys, values, lds_k, lds_v)
