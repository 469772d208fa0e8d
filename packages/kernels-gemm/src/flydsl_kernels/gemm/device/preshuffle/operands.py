"""Where the operands of a workgroup lie: A in memory and in local data share, B in memory.

Rows past the end of A, and columns past the end of B, are outside their descriptors: they read as
zero. Bases move with the workgroup in 64 bits, so operands may be of any size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import flydsl.expr as fx
from flydsl_kernels.gemm.device.preshuffle.plan import PASS_BYTES, SCALED_K, SIDE, PreshufflePlan
from flydsl_rocdl.expr.buffers import make_buffer_ptr
from flydsl_rocdl.kernels.swizzle import PIECE, RowSwizzle
from flydsl_rocdl.kernels.word_buffers import OUTSIDE, WordBuffer, pinned

__all__ = ["ARows", "BBlocks", "Pitches", "Place", "ScaleWords", "Stage"]

__flydsl_internal__ = True  # plain Python: nothing here decides on run-time values

WAVE = 64


@dataclass(frozen=True, slots=True)
class Place:
    """Who the calling thread is, and which tile its workgroup has.

    Attributes:
        thread: Number in the workgroup.
        lane: Number in the wave.
        wave: Number of the wave, the same in all of its lanes.
        first_row: First row of the tile.
        first_column: First column of the wave's share of the tile.
    """

    thread: Any
    lane: Any
    wave: Any
    first_row: Any
    first_column: Any

    @property
    def row(self) -> Any:
        """Row of a block that the lane loads."""
        return self.lane % SIDE

    @property
    def group(self) -> Any:
        """Which 16 of the 64 bytes of a chunk the lane loads."""
        return self.lane // SIDE


@dataclass(frozen=True, slots=True)
class Pitches:
    """Distances between neighbours in one matrix; None where there are no gaps.

    Attributes:
        a: Between rows of A, in bytes.
        scale_a: Between blocks of 32 rows of A's scales, in bytes.
        c: Between rows of C, in elements.
    """

    a: Any = None
    scale_a: Any = None
    c: Any = None


class ARows:
    """The tile's rows of A in memory: a buffer per pass, and the thread's offset in each."""

    def __init__(
        self, plan: PreshufflePlan, operand: tuple[Any, Any, Any], place: Place, swizzle: RowSwizzle
    ) -> None:
        pointer, rows, pitch = operand
        pitch, per_pass = plan.a_pitch if pitch is None else pitch, plan.rows_per_pass
        start = fx.recast_iter(fx.Int8, pointer) + place.first_row.to(fx.Int64) * _wide(pitch)
        left = rows - place.first_row
        parts = [
            (
                start + number * per_pass * pitch,
                fx.min(left - number * per_pass, per_pass) * pitch,
            )
            for number in range(plan.passes)
        ]
        pieces = plan.row_bytes // PIECE
        self.piece = place.thread % pieces
        row = place.thread // pieces
        self.lane = row * pitch + self.piece * PIECE
        self.buffers = [WordBuffer.of(*part) for part in parts]
        if plan.direct:
            # What lies at a piece of local data share is the piece that the row's key puts there.
            self._pointers = [make_buffer_ptr(first, fx.max(size, 0)) for first, size in parts]
            self._lanes = [
                row * pitch + (self.piece ^ swizzle.key(row + number * per_pass)) * PIECE
                for number in range(min(plan.passes, swizzle.repeat(per_pass)))
            ]
            self._copy = fx.make_copy_atom(fx.rocdl.BufferCopyLDS128b(), fx.Int8)

    def direct_lane(self, number: int) -> Any:
        """Return the thread's offset in a pass, for loads into local data share."""
        return self._lanes[number % len(self._lanes)]

    def bring(self, number: int, lane: Any, offset: Any, place: Any) -> None:
        """Load the thread's 16 bytes of one pass into local data share.

        Args:
            number: The pass.
            lane: `direct_lane`, perhaps moved.
            offset: The step's place in a row, in bytes.
            place: Pointer to where the thread's 16 bytes go.
        """
        source = fx.make_view(self._pointers[number] + lane, fx.make_layout(PIECE, 1))
        target = fx.make_view(place, fx.make_layout(PIECE, 1))
        fx.copy_atom_call(self._copy, source, target, soffset=fx.Int32(offset))

    def load(self, number: int, offset: Any) -> Any:
        """Load the thread's 16 bytes of one pass; `offset` is the step's place in a row."""
        return self.buffers[number].load(self.lane, offset)

    def load_part(self, number: int, offset: Any, pieces: int) -> Any:
        """The same where rows have only `pieces` pieces left."""
        inside = self.piece < pieces
        return self.buffers[number].load(inside.select(self.lane, fx.Int32(OUTSIDE)), offset)


