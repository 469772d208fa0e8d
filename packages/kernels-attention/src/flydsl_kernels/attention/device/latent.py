"""Decoding of multi-head latent attention: a part of the keys of a sequence, for many heads.

All heads share keys and values, which are the same memory: a step of 32 tokens goes to LDS once, in
the type of the products, and every wave takes both operands from there for rows of its own.

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
    LATENT_STEP,
    MLA_WIDTH,
    LatentPlan,
    LatentProblem,
    select_latent,
)
from flydsl_kernels.attention.device.caches import known_page
from flydsl_kernels.attention.device.decode import KINDS, raised_rows, rows_sum
from flydsl_kernels.attention.device.decode_keys import exact16
from flydsl_kernels.attention.device.decode_work import Work, own_part, part_count
from flydsl_kernels.attention.device.matrix import UNITS
from flydsl_kernels.attention.device.softmax import LEAST, largest_of
from flydsl_rocdl.expr.access import amd_facts

__all__ = ["LatentArguments", "launch_latent"]

_LANES = 64
_CHUNK = 8
_CHUNKS = MLA_WIDTH // _CHUNK
_SPAN = 8
"""Neighbouring keys of a step that a lane has weights of."""


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
        quarter: Which quarter of the k of an operand the lane has.
        rows: Per block of rows, the number of the lane's row in the sequence.
        table: Pointer to the sequence's pages.
        length: Keys of the sequence.
        tokens: Pointer to the step's tokens in LDS.
        scale: Factor of the scores, times log2(e).
    """

    a: Any
    plan: LatentPlan
    kind: Any
    thread: Any
    row: Any
    quarter: Any
    rows: list[Any]
    table: Any
    length: Any
    tokens: Any
    scale: Any


def _in_lds(place: Place, key: Any, chunk: Any) -> Any:
    """Return the pointer to one of the first eight chunks of a token in LDS.

    Chunks that differ by a multiple of eight lie as far apart as in a row.
    """
    swizzle = key % 4 + key // 8 % 2 * 4
    return place.tokens + (key * _CHUNKS + (chunk ^ swizzle)) * _CHUNK


