"""The forward kernel: softmax(scale Q Kᵀ) V for a block of queries per workgroup."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.attention.device.arguments import FlashArguments
from flydsl_kernels.attention.device.block import own_block, own_lane
from flydsl_kernels.attention.device.matrix import ELEMENTS, PIECE, UNITS
from flydsl_kernels.attention.device.nonfinite import any_wave, mend, odd_part, without_odd
from flydsl_kernels.attention.device.rows import buffer_rows, head_rows, within
from flydsl_kernels.attention.device.scores import (
    adjusted,
    head_scale,
    own_rows,
    uneven_spans,
    visible,
)
from flydsl_kernels.attention.device.softmax import (
    LEAST,
    across_halves,
    exponentials,
    largest_of,
    power,
    raised,
)
from flydsl_kernels.attention.device.streams import (
    first_cursor,
    key_loads,
    own_streams,
    read_keys,
    value_loads,
)
from flydsl_kernels.attention.device.tiles import own_tiles
from flydsl_kernels.attention.device.weave import first_operands, part_values, woven
from flydsl_kernels.attention.problem import FlashProblem
from flydsl_kernels.attention.selection import CUT, FlashPlan, select_flash
from flydsl_rocdl.expr.access import amd_facts

__all__ = ["launch_flash"]

_LN_2 = math.log(2.0)


def load_rows(tiles: Any, tensor: Any, width: int) -> list[list[Any]]:
    """Return the operands of the lane's own rows: per block of rows, the pieces of a row.

    Args:
        tiles: The tiles.
        tensor: q, or what has its rows and heads.
        width: Elements of a row.
    """
    plan, lane, block = tiles.plan, tiles.lane, tiles.block
    unit, element = UNITS[plan.unit], ELEMENTS[plan.element]
    wide = plan.wide_qk if width == plan.d_qk else plan.wide_v
    source = head_rows(tensor, block.batch, block.base_q, block.head, width)
    rows = plan.waves * plan.columns * unit.rows
    buffer = buffer_rows(source, block.first, fx.min(block.length_q - block.first, rows))
    stride, out = source.stride.to(fx.Int32), []
    vector = vector_alias(element, (8,))
    for column in fx.range_constexpr(plan.columns):
        row = (lane.wave * plan.columns + column) * unit.rows + lane.column
        pieces = []
        for piece in fx.range_constexpr(wide // PIECE):
            parts = []
            for part in fx.range_constexpr(unit.chunks):
                chunk = 2 * piece + (part if unit.copies else lane.half)
                offset = row * stride + chunk * 8
                if wide != width:
                    offset = within(chunk < width // 8, offset)
                parts.append((buffer + offset).load(vector))
            pieces.append(parts[0] if len(parts) == 1 else parts[0].shuffle(parts[1], range(16)))
        out.append(pieces)
    return out


def scores_of(
    tiles: Any, queries: list[list[Any]], read: Any = None, keys: int | None = None
) -> list[list[Any]]:
    """Return K Qᵀ of the tile in LDS: per block of queries, the blocks of keys.

    Args:
        tiles: The tiles.
        queries: Operands of the queries.
        read: Reads an operand; default `Tiles.key_piece`.
        keys: How many keys from the tile's first on; default all.
    """
    read = read or tiles.key_piece
    plan, unit = tiles.plan, UNITS[tiles.plan.unit]
    zero = fx.Vector.filled((unit.registers,), 0.0, fx.Float32)
    out: list[list[Any]] = [[] for _ in queries]
    for row in fx.range_constexpr(0, keys or plan.tile, unit.rows):
        sums = [zero] * len(queries)
        for piece in fx.range_constexpr(plan.wide_qk // PIECE):
            keys = read(row, piece)
            sums = [
                unit.multiply(keys, mine[piece], total)
                for mine, total in zip(queries, sums, strict=True)
            ]
        for found, total in zip(out, sums, strict=True):
            found.append(total)
    return out


def weigh(tiles: Any, weights: list[list[Any]], parts: list[list[Any]]) -> list[list[Any]]:
    """Return parts + Vᵀ Pᵀ of the tile in LDS.

    Args:
        tiles: The tile.
        weights: Per block of queries, the operands of the tile's pieces.
        parts: Per block of queries, the blocks of the result.
    """
    plan, unit = tiles.plan, UNITS[tiles.plan.unit]
    parts = [list(mine) for mine in parts]
    for piece in fx.range_constexpr(plan.tile // PIECE):
        for number, row in enumerate(fx.range_constexpr(0, plan.wide_v, unit.rows)):
            values = tiles.value_piece(row, piece)
            for mine, own in zip(weights, parts, strict=True):
                own[number] = unit.multiply(values, mine[piece], own[number])
    return parts


def seen_scores(
    tiles: Any, scores: list[list[Any]], first: Any, rows: list[Any], masked: bool
) -> tuple[list[list[Any]], Any]:
    """Return (scores as the softmax takes them, their factor) of a tile.

    Args:
        tiles: The tiles.
        scores: K Qᵀ of the tile, or of a part of it.
        first: First key.
        rows: The lane's rows.
        masked: Whether some rows do not see all of the tile.
    """
    plan, unit = tiles.plan, UNITS[tiles.plan.unit]
    scale = head_scale(tiles.a, plan, tiles.block)
    starts = range(0, len(scores[0]) * unit.rows, unit.rows)
    keys = [first + start + tiles.lane.half * unit.group for start in starts]
    if plan.bias or plan.alibi:
        scores = [
            [adjusted(tiles, x, key, row, scale) for x, key in zip(mine, keys, strict=True)]
            for mine, row in zip(scores, rows, strict=True)
        ]
        scale = fx.Float32(1.0)
    if masked:
        scores = [
            [visible(tiles, x, key, row) for x, key in zip(mine, keys, strict=True)]
            for mine, row in zip(scores, rows, strict=True)
        ]
    return scores, scale


def tops_of(scores: list[list[Any]]) -> list[Any]:
    """Return the maximum of the lane's scores per block of rows."""
    return [largest_of([x for block in mine for x in block]) for mine in scores]