def _wide(number: Any) -> Any:
    """Return a distance for products in 64 bits."""
    return number if isinstance(number, int) else number.to(fx.Int64)


class BBlocks:
    """The wave's blocks of 16 rows of preshuffled B in memory."""

    def __init__(self, plan: PreshufflePlan, pointer: Any, columns: Any, place: Place) -> None:
        share = plan.column_blocks * SIDE
        blocks = fx.min(columns - place.first_column, share) // SIDE
        start = fx.recast_iter(fx.Int8, pointer)
        start = start + (place.first_column // SIDE).to(fx.Int64) * plan.b_pitch
        self.plan = plan
        self.buffer = WordBuffer.of(start, blocks * plan.b_pitch)
        self.paired = plan.paired and not plan.scaled
        self.lane = place.lane * (plan.b_chunk // WAVE * (2 if self.paired else 1))
        self.blocks = [fx.Int32(0)]
        for number in range(1, plan.column_blocks):
            there = (blocks > number).select(fx.Int32(number * plan.b_pitch), fx.Int32(0))
            self.blocks.append(there if plan.n % plan.tile_n else fx.Int32(number * plan.b_pitch))

    def at(self, step: Any, away: Any = 0) -> Any:
        """Return the lane's offset of a step, plus `away`."""
        return self.lane + (step * (self.plan.b_chunks * self.plan.b_chunk) + away)

    def load(self, block: int, chunk: int, at: Any) -> Any:
        """Load the lane's share of a block in one chunk of the step at `at`."""
        words, offset = self.plan.b_chunk // WAVE // 4, chunk * self.plan.b_chunk
        if self.paired:
            offset = chunk // 2 * 2 * self.plan.b_chunk + chunk % 2 * 4
        return self.buffer.load(at + offset, self.blocks[block], words=words)


class ScaleWords:
    """E8M0 scales of both operands in memory, four in a word.

    A word has the scales of rows r and r + 16 and of blocks s and s + 4; bytes count the second
    before the first. One word per lane serves two blocks of rows and 256 k.
    """

    def __init__(
        self, plan: PreshufflePlan, a: tuple[Any, Any, Any], b: tuple[Any, Any], place: Place
    ) -> None:
        plain = (plan.whole_k or plan.k) // (2 * SCALED_K) * WAVE * 4
        self.plan = plan
        self.lane = place.lane * 4
        self.words = max(1, plan.tile_k // (2 * SCALED_K))
        self.sources = []
        for (pointer, rows, given), first, blocks in (
            ((*b, None), place.first_column, plan.column_blocks),
            (a, place.first_row, plan.row_blocks),
        ):
            pitch = plain if given is None else given
            start = fx.recast_iter(fx.Int8, pointer)
            start = start + (first // (2 * SIDE)).to(fx.Int64) * _wide(pitch)
            left = (rows - first + (2 * SIDE - 1)) // (2 * SIDE)
            self.sources.append(
                [
                    WordBuffer.of(start + pair * pitch, fx.min(left - pair, 1) * pitch)
                    for pair in range(blocks // 2)
                ]
            )

    @property
    def count(self) -> int:
        """Words of a step."""
        return self.words * sum(len(pairs) for pairs in self.sources)

    def loads(self, step: Any, away: Any = 0) -> list[Callable[[], Any]]:
        """Return what loads each word of a step, B's first; `away` is added to the offsets."""
        lane = self.lane + away
        if self.plan.tile_k < 2 * SCALED_K:
            turn = step // 2 if isinstance(step, int) else fx.shrui(step, 1)
        else:
            turn = step * self.words
        return [
            partial(buffer.load, lane + word * WAVE * 4, turn * (WAVE * 4), words=1)
            for pairs in self.sources
            for word in range(self.words)
            for buffer in pairs
        ]

    def of(self, words: list[Any], group: int, column: int, row: int) -> tuple[Any, int, Any, int]:
        """Return (word of B, byte, word of A, byte) for a group of K and two blocks.

        Args:
            words: The step's words, in the order of `loads`.
            group: Number of 128 k, counted so that even ones begin a word.
            column: Block of columns.
            row: Block of rows.
        """
        word, half = group // 2 % self.words, group % 2
        columns, rows = (len(pairs) for pairs in self.sources)
        first = words[word * columns + column // 2]
        second = words[self.words * columns + word * rows + row // 2]
        return first, 2 * half + column % 2, second, 2 * half + row % 2


class Stage:
    """Tiles of A in local data share, their rows swizzled."""

    def __init__(self, plan: PreshufflePlan, swizzle: RowSwizzle, place: Place) -> None:
        array: Any = fx.Array
        kind = array[fx.Int32, plan.lds_bytes // 4]
        self.plan, self.swizzle = plan, swizzle
        storage = fx.SharedAllocator().allocate(kind, alignment=1024)
        self.base = fx.recast_iter(fx.Int128, storage.ptr)
        self.variants = max(2, swizzle.variants) if plan.paired else swizzle.variants
        self.reads = [
            self._address(swizzle.place(place.row, self._piece(chunk, place.group)))
            for chunk in range(min(self.variants, plan.chunks))
        ]
        pieces = plan.row_bytes // PIECE
        row, piece = place.thread // pieces, place.thread % pieces
        self.writes = [
            self._address(swizzle.place(row + number * plan.rows_per_pass, piece))
            for number in range(min(plan.passes, swizzle.repeat(plan.rows_per_pass)))
        ]
        self.thread = place.thread

    def _address(self, offset: Any) -> Any:
        """Return the pointer to the piece at a byte offset, known to be aligned."""
        return fx.recast_iter(fx.Int32, self.base + pinned(offset // PIECE))

    def _piece(self, chunk: int, group: Any) -> Any:
        """Return which 16 bytes of a row a group of lanes reads for a chunk."""
        if self.plan.paired:
            return 8 * (chunk // 2) + 2 * group + chunk % 2
        return 4 * chunk + group

    def read(self, slot: int, block: int, chunk: int) -> Any:
        """Read the lane's 16 bytes of a block of rows and a chunk."""
        turn, variant = divmod(chunk, self.variants)
        at = slot * self.plan.tile_m * self.plan.row_bytes + block * SIDE * self.plan.row_bytes
        at += turn * self.variants * 4 * PIECE
        return (self.reads[variant] + at // 4).load(fx.Int32x4)

    def place(self, slot: int, number: int) -> Any:
        """Return where the thread's 16 bytes of one pass go in the order of threads."""
        at = slot * self.plan.tile_m * self.plan.row_bytes + number * PASS_BYTES
        return fx.recast_iter(fx.Int8, self.base) + at + self.thread * PIECE

    def write(self, slot: int, number: int, value: Any) -> None:
        """Write the thread's 16 bytes of one pass."""
        own = number % len(self.writes)
        at = slot * self.plan.tile_m * self.plan.row_bytes + (number - own) * PASS_BYTES
        (self.writes[own] + at // 4).store(value)