def _own_keys(place: Place) -> tuple[list[Any], Any]:
    """Return the keys of which the thread moves chunks, and which of each eight chunks."""
    keys = place.plan.waves * _LANES // 8
    first = place.thread // 8
    return [first + turn * keys for turn in range(LATENT_STEP // keys)], place.thread % 8


def load_tokens(place: Place, first: Any) -> list[Any]:
    """Load what the thread moves of a step, in the cache's type; `first` is a multiple of steps.

    Past the last token of the sequence the last one's page is read, where memory is.
    """
    a, page = place.a, place.plan.problem.page
    vector = vector_alias(a.cache.dtype, (_CHUNK,))
    last = fx.max(place.length - 1, 0) // page
    keys, chunk = _own_keys(place)
    starts = []
    if page % LATENT_STEP == 0:
        number = fx.rocdl.read_first_lane((place.table + fx.min(first // page, last)).load())
        number = known_page(number, a.cache)
        start = a.cache.iter + number.to(fx.Int64) * a.cache.stride[0]
        start = start + (first % page).to(fx.Int64) * a.cache.stride[1]
        starts = [start + key.to(fx.Int64) * a.cache.stride[1] for key in keys]
    else:
        for key in keys:
            token = first + key
            number = known_page((place.table + fx.min(token // page, last)).load(), a.cache)
            start = a.cache.iter + number.to(fx.Int64) * a.cache.stride[0]
            starts.append(start + (token % page).to(fx.Int64) * a.cache.stride[1])
    return [
        (start + chunk * _CHUNK + turn * 8 * _CHUNK).load(vector)
        for start in starts
        for turn in range(_CHUNKS // 8)
    ]


def store_tokens(place: Place, share: list[Any], first: Any) -> None:
    """Put loaded chunks into LDS; those of tokens past the sequence become zero."""
    zero, turns = place.kind(0.0), _CHUNKS // 8
    keys, chunk = _own_keys(place)
    for index, key in enumerate(keys):
        there = first + key < place.length
        start = _in_lds(place, key, chunk)
        for turn, value in enumerate(share[index * turns : (index + 1) * turns]):
            items = exact16(value, place.kind)
            kept = [fx.arith.select(there, item, zero) for item in items]
            (start + turn * 8 * _CHUNK).store(fx.Vector.from_elements(kept))


def _scores(place: Place, queries: list[list[Any]]) -> list[list[Any]]:
    """Return per block of rows the lane's scores of its eight keys."""
    vector = vector_alias(place.kind, (_CHUNK,))
    unit = UNITS[place.plan.unit]
    zero = fx.Vector.filled((4,), 0.0, fx.Float32)
    out: list[list[Any]] = [[] for _ in queries]
    for block in range(LATENT_STEP // 16):
        key = place.row // 4 * _SPAN + 4 * block + place.row % 4
        starts = [_in_lds(place, key, 4 * half + place.quarter) for half in range(2)]
        sums = [zero] * len(queries)
        for piece in range(MLA_WIDTH // 32):
            turn, half = divmod(piece, 2)
            operand = (starts[half] + turn * 8 * _CHUNK).load(vector)
            sums = [
                unit.multiply(operand, mine[piece], total)
                for mine, total in zip(queries, sums, strict=True)
            ]
        for found, total in zip(out, sums, strict=True):
            found += list(total * place.scale)
    return out


def _weigh(place: Place, weights: list[Any], parts: list[list[Any]]) -> list[list[Any]]:
    """Return per block of rows parts + Vᵀ Pᵀ of the step in LDS."""
    unit = UNITS[place.plan.unit]
    vector = vector_alias(place.kind, (_CHUNK,))
    out: list[list[Any]] = [[] for _ in parts]
    keys = [place.quarter * _SPAN + key for key in range(_SPAN)]
    starts = [_in_lds(place, key, place.row) for key in keys]
    for group in range(LATENT // (16 * _CHUNK)):
        rows = [(start + group * 16 * _CHUNK).load(vector) for start in starts]
        for element in range(_CHUNK):
            operand = fx.Vector.from_elements([row[element] for row in rows])
            for found, own, weight in zip(out, parts, weights, strict=True):
                before = own[group * _CHUNK + element]
                found.append(unit.multiply(operand, weight, before))
    return out


def step(place: Place, queries: Any, state: list[Any], first: Any) -> list[Any]:
    """Return the state after the step in LDS, which starts at key `first`.

    Args:
        place: The thread's place.
        queries: Operands of the rows.
        state: Per block of rows: reference, sum, and the blocks of the result.
        first: First key of the step.
    """
    problem = place.plan.problem
    scores = _scores(place, queries)
    lost = fx.Float32(float("-inf"))
    keys = [first + place.quarter * _SPAN + key for key in range(_SPAN)]
    for mine, row in zip(scores, place.rows, strict=True):
        at = place.length - problem.queries + fx.min(row, place.plan.rows - 1) // problem.heads
        mine[:] = [fx.arith.select(key <= at, x, lost) for key, x in zip(keys, mine, strict=True)]
    unit = UNITS[place.plan.unit]
    state = [
        raised_rows(column, largest_of(mine), unit)
        for column, mine in zip(state, scores, strict=True)
    ]
    sums, weights = [], []
    for (reference, total, _), mine in zip(state, scores, strict=True):
        made = [fx.math.exp2(x - reference) for x in mine]
        for weight in made:
            total = total + weight  # noqa: PLW2901
        sums.append(total)
        weights.append(fx.Vector.from_elements(made).to(place.kind))
    parts = _weigh(place, weights, [column[2] for column in state])
    return [
        (column[0], total, part) for column, total, part in zip(state, sums, parts, strict=True)
    ]


@flyc.jit
def passes(place: Place, queries: Any, state: list[Any], span: tuple[Any, Any]) -> Any:
    """Return the state after the keys from span[0] to span[1], the next ones loaded meanwhile."""
    begin, end = span
    share = load_tokens(place, begin)
    for first in range(begin, end, LATENT_STEP):
        fx.gpu.barrier()
        store_tokens(place, share, first)
        fx.gpu.barrier()
        after = first + LATENT_STEP
        share = load_tokens(place, fx.arith.select(after < end, after, first))
        state = step(place, queries, state, first)
    return state


def load_rows(place: Place, sequence: Any) -> list[list[Any]]:
    """Return the operands of the lane's rows."""
    q, plan = place.a.q, place.plan
    vector = vector_alias(q.dtype, (_CHUNK,))
    out = []
    for row in place.rows:
        known = fx.min(row, plan.rows - 1)
        query, head = known // plan.problem.heads, known % plan.problem.heads
        start = (
            q.iter
            + sequence.to(fx.Int64) * q.stride[0]
            + query.to(fx.Int64) * q.stride[1]
            + head.to(fx.Int64) * q.stride[2]
        )
        chunks = [(4 * piece + place.quarter) * _CHUNK for piece in range(MLA_WIDTH // 32)]
        out.append([exact16((start + chunk).load(vector), place.kind) for chunk in chunks])
    return out


@flyc.jit
def finish(place: Place, state: list[Any], slot: Any) -> None:
    """Write the rows of a part."""
    a = place.a
    for row, (reference, total, parts) in zip(place.rows, state, strict=True):
        whole = rows_sum(total, UNITS[place.plan.unit])
        if row < place.plan.rows:
            target = (
                a.parts.iter
                + slot.to(fx.Int64) * a.parts.stride[0]
                + row.to(fx.Int64) * a.parts.stride[2]
            )
            for group in fx.range_constexpr(LATENT // (16 * _CHUNK)):
                mine = parts[group * _CHUNK : (group + 1) * _CHUNK]
                for index in fx.range_constexpr(4):
                    column = (place.quarter * 4 + index + 16 * group) * _CHUNK
                    values = fx.Vector.from_elements([part[index] for part in mine])
                    (target + column).store(values)
            if place.quarter == 0:
                start = a.sums.iter + slot.to(fx.Int64) * a.sums.stride[1] + row.to(fx.Int64)
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
        thread = fx.thread_idx.x
        wave, lane = fx.rocdl.read_first_lane(thread // _LANES), thread % _LANES
        base = fx.block_idx.y * plan.block_rows + wave * (plan.columns * 16)
        rows = [base + 16 * column + lane % 16 for column in range(plan.columns)]
        tokens = fx.SharedAllocator().allocate(ArrayType(kind, LATENT_STEP * MLA_WIDTH)).ptr
        place = Place(
            a, plan, kind, thread, lane % 16, lane // 16, rows,
            a.table.iter + sequence.to(fx.Int64) * a.table.stride[0], length, tokens,
            a.scale * fx.rocdl.read_first_lane(a.unit[0]),
        )  # fmt: skip
        queries = load_rows(place, sequence)
        zero = fx.Vector.filled((4,), 0.0, fx.Float32)
        state = [(fx.Float32(LEAST), fx.Float32(0.0), [zero] * (LATENT // 16)) for _ in rows]
        start = number * size
        state = passes(place, queries, state, (start, fx.min(start + size, length)))
        finish(place, state, slot)


@flyc.jit
def launch_latent(
    a: LatentArguments, work: Work, problem: fx.Constexpr[LatentProblem], stream: fx.Stream
) -> None:
    """Launch a workgroup for each part and share of its rows."""
    plan = select_latent(problem, amd_facts("mla_decode"))
    latent_kernel(a, work, plan, KINDS[problem.kind]).launch(
        grid=(work.items.shape[0], plan.blocks), block=(plan.waves * _LANES,), stream=stream
    )
