"""Decoding of multi-head latent attention: a part of the keys of a sequence, for many heads.

All heads share keys and values, which are the same memory: a step of tokens goes to LDS once, in
the type of the products, and every wave takes both operands from there for rows of its own. Where
lanes have registers for the results of few rows, several waves share rows: each makes the scores
of some keys and elements, all add them up through LDS, and each has some elements of the results.

Tokens lie in LDS as rows of 16-byte chunks, whose numbers are swizzled so that the eight keys and
the eight chunks that neighbouring lanes read are in different banks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.storage import ArrayType
from flydsl.expr.vector import vector_alias
from flydsl_kernels.attention.decoding import (
    LATENT,
    MLA_WIDTH,
    LatentPlan,
    LatentProblem,
    select_latent,
)
from flydsl_kernels.attention.device.caches import known_page
from flydsl_kernels.attention.device.decode import KINDS, raised_rows, rows_sum
from flydsl_kernels.attention.device.decode_keys import grouped, kept_words
from flydsl_kernels.attention.device.decode_work import Work, own_part, part_count
from flydsl_kernels.attention.device.exact import exact16
from flydsl_kernels.attention.device.latent_values import clean_tokens, mend_rows
from flydsl_kernels.attention.device.matrix import UNITS, Unit, joined, load_pieces
from flydsl_kernels.attention.device.nonfinite import any_wave
from flydsl_kernels.attention.device.softmax import LEAST, largest_of
from flydsl_rocdl.expr.access import amd_facts

__all__ = ["LatentArguments", "launch_latent"]

_CHUNK = 8
_CHUNKS = MLA_WIDTH // _CHUNK
_ROTATED = (MLA_WIDTH - LATENT) // _CHUNK
"""Chunks of the elements of a token that are no values."""
_BLOCK = 256
"""Elements of a result of a matrix instruction."""


@fx.struct
class LatentArguments(fx.Struct):
    """Arguments of the kernel.

    Attributes:
        q: Queries [sequences, queries, heads, 576].
        cache: Tokens [pages, page, 576].
        table: Pages of each sequence, int32 [sequences, pages].
        unit: Unit of the cache, f32 [1].
        parts: Results of the parts, f32 [parts, 1, rows, 512].
        sums: Their references and sums, f32 [2, parts, 1, rows].
        scale: Factor of the scores, times log2(e).
    """

    q: fx.Tensor
    cache: fx.Tensor
    table: fx.Tensor
    unit: fx.Tensor
    parts: fx.Tensor
    sums: fx.Tensor
    scale: fx.Float32


@dataclass(frozen=True, slots=True)
class Place:
    """Where a thread is and what its workgroup works on.

    Attributes:
        a: The kernel's arguments.
        plan: The compile-time part.
        kind: Type of the operands.
        thread: Number in the workgroup.
        row: The lane's row of an operand.
        part: Which part of the k of an operand the lane has.
        number: Number of the lane's row in the sequence.
        group: Number of the wave's group, which has the same rows.
        member: Number of the wave in its group.
        table: Pointer to the sequence's pages.
        length: Keys of the sequence.
        tokens: Pointer to the step's tokens in LDS.
        shares: Pointer to shares of scores in LDS, or None.
        scale: Factor of the scores, times log2(e).
    """

    a: Any
    plan: LatentPlan
    kind: Any
    thread: Any
    row: Any
    part: Any
    number: Any
    group: Any
    member: Any
    table: Any
    length: Any
    tokens: Any
    shares: Any
    scale: Any

    @property
    def unit(self) -> Unit:
        """The matrix instruction."""
        return UNITS[self.plan.unit]


def _in_lds(place: Place, key: Any, chunk: Any) -> Any:
    """Return the pointer to one of the first eight chunks of a token in LDS.

    Chunks that differ by a multiple of eight lie as far apart as in a row.
    """
    neighbours = place.unit.group in (8, place.plan.span)
    swizzle = key % 8 if neighbours else key % 4 + key // 8 % 2 * 4
    return place.tokens + (key * _CHUNKS + (chunk ^ swizzle)) * _CHUNK


# Movement of tokens


def _spread(plan: LatentPlan) -> tuple[int, int, int]:
    """Return (threads that share a token, tokens moved at once, times that this is done)."""
    share = max(8, plan.threads // plan.step)
    at_once = plan.threads // share
    return share, at_once, plan.step // at_once


def _token_starts(place: Place, first: Any, keys: list[Any]) -> list[Any]:
    """Return pointers to tokens of the step that starts at key `first`, a multiple of steps.

    Past the last token of the sequence the last one's page is read, where memory is.
    """
    a, page = place.a, place.plan.problem.page
    last = fx.max(place.length - 1, 0) // page
    if page % place.plan.step == 0:
        number = fx.rocdl.read_first_lane((place.table + fx.min(first // page, last)).load())
        number = known_page(number, a.cache)
        start = a.cache.iter + number.to(fx.Int64) * a.cache.stride[0]
        start = start + (first % page).to(fx.Int64) * a.cache.stride[1]
        return [start + key.to(fx.Int64) * a.cache.stride[1] for key in keys]
    starts = []
    for key in keys:
        token = first + key
        number = known_page((place.table + fx.min(token // page, last)).load(), a.cache)
        start = a.cache.iter + number.to(fx.Int64) * a.cache.stride[0]
        starts.append(start + (token % page).to(fx.Int64) * a.cache.stride[1])
    return starts


def _width(place: Place) -> int:
    """Return how many elements of values a thread loads at once: 16 bytes, or fewer for all."""
    share, _, _ = _spread(place.plan)
    return min(128 // int(place.a.cache.dtype.width), LATENT // share)


@flyc.jit
def load_tokens(place: Place, first: Any) -> Any:
    """Load what the thread moves of a step, in the cache's type: of values, then rotated ones."""
    element, plan = place.a.cache.dtype, place.plan
    width = _width(place)
    vector, narrow = vector_alias(element, (width,)), vector_alias(element, (_CHUNK,))
    share, at_once, turns = _spread(plan)
    keys = [place.thread // share + turn * at_once for turn in range(turns)]
    column = place.thread % share * width
    values = [
        (start + column + turn * share * width).load(vector)
        for start in _token_starts(place, first, keys)
        for turn in range(LATENT // (share * width))
    ]
    keys = [place.thread // 8 + turn * (plan.threads // 8) for turn in range(turns)]
    column = LATENT + place.thread % 8 * _CHUNK
    if fx.const_expr(share == 8):
        rotated = [(x + column).load(narrow) for x in _token_starts(place, first, keys)]
    else:
        rotated = [fx.Vector.filled((_CHUNK,), element(0), element)]
        if fx.rocdl.read_first_lane(place.thread // (8 * plan.step)) == 0:
            rotated = [(x + column).load(narrow) for x in _token_starts(place, first, keys)]
    return values, rotated


def _store_chunks(place: Place, start: Any, value: Any, there: Any) -> None:
    """Store loaded elements to LDS in the type of the products, or zeros."""
    whole = exact16(kept_words(value, there), place.kind)
    for first in range(0, whole.numel, _CHUNK):
        part = whole if whole.numel == _CHUNK else whole.shuffle(whole, range(first, first + 8))
        (start[first // _CHUNK]).store(part)


@flyc.jit
def store_tokens(place: Place, share: Any, first: Any) -> None:
    """Put what was loaded into LDS; tokens past the sequence become zero."""
    (values, rotated), plan = share, place.plan
    threads, at_once, turns = _spread(plan)
    chunks = _width(place) // _CHUNK
    per_key = len(values) // turns
    for turn in fx.range_constexpr(turns):
        key = place.thread // threads + turn * at_once
        there = first + key < place.length
        # Chunks of the first eight threads, and how far those of the others are away.
        inside = place.thread % threads * chunks
        starts = [
            _in_lds(place, key, inside % 8 + chunk) + inside // 8 * (8 * _CHUNK)
            for chunk in range(chunks)
        ]
        for index in fx.range_constexpr(per_key):
            away = index * threads * chunks * _CHUNK
            value = values[turn * per_key + index]
            _store_chunks(place, [start + away for start in starts], value, there)
    if fx.rocdl.read_first_lane(place.thread // (8 * plan.step)) == 0:
        for turn, value in enumerate(rotated):
            key = place.thread // 8 + turn * (plan.threads // 8)
            start = _in_lds(place, key, place.thread % 8) + LATENT
            _store_chunks(place, [start], value, first + key < place.length)


# A step


@dataclass(frozen=True, slots=True)
class Queries:
    """Operands of the rows of a wave, of its share of the elements.

    Attributes:
        place: The thread's place.
        kept: Those in registers, the first ones.
        shared: Pointer to the others in LDS, or None.
    """

    place: Place
    kept: list[Any]
    shared: Any

    def within(self, first: Any) -> Queries:
        """Return the same for one step.

        Args:
            first: First key of the step, which is not negative. Compilers do not know that, and
                load what is in LDS in every step instead of keeping it in registers.
        """
        if self.shared is None:
            return self
        return Queries(self.place, self.kept, self.shared + (first >> 31))

    def operand(self, piece: int) -> Any:
        """Return an operand."""
        own = self.place.unit.own
        if piece < len(self.kept):
            found = self.kept[piece]
        else:
            start = self.shared + (piece - len(self.kept)) * (self.place.unit.lanes * own)
            found = start.load(vector_alias(self.place.kind, (own,)))
        return joined(found, self.place.unit, self.place.part)


def _own_scores(place: Place, queries: Queries) -> list[Any]:
    """Return the wave's share of the scores, a vector per block of keys."""
    plan, unit = place.plan, place.unit
    holder, register = unit.holder(place.row)
    chunks = unit.own // _CHUNK
    blocks = plan.span // unit.registers // plan.by_keys
    sums = [fx.Vector.filled((unit.registers,), 0.0, fx.Float32)] * blocks
    starts: dict[Any, Any] = {}
    for piece in range(plan.pieces):
        query = queries.operand(piece)
        out: list[Any] = []
        for block, total in enumerate(sums):
            number = block if plan.by_keys == 1 else place.member // plan.depth
            key = holder * plan.span + unit.registers * number + register
            places = []
            for chunk in range(chunks):
                for part in range(unit.parts) if unit.copies else [place.part]:
                    high, low = divmod(piece * plan.depth * unit.parts * chunks + chunk, 8)
                    known = (block, low, part if unit.copies else 0)
                    if known not in starts:
                        inside = (place.member % plan.depth * unit.parts + part) * chunks
                        starts[known] = _in_lds(place, key, inside + low)
                    places.append(starts[known] + high * 8 * _CHUNK)
            out.append(unit.multiply(load_pieces(places, place.kind), query, total))
        sums = out
    return sums


def _all_scores(place: Place, own: list[Any]) -> list[Any]:
    """Return the lane's scores, of which waves of a group have shares."""
    plan, unit = place.plan, place.unit
    if plan.split > 1:
        vector = vector_alias(fx.Float32, (unit.registers,))
        lane = (place.part * 16 + place.row) * unit.registers
        start = place.shares + place.group * (plan.split * _BLOCK) + lane
        (start + place.member * _BLOCK).store(own[0])
        fx.gpu.barrier()
        shares = [(start + member * _BLOCK).load(vector) for member in range(plan.split)]
        own = []
        for block in range(plan.by_keys):
            total, *others = shares[block * plan.depth : (block + 1) * plan.depth]
            for other in others:
                total = total + other
            own.append(total)
    return [x for total in own for x in total * place.scale]


def _weigh(place: Place, weights: Any, parts: list[Any]) -> list[Any]:
    """Return parts + Vᵀ Pᵀ of the step in LDS, of the wave's elements."""
    plan, unit = place.plan, place.unit
    vector = vector_alias(place.kind, (_CHUNK,))
    out: list[Any] = []
    keys = [place.part * plan.span + key for key in range(plan.span)]
    away = place.member * (plan.groups * 16 * _CHUNK) if plan.split > 1 else 0
    # Of sixteen chunks, the upper eight are not swizzled into the lower ones.
    upper = place.row // 8 * (8 * _CHUNK) + away
    starts = [_in_lds(place, key, place.row % 8) + upper for key in keys]
    for group in range(plan.groups):
        rows = [(start + group * 16 * _CHUNK).load(vector) for start in starts]
        for element in range(_CHUNK):
            turned = fx.Vector.from_elements([row[element] for row in rows])
            operand = joined(turned, unit, place.part)
            out.append(unit.multiply(operand, weights, parts[group * _CHUNK + element]))
    return out


def step(place: Place, queries: Queries, carried: tuple[Any, Any], first: Any) -> Any:
    """Return (state, flag) after the step in LDS, which starts at key `first`.

    Args:
        place: The thread's place.
        queries: Operands of the rows.
        carried: Reference and sum of the lane's row, and the blocks of the result; and whether
            values were cleaned.
        first: First key of the step.
    """
    (state, flag), plan, unit = carried, place.plan, place.unit
    scores = _all_scores(place, _own_scores(place, queries.within(first)))
    if plan.uneven:
        flag = clean_tokens(place, first, flag)
    lost = fx.Float32(float("-inf"))
    keys = [first + place.part * plan.span + key for key in range(plan.span)]
    query = fx.min(place.number, plan.rows - 1) // plan.problem.heads
    at = place.length - plan.problem.queries + query
    scores = [fx.arith.select(key <= at, x, lost) for key, x in zip(keys, scores, strict=True)]
    reference, total, parts = raised_rows(state, largest_of(scores), unit)
    weights = [fx.math.exp2(x - reference) for x in scores]
    for weight in weights:
        total = total + weight
    narrow = fx.Vector.from_elements(weights).to(place.kind)
    parts = _weigh(place, joined(narrow, unit, place.part), parts)
    return (reference, total, parts), flag


@flyc.jit
def passes(place: Place, queries: Queries, carried: Any, span: tuple[Any, Any]) -> Any:
    """Return (state, flag) after the keys of the span, the next ones loaded meanwhile."""
    begin, end = span
    size = place.plan.step
    share = load_tokens(place, begin)
    for first in range(begin, end, size):
        fx.gpu.barrier()
        store_tokens(place, share, first)
        fx.gpu.barrier()
        after = first + size
        share = load_tokens(place, fx.arith.select(after < end, after, first))
        carried = step(place, queries, carried, first)
    return carried


def load_rows(place: Place, sequence: Any, shared: Any, wave: Any) -> Queries:
    """Return the operands of the lane's row, of the wave's share of the elements.

    Args:
        place: The thread's place.
        sequence: Number of the sequence.
        shared: Allocator of LDS.
        wave: Number of the wave.
    """
    q, plan, unit = place.a.q, place.plan, place.unit
    vector = vector_alias(q.dtype, (_CHUNK,))
    chunks = unit.own // _CHUNK
    known = fx.min(place.number, plan.rows - 1)
    query, head = known // plan.problem.heads, known % plan.problem.heads
    start = (
        q.iter
        + sequence.to(fx.Int64) * q.stride[0]
        + query.to(fx.Int64) * q.stride[1]
        + head.to(fx.Int64) * q.stride[2]
    )
    inside = (place.member % plan.depth * unit.parts + place.part) * chunks
    loaded = []
    for piece in range(plan.pieces):
        for chunk in range(chunks):
            column = (piece * plan.depth * unit.parts * chunks + inside + chunk) * _CHUNK
            loaded.append(exact16((start + column).load(vector), place.kind))
    whole, memory = grouped(loaded, unit), None
    if plan.resident < plan.pieces:
        # A lane reads only what it has written.
        each = unit.lanes * unit.own
        count = plan.pieces - plan.resident
        memory = shared.allocate(ArrayType(place.kind, plan.waves * count * each)).ptr
        memory = memory + (wave * count * each + (place.part * 16 + place.row) * unit.own)
        for number, operand in enumerate(whole[plan.resident :]):
            (memory + number * each).store(operand)
    return Queries(place, whole[: plan.resident], memory)


@flyc.jit
def finish(place: Place, state: Any, slot: Any) -> None:
    """Write the rows of a part."""
    a, plan, unit = place.a, place.plan, place.unit
    reference, total, parts = state
    whole = rows_sum(total, unit)
    if place.number < plan.rows:
        target = (
            a.parts.iter
            + slot.to(fx.Int64) * a.parts.stride[0]
            + place.number.to(fx.Int64) * a.parts.stride[2]
            + place.member * (LATENT // plan.split)
        )
        for group in fx.range_constexpr(plan.groups):
            mine = parts[group * _CHUNK : (group + 1) * _CHUNK]
            for register in fx.range_constexpr(unit.registers):
                own = place.part * unit.group + unit.row(register)
                values = fx.Vector.from_elements([part[register] for part in mine])
                (target + (own + 16 * group) * _CHUNK).store(values)
        if (place.part == 0) & (place.member == 0):
            start = a.sums.iter + slot.to(fx.Int64) * a.sums.stride[1] + place.number.to(fx.Int64)
            start.store(reference)
            (start + fx.Int64(a.sums.stride[0])).store(whole)


@flyc.kernel
def latent_kernel(
    a: LatentArguments, work: Work, plan: fx.Constexpr[LatentPlan], kind: fx.Constexpr[object]
) -> None:
    """Compute one part of the keys of a sequence."""
    slot = fx.block_idx.x
    if slot < part_count(work):
        sequence, number, size, length = own_part(work, slot)
        unit, thread = UNITS[plan.unit], fx.thread_idx.x
        wave, lane = fx.rocdl.read_first_lane(thread // unit.lanes), thread % unit.lanes
        group, member = wave // plan.split, wave % plan.split
        row = fx.block_idx.y * plan.block_rows + group * 16 + lane % 16
        shared, shares = fx.SharedAllocator(), None
        tokens = shared.allocate(ArrayType(kind, plan.step * MLA_WIDTH)).ptr
        if fx.const_expr(plan.split > 1):
            shares = shared.allocate(ArrayType(fx.Float32, plan.waves * _BLOCK)).ptr
        place = Place(
            a, plan, kind, thread, lane % 16, lane // 16, row, group, member,
            a.table.iter + sequence.to(fx.Int64) * a.table.stride[0], length, tokens, shares,
            a.scale * fx.rocdl.read_first_lane(a.unit[0]),
        )  # fmt: skip
        queries = load_rows(place, sequence, shared, wave)
        zero = fx.Vector.filled((unit.registers,), 0.0, fx.Float32)
        tiles = LATENT // 16 // plan.split
        state = (fx.Float32(LEAST), fx.Float32(0.0), [zero] * tiles)
        start = number * size
        span = (start, fx.min(start + size, length))
        state, flag = passes(place, queries, (state, fx.Int32(0)), span)
        finish(place, state, slot)
        if fx.const_expr(plan.uneven):  # noqa: SIM102  (decided while tracing)
            if any_wave(tokens, flag, wave, plan.waves) != 0:
                mend_rows(place, slot, span)


@flyc.jit
def launch_latent(
    a: LatentArguments, work: Work, problem: fx.Constexpr[LatentProblem], stream: fx.Stream
) -> None:
    """Launch a workgroup for each part and share of its rows."""
    plan = select_latent(problem, amd_facts("mla_decode"))
    latent_kernel(a, work, plan, KINDS[problem.kind]).launch(
        grid=(work.items.shape[0], plan.blocks), block=(plan.threads,), stream=stream
    )