def accumulate(tiles: Any, state: list[Any], scores: tuple[Any, Any]) -> list[Any]:
    """Return the state after a tile whose values are in LDS.

    Args:
        tiles: The tiles.
        state: As in `raised`, with references raised for these scores.
        scores: Scores of the tile, and their factor.
    """
    found, scale = scores
    made = [
        exponentials(mine, column[0], scale, tiles)
        for mine, column in zip(found, state, strict=True)
    ]
    parts = weigh(tiles, [pieces for _, pieces in made], [column[2] for column in state])
    return [
        (column[0], column[1] + total, part)
        for column, (total, _), part in zip(state, made, parts, strict=True)
    ]


@flyc.jit
def passes(
    tiles: Any, queries: Any, carried: tuple[Any, Any, Any], span: Any, rows: list[Any],
    masked: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return (state, share, flag) after the tiles from span[0] to span[1].

    The tile at the start is in the registers `share`; that at the end will be. The flag says
    whether values of the wave's share were cleaned.
    """
    state, share, flag = carried
    plan = tiles.plan
    for first in range(span[0], span[1], plan.tile):
        fx.rocdl.lds_barrier()
        if fx.const_expr(masked and plan.uneven):
            flag = tiles.store(share, flag)
        else:
            tiles.store(share)
        fx.rocdl.lds_barrier()
        share = tiles.load(first + plan.tile, first + plan.tile)
        found, scale = seen_scores(tiles, scores_of(tiles, queries), first, rows, masked)
        state = raised(state, tops_of(found), scale, plan)
        state = accumulate(tiles, state, (found, scale))
    return state, share, flag


@flyc.jit
def clean_part(tiles: Any, values: list[Any], cursor: Any, half: int, flag: Any) -> Any:
    """Return (operands of the values of a part without what is not finite, 1 if there was any).

    All waves have the same operands. Matrix instructions look at them: operands that no vector
    instruction takes can be in accumulation registers, here and in the other loops.

    Args:
        tiles: The tiles.
        values: The operands.
        cursor: The cursor of the tile.
        half: Which part of it.
        flag: What is returned if there is nothing.
    """
    plan, unit = tiles.plan, UNITS[tiles.plan.unit]
    nothing = fx.Vector.filled((8,), 0.0, ELEMENTS[plan.element])
    found = fx.Vector.filled((unit.registers,), 0.0, fx.Float32)
    for operand in values:
        found = unit.multiply(operand, nothing, found)
    total = found.reduce("add")
    if fx.rocdl.ballot(fx.Int64, total != total) != 0:  # noqa: PLR0124  (NaN)
        values, flag = without_odd(part_values(tiles, cursor, half), plan.element), fx.Int32(1)
        # The second part's values make room for later ones.
        fx.rocdl.lds_barrier()
    return values, flag


def pass_ahead(
    tiles: Any, queries: Any, carried: tuple[Any, Any, Any], first: Any, rows: list[Any],
    masked: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return what `first_scores` does after the tile that starts at key `first`."""
    (state, scores, tops, operands), cursor, flag = carried
    plan, unit = tiles.plan, UNITS[tiles.plan.unit]
    for half in fx.range_constexpr(2):
        fx.rocdl.pipeline().wait(1)
        fx.rocdl.sched_barrier()
        found, scale = seen_scores(tiles, scores, first + half * unit.rows, rows, masked)
        if masked or plan.bias or plan.alibi:
            tops = tops_of(found)
        state = raised(state, tops, scale, plan)
        if masked and plan.uneven:
            values, flag = clean_part(tiles, operands[1], cursor, half, flag)
            operands = (operands[0], values)
        place = (first, cursor, half, operands)
        state, scores, tops, operands = woven(tiles, state, (found, scale), queries, place)
    return (state, scores, tops, operands), cursor.moved(tiles), flag


@flyc.jit
def passes_ahead(
    tiles: Any, queries: Any, carried: tuple[Any, Any, Any], span: Any, rows: list[Any],
    masked: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return what `first_scores` does after the tiles from span[0] to span[1].

    The scores of the next half of a tile are made beside the softmax of the one before. Loads into
    LDS are a tile ahead of their use. Two tiles make an iteration, so that buffers in LDS have
    fixed places in it.
    """
    start, tile = span[0], tiles.plan.tile
    if fx.const_expr(not masked):
        start = span[0] + (span[1] - span[0]) // (2 * tile) * (2 * tile)
        for first in range(span[0], start, 2 * tile):
            carried = pass_ahead(tiles, queries, carried, first, rows, masked)
            carried = pass_ahead(tiles, queries, carried, first + tile, rows, masked)
    for first in range(start, span[1], tile):
        carried = pass_ahead(tiles, queries, carried, first, rows, masked)
    return carried


@flyc.jit
def first_scores(tiles: Any, queries: Any, state: list[Any]) -> tuple[Any, Any, Any]:
    """Return what `passes_ahead` carries before the first tile.

    That is ((state proper, scores of its first half, their maxima, operands), cursor, flag). The
    flag says whether values among the operands were cleaned.
    """
    begin, pipe, plan = tiles.block.begin, fx.rocdl.pipeline(), tiles.plan
    cursor = first_cursor(tiles)
    turn, other, then = cursor.turn, 1 - cursor.turn, begin + plan.tile
    stages = [
        [*key_loads(tiles, begin, turn), *value_loads(tiles, begin, turn)],
        key_loads(tiles, then, other),
        value_loads(tiles, then, other),
    ]
    for stage in stages:
        for load in stage:
            load()
        pipe.commit()
    pipe.wait(2)
    rows = UNITS[plan.unit].rows
    scores = scores_of(tiles, queries, lambda row, piece: read_keys(tiles, turn, row, piece), rows)
    operands = first_operands(tiles, cursor)
    return (state, scores, tops_of(scores), operands), cursor, fx.Int32(0)


@flyc.jit
def finish(tiles: Any, row: Any, state: Any) -> None:
    """Write a row of the result, and the logarithm of its sum."""
    a, plan, unit, block = tiles.a, tiles.plan, UNITS[tiles.plan.unit], tiles.block
    reference, total, parts = state
    totals = [total[at] + total[at + 1] for at in range(0, plan.sums, 2)]
    totals = [mine + across_halves(mine, unit) for mine in totals]
    if fx.const_expr(plan.sink):
        own = fx.rocdl.read_first_lane(a.sink[block.head].to(fx.Float32)) * (1.0 / _LN_2)
        grown = fx.maxnumf(reference, own)
        factor = power(reference - grown)
        totals = [mine * factor + power(own - grown) for mine in totals]
        parts, reference = [part * factor for part in parts], grown
    nothing = totals[0] == 0.0
    factor = fx.Float32(CUT if plan.cut else 1.0) / totals[0]
    factor = fx.arith.select(nothing, fx.Float32(0.0), factor)
    if fx.const_expr(plan.byte):
        factor = factor * a.scale_v[block.sequence, block.kv_head]
    target = head_rows(a.o, block.out, block.base_q, block.head, plan.d_v)
    if row.number < block.length_q:
        start = target.start + row.number.to(fx.Int64) * target.stride
        store_row(tiles, start, [part * factor for part in parts], plan.d_v)
        if fx.const_expr(plan.lse):
            value = (reference + fx.math.log2(totals[-1])) * _LN_2
            value = fx.arith.select(nothing, fx.Float32(float("-inf")), value)
            place = (
                block.out.to(fx.Int64) * a.lse.stride[0]
                + block.head.to(fx.Int64) * a.lse.stride[1]
                + (block.base_q + row.number).to(fx.Int64) * a.lse.stride[2]
            )
            (a.lse.iter + place).store(value)


@flyc.jit
def store_row(tiles: Any, start: Any, parts: list[Any], width: int) -> None:
    """Store the lane's elements of a row of `width` elements, rounded to the result's type."""
    unit = UNITS[tiles.plan.unit]
    for number, part in enumerate(parts):
        scaled = part.to(start.element)
        for register in fx.range_constexpr(0, unit.registers, unit.group):
            element = number * unit.rows + unit.row(register)
            place = element + tiles.lane.half * unit.group
            piece = scaled.shuffle(scaled, range(register, register + unit.group))
            if fx.const_expr(element + 2 * unit.group <= width) or place < width:
                (start + place).store(piece)


@flyc.jit
def mend_rows(tiles: Any, flag: Any) -> None:
    """Add what rows see of values that are not finite in tiles which some rows see in part.

    The lane has written its rows. Nothing is kept for this in registers of the loops: it is rare.

    Args:
        tiles: The tiles.
        flag: Whether values that the wave has taken, or its share of those, were cleaned.
    """
    a, plan, unit = tiles.a, tiles.plan, UNITS[tiles.plan.unit]
    if fx.const_expr(not plan.ahead):
        flag = any_wave(tiles.lds_v, flag, tiles.lane.wave, plan.waves)
    if flag != 0:
        lane = fx.rocdl.lane_id()
        place = replace(tiles.lane, column=lane % unit.rows, half=lane // unit.rows)
        tiles = replace(tiles, lane=place)
        block = tiles.block
        target = head_rows(a.o, block.out, block.base_q, block.head, plan.d_v)
        for row in own_rows(tiles):
            if row.number < block.length_q:
                mend(
                    uneven_spans(tiles, row),
                    (tiles.lane.half * unit.group, plan.d_v, 2 * unit.group, unit.group),
                    lambda key, element: odd_part(tiles.value_at(key, element), plan.element),
                    target.start + row.number.to(fx.Int64) * target.stride,
                )


@flyc.kernel
def flash_kernel(a: FlashArguments, blocks: fx.Int32, plan: fx.Constexpr[FlashPlan]) -> None:
    """O = softmax(scale Q Kᵀ) V for the rows of a workgroup."""
    unit = UNITS[plan.unit]
    lane, block = own_lane(unit), own_block(a, blocks, plan)
    if block.first < block.length_q:
        tiles = (own_streams if plan.ahead else own_tiles)(a, plan, lane, block)
        queries, rows = load_rows(tiles, a.q, plan.d_qk), own_rows(tiles)
        zero = fx.Vector.filled((unit.registers,), 0.0, fx.Float32)
        state = [
            (
                fx.Float32(LEAST),
                fx.Vector.filled((plan.sums,), 0.0, fx.Float32),
                [zero] * (plan.wide_v // unit.rows),
            )
            for _ in rows
        ]
        if fx.const_expr(plan.ahead):
            run, carried = passes_ahead, first_scores(tiles, queries, state)
        else:
            share = tiles.load(block.begin, block.begin)
            run, carried = passes, (state, share, fx.Int32(0))
        if fx.const_expr(plan.left):
            span = (block.begin, block.whole_begin)
            carried = run(tiles, queries, carried, span, rows, True)
        # Not known to be related to the end: LLVM would join the loops in a way that takes copies.
        middle = fx.rocdl.read_first_lane(block.whole_end)
        carried = run(tiles, queries, carried, (block.whole_begin, middle), rows, False)
        span = (middle, block.end)
        carried = run(tiles, queries, carried, span, rows, True)
        state = carried[0][0] if fx.const_expr(plan.ahead) else carried[0]
        for row, found in zip(rows, state, strict=True):
            finish(tiles, row, found)
        if fx.const_expr(plan.uneven):
            mend_rows(tiles, carried[-1])


@flyc.jit
def launch_flash(
    a: FlashArguments, problem: fx.Constexpr[FlashProblem], longest: fx.Int32, stream: fx.Stream
) -> None:
    """Launch a workgroup per block of queries, head, sequence and part of the keys.

    The architecture that is compiled for decides how many queries a block has.
    """
    plan = select_flash(problem, amd_facts("flash_attention"))
    unit = UNITS[plan.unit]
    rows = plan.waves * plan.columns * unit.rows
    blocks = (longest + (rows - 1)) // rows
    groups = blocks * a.q.shape[2] * a.sequences * plan.splits
    flash_kernel(a, blocks, plan).launch(
        grid=(groups,), block=(plan.waves * unit.lanes,), stream=stream
    )
