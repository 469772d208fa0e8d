"""The decoding kernel: a part of the keys of a sequence, for the queries that share a head."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.storage import ArrayType
from flydsl.expr.vector import vector_alias
from flydsl_kernels.attention.decoding import ROWS, WAVES, DecodePlan, DecodeProblem, select_decode
from flydsl_kernels.attention.device.caches import known_page, value_place
from flydsl_kernels.attention.device.decode_keys import (
    Pages,
    hidden_values,
    key_operands,
    load_keys,
    load_values,
    operands_of,
    own_values,
    value_operands,
)
from flydsl_kernels.attention.device.decode_queries import (
    Part,
    Queries,
    load_queries,
    share_queries,
)
from flydsl_kernels.attention.device.decode_work import (
    Work,
    key_range,
    own_part,
    part_count,
)
from flydsl_kernels.attention.device.matrix import UNITS, Unit
from flydsl_kernels.attention.device.nonfinite import any_wave, cleaned, mend, odd_part
from flydsl_kernels.attention.device.softmax import LEAST, largest_of
from flydsl_rocdl.expr.access import amd_facts

__all__ = ["KINDS", "DecodeArguments", "launch_decode", "raised_rows", "rows_sum"]

KINDS = {"bfloat16": fx.BFloat16, "float16": fx.Float16}
"""Numeric classes of what products take, by name."""
_LIMIT = 8.0
"""Powers of two that weights may have before the reference follows the maximum."""
_GROUP = 8
"""Blocks of a value's elements that waves add up at a time."""
_BLOCK = 256
"""Elements of a result."""


@fx.struct
class DecodeArguments(fx.Struct):
    """Arguments of the decoding kernel.

    Attributes:
        q: Queries [sequences, queries, heads, d_qk].
        keys: Cache of keys.
        values: Cache of values.
        table: Pages of each sequence, int32 [sequences, pages].
        scale_k: Units of keys, f32 [1] or [pages, heads, page].
        scale_v: Units of values likewise.
        parts: Results of the parts, f32 [parts, kv heads, rows, d_v].
        sums: Their references and sums, f32 [2, parts, kv heads, rows].
        scale: Factor of the scores, times log2(e).
        left: Keys that a query sees to the left of its own place.
    """

    q: fx.Tensor
    keys: fx.Tensor
    values: fx.Tensor
    table: fx.Tensor
    scale_k: fx.Tensor
    scale_v: fx.Tensor
    parts: fx.Tensor
    sums: fx.Tensor
    scale: fx.Float32
    left: fx.Int32


def _token_scales(part: Part, scales: Any, first: Any) -> list[Any]:
    """Load the scales of the lane's keys of a step, one after the other."""
    pages, plan = part.pages, part.pages.plan
    start, token = pages.place(scales, first, pages.quarter * plan.span, (1, 2))
    vector = vector_alias(fx.Float32, (4,))
    found = [(start + token + block).load(vector) for block in range(0, plan.span, 4)]
    return [item for block in found for item in block]


def _seen(part: Part, first: Any, row: Any, left: Any) -> list[Any]:
    """Return whether a row sees each of the lane's keys of a step."""
    plan = part.pages.plan
    problem = plan.problem
    place = part.length - problem.queries + fx.min(row, plan.rows - 1) // problem.group
    keys = [first + part.pages.quarter * plan.span + key for key in range(plan.span)]
    if not problem.window:
        return [key <= place for key in keys]
    return [(key <= place) & (key >= place - left) for key in keys]


def _within(part: Part, first: Any, left: Any) -> list[Any]:
    """Return whether any row sees each of the lane's keys of a step."""
    plan = part.pages.plan
    keys = [first + part.pages.quarter * plan.span + key for key in range(plan.span)]
    if not plan.problem.window:
        return [key < part.length for key in keys]
    low = part.length - plan.problem.queries - left
    return [(key < part.length) & (key >= low) for key in keys]


def rows_sum(total: Any, unit: Unit) -> Any:
    """Return the sum of what the lanes that have parts of a row have."""
    for distance in range(4, unit.lanes.bit_length() - 1):
        total = total + fx.gpu.shuffle_xor(total, 1 << distance)
    return total


@flyc.jit
def raised_rows(state: Any, top: Any, unit: Unit) -> Any:
    """Return the state of a block of rows with a reference that no weight exceeds by much.

    Only rows that need it get another reference, whatever the other rows see.
    """
    reference, total, parts = state
    if fx.rocdl.ballot(unit.ballot, top > reference + _LIMIT) != 0:
        for distance in range(4, unit.lanes.bit_length() - 1):
            top = fx.maxnumf(top, fx.gpu.shuffle_xor(top, 1 << distance))
        grown = fx.arith.select(top > reference + _LIMIT, top, reference)
        factor = fx.math.exp2(reference - grown)
        reference, total = grown, total * factor
        parts = [piece * factor for piece in parts]
    return reference, total, parts


def _scores(part: Part, queries: Queries, first: Any, loaded: list[Any]) -> list[list[Any]]:
    """Return per block of rows the lane's scores of its keys of a step.

    Args:
        part: The wave's part.
        queries: Operands of the rows.
        first: First key of the step.
        loaded: What was loaded of keys; nothing if they have shares.
    """
    plan, unit = part.pages.plan, UNITS[part.pages.plan.unit]
    zero = fx.Vector.filled((unit.registers,), 0.0, fx.Float32)
    sums = [[zero] * (plan.span // unit.registers) for _ in part.rows]
    number = 0
    for share in range(plan.key_shares):
        if plan.key_shares > 1:
            if share:
                fx.rocdl.sched_barrier()
            loaded = load_keys(part.pages, first, share)
        for keys in key_operands(part.pages, loaded, part.kind):
            for column, totals in enumerate(sums):
                query = queries.operand(column, number)
                totals[:] = [
                    unit.multiply(key, query, x) for key, x in zip(keys, totals, strict=True)
                ]
            number += 1
    return [[x for total in totals for x in total * part.scale] for totals in sums]


def _odd_unit(unit: Any) -> Any:
    """Return whether a unit is not finite."""
    return odd_part(unit, "float32").bitcast(fx.Int32) != 0


@flyc.jit
def _cleaned(part: Part, values: Any, units: Any, flag: Any) -> Any:
    """Return values and units with zero for what is not finite, and the flag.

    The flag becomes 1 if the wave had anything of the kind.
    """
    problem, lanes = part.pages.plan.problem, UNITS[part.pages.plan.unit].lanes
    if fx.const_expr(problem.cache != "int8" and len(values) > 0):
        values, flag = cleaned(values, problem.cache, flag, lanes)
    if fx.const_expr(len(units) > 0):
        found = [_odd_unit(unit) for unit in units]
        some = found[0]
        for other in found[1:]:
            some = some | other
        flag = fx.arith.select(fx.rocdl.ballot(UNITS[part.pages.plan.unit].ballot, some) != 0,
                               fx.Int32(1), flag)  # fmt: skip
        none = fx.Float32(0.0)
        units = [fx.arith.select(odd, none, x) for odd, x in zip(found, units, strict=True)]
    return values, units, flag


@flyc.jit
def _hidden(
    part: Part, first: Any, partly: Any, scores: Any, values: Any, units: Any, flag: Any
) -> Any:
    """Return scores, what was loaded of values, and its units without what rows do not see.

    What is not finite goes from values that some rows see; the flag then is 1, and returned too.

    Args:
        part: The wave's part.
        first: First key of the step.
        partly: Whether some rows do not see all of it.
        scores: Per block of rows the lane's scores.
        values: What was loaded of values.
        units: Units of the lane's keys, or an empty list.
        flag: The flag.
    """
    if partly:
        lost, none, left = fx.Float32(float("-inf")), fx.Float32(0.0), part.pages.a.left
        out = []
        for row, mine in zip(part.rows, scores, strict=True):
            seen = _seen(part, first, row, left)
            out.append([fx.arith.select(s, x, lost) for s, x in zip(seen, mine, strict=True)])
        scores = out
        within = _within(part, first, left)
        values = hidden_values(part.pages, values, within)
        units = [fx.arith.select(s, unit, none) for s, unit in zip(within, units, strict=False)]
        if fx.const_expr(part.pages.plan.uneven):
            values, units, flag = _cleaned(part, values, units, flag)
    return scores, values, units, flag


@flyc.jit
def _hidden_share(part: Part, first: Any, partly: Any, values: Any, flag: Any) -> Any:
    """Return a share of the values, and the flag, as `_hidden` does."""
    if partly:
        values = hidden_values(part.pages, values, _within(part, first, part.pages.a.left))
        if fx.const_expr(part.pages.plan.uneven):
            values, _, flag = _cleaned(part, values, [], flag)
    return values, flag


def step(
    part: Part, queries: Queries, carried: tuple[Any, Any], loaded: Any, first: Any, partly: Any
) -> tuple[Any, Any]:
    """Return (state, flag) after a step of keys.

    Args:
        part: The wave's part.
        queries: Operands of the rows.
        carried: Per block of rows: reference, sum, and the blocks of the result; and whether values
            were cleaned.
        loaded: What was loaded of keys and of values; nothing where they have shares.
        first: First key of the step.
        partly: Whether some rows do not see all of it.
    """
    (state, flag), plan, a = carried, part.pages.plan, part.pages.a
    unit, units = UNITS[plan.unit], []
    scores = _scores(part, queries.within(first), first, loaded[0])
    if plan.problem.token_scales:
        scales, units = (_token_scales(part, x, first) for x in (a.scale_k, a.scale_v))
        scores = [[x * s for x, s in zip(mine, scales, strict=True)] for mine in scores]
    values = own_values(part.pages, loaded[1])
    scores, values, units, flag = _hidden(part, first, partly, scores, values, units, flag)
    found, operands = [], []
    for mine, column in zip(scores, state, strict=True):
        reference, total, parts = raised_rows(column, largest_of(mine), unit)
        weights = [fx.math.exp2(x - reference) for x in mine]
        for weight in weights:
            total = total + weight
        if units:
            weights = [w * s for w, s in zip(weights, units, strict=True)]
        narrow = fx.Vector.from_elements(weights).to(part.kind)
        operands.append(operands_of(narrow, part.pages))
        found.append((reference, total, list(parts)))
    tile = 0
    for share in range(plan.shares):
        if plan.shares > 1:
            values = own_values(part.pages, load_values(part.pages, first, share))
            values, flag = _hidden_share(part, first, partly, values, flag)
        for block in value_operands(part.pages, values, part.kind):
            for mine, (_, _, parts) in zip(operands, found, strict=True):
                for value, weight in zip(block, mine, strict=True):
                    parts[tile] = unit.multiply(value, weight, parts[tile])
            tile += 1
    return found, flag


@flyc.jit
def passes(part: Part, queries: Any, carried: Any, span: tuple[Any, Any], wave: Any) -> Any:
    """Return (state, flag) after the wave's steps of the keys from span[0] to span[1].

    With waves of 64 lanes the keys of the next step are loaded while a step is computed. On
    architectures with waves of 32, more of them hide the latency of memory.
    """
    pages, plan, a = part.pages, part.pages.plan, part.pages.a
    begin, end = span[0] + wave * plan.step, span[1]
    # Steps that every row sees whole.
    high = part.length - plan.problem.queries + 1
    low = begin
    if fx.const_expr(plan.problem.window):
        low = part.length - 1 - a.left
    stride = WAVES * plan.step
    if fx.const_expr(plan.shared):
        for first in range(begin, end, stride):
            keys = load_keys(pages, first) if plan.key_shares == 1 else []
            values = load_values(pages, first) if plan.shares == 1 else []
            partly = (first < low) | (first + plan.step > high)
            carried = step(part, queries, carried, (keys, values), first, partly)
    else:
        keys = load_keys(pages, begin)
        for first in range(begin, end, stride):
            values = load_values(pages, first)
            after = first + stride
            following = load_keys(pages, fx.arith.select(after < end, after, first))
            partly = (first < low) | (first + plan.step > high)
            carried = step(part, queries, carried, (keys, values), first, partly)
            keys = following
    return carried


@flyc.jit
def finish(
    a: DecodeArguments, part: Part, state: list[Any], slot: Any, wave: Any, shared: Any
) -> None:
    """Add up what the waves have, in their order, and write it."""
    plan, pages, unit = part.pages.plan, part.pages, UNITS[part.pages.plan.unit]
    lane = (pages.quarter * 16 + pages.row) * unit.registers
    tops = shared.allocate(ArrayType(fx.Float32, WAVES * 16)).ptr
    sums = shared.allocate(ArrayType(fx.Float32, WAVES * 16)).ptr
    blocks = shared.allocate(ArrayType(fx.Float32, WAVES * _GROUP * _BLOCK)).ptr
    vector = vector_alias(fx.Float32, (unit.registers,))
    for row, column in zip(part.rows, state, strict=True):
        reference, total, parts = column
        total = rows_sum(total, unit)
        if pages.quarter == 0:
            (tops + wave * 16 + pages.row).store(reference)
        fx.gpu.barrier()
        most = largest_of([(tops + w * 16 + pages.row).load() for w in range(WAVES)])
        factor = fx.math.exp2(reference - most)
        if pages.quarter == 0:
            (sums + wave * 16 + pages.row).store(total * factor)
        base = (slot.to(fx.Int64) * a.parts.stride[0]) + pages.head.to(fx.Int64) * a.parts.stride[1]
        target = a.parts.iter + base + fx.min(row, plan.rows - 1).to(fx.Int64) * a.parts.stride[2]
        for group in fx.range_constexpr(0, plan.tiles, _GROUP):
            members = parts[group : group + _GROUP]
            for index, own in enumerate(members):
                place = (wave * _GROUP + index) * _BLOCK + lane
                (blocks + place).store(own * factor)
            fx.gpu.barrier()
            for index in fx.range_constexpr(len(members)):
                if wave == index % WAVES:
                    value = (blocks + (index * _BLOCK + lane)).load(vector)
                    for other in fx.range_constexpr(1, WAVES):
                        place = (other * _GROUP + index) * _BLOCK + lane
                        value = value + (blocks + place).load(vector)
                    if row < plan.rows:
                        _store(plan, target, value, group + index, pages.quarter)
            fx.gpu.barrier()
        if (wave == 0) & (pages.quarter == 0) & (row < plan.rows):
            whole = (sums + pages.row).load()
            for other in fx.range_constexpr(1, WAVES):
                whole = whole + (sums + other * 16 + pages.row).load()
            place = (
                slot.to(fx.Int64) * a.sums.stride[1] + pages.head.to(fx.Int64) * a.sums.stride[2]
            )
            start = a.sums.iter + place + row.to(fx.Int64)
            start.store(most)
            (start + fx.Int64(a.sums.stride[0])).store(whole)
        fx.gpu.barrier()


@flyc.jit
def mend_rows(part: Part, slot: Any, wave: Any, span: tuple[Any, Any]) -> None:
    """Add to the results what rows see of values that are not finite and were cleaned.

    Args:
        part: The wave's part.
        slot: Number of the part.
        wave: Number of the wave.
        span: The part's first key, and one past the last.
    """
    pages, a, plan = part.pages, part.pages.a, part.pages.plan
    problem = plan.problem
    most, width = problem.queries + plan.step, plan.parts * WAVES
    # Other waves have written some of it.
    fx.gpu.barrier()
    base = slot.to(fx.Int64) * a.parts.stride[0] + pages.head.to(fx.Int64) * a.parts.stride[1]
    for row in part.rows:
        if row < plan.rows:
            place = part.length - problem.queries + row // problem.group
            end, low = fx.min(place + 1, span[1]), span[0]
            if fx.const_expr(problem.window):
                low = fx.max(low, place - a.left)
            spans = [(fx.max(low, place + 1 - most), end)]
            if fx.const_expr(problem.window):
                spans.append((low, fx.min(place - a.left + most, end)))
            mend(
                spans,
                (wave * plan.parts + pages.quarter, problem.d_v, width, 1),
                lambda key, element: odd_value(pages, key, element),
                a.parts.iter + (base + row.to(fx.Int64) * a.parts.stride[2]),
            )


def odd_value(pages: Pages, key: Any, element: Any) -> Any:
    """Return an element of a key's value in its unit if one of them is not finite, else zero."""
    plan, a = pages.plan, pages.a
    problem = plan.problem
    page, token = (
        known_page((pages.table + key // problem.page).load(), a.values),
        key % problem.page,
    )
    place = (pages.head, page.to(fx.Int64), token.to(fx.Int64))
    start, distance = value_place(a.values, *place, problem.layout)
    value = (start + element.to(fx.Int64) * distance).load()
    if not problem.token_scales:
        return odd_part(value, problem.cache)
    unit = a.scale_v[page, pages.head, token]
    wide = value.to(fx.Float32)
    odd = _odd_unit(unit) if problem.cache == "int8" else _odd_unit(wide) | _odd_unit(unit)
    return fx.arith.select(odd, wide * unit, fx.Float32(0.0))


def _store(plan: DecodePlan, target: Any, value: Any, tile: int, quarter: Any) -> None:
    """Store a lane's elements of a block of a row's result."""
    unit = UNITS[plan.unit]
    first = quarter * unit.group
    if plan.problem.layout != "linear":
        if unit.group == unit.registers:
            (target + (16 * tile + first)).store(value)
            return
        for register, item in enumerate(value):
            (target + (16 * tile + first + unit.row(register))).store(item)
        return
    group, element = divmod(tile, plan.width)
    lanes = ROWS // plan.turns
    for register, item in enumerate(value):
        row = first + unit.row(register)
        place = row % lanes * plan.turns + row // lanes + 16 * group
        (target + (place * plan.width + element)).store(item)


@flyc.kernel
def decode_kernel(
    a: DecodeArguments, work: Work, plan: fx.Constexpr[DecodePlan], kind: fx.Constexpr[object]
) -> None:
    """Compute one part of the keys of a sequence for a head of the cache."""
    slot, head = fx.block_idx.x, fx.block_idx.y
    problem = plan.problem
    if slot < part_count(work):
        sequence, number, size, length = own_part(work, slot)
        begin, keys = key_range(length, problem.queries, a.left, plan.step, problem.window)
        thread = fx.thread_idx.x
        lanes, registers = UNITS[plan.unit].lanes, UNITS[plan.unit].registers
        wave, lane = fx.rocdl.read_first_lane(thread // lanes), thread % lanes
        last = fx.max(length - 1, 0) // problem.page
        table = a.table.iter + sequence.to(fx.Int64) * a.table.stride[0]
        pages = Pages(a, plan, table, last, head, lane % 16, lane // 16)
        first = fx.block_idx.z * (16 * plan.columns)
        rows = [first + 16 * column + lane % 16 for column in range(plan.columns)]
        scale = a.scale
        if fx.const_expr(not problem.token_scales):
            scale = scale * fx.rocdl.read_first_lane(a.scale_k[0])
        part = Part(pages, kind, length, rows, scale)
        shared = fx.SharedAllocator()
        if fx.const_expr(plan.shared):
            queries = share_queries(a, part, sequence, wave, shared)
        else:
            queries = load_queries(a, part, sequence)
        zero = fx.Vector.filled((registers,), 0.0, fx.Float32)
        state = [(fx.Float32(LEAST), fx.Float32(0.0), [zero] * plan.tiles) for _ in rows]
        start = begin + number * size
        span = (start, fx.min(start + size, begin + keys))
        state, flag = passes(part, queries, (state, fx.Int32(0)), span, wave)
        finish(a, part, state, slot, wave, shared)
        if fx.const_expr(plan.uneven):
            words = shared.allocate(ArrayType(fx.Int32, WAVES)).ptr
            if any_wave(words, flag, wave, WAVES) != 0:
                mend_rows(part, slot, wave, span)


@flyc.jit
def launch_decode(
    a: DecodeArguments, work: Work, problem: fx.Constexpr[DecodeProblem], stream: fx.Stream
) -> None:
    """Launch a workgroup for each part, head of the cache and share of its rows."""
    plan = select_decode(problem, amd_facts("paged_attention_decode"))
    heads = a.parts.shape[1]
    decode_kernel(a, work, plan, KINDS[problem.dtype]).launch(
        grid=(work.items.shape[0], heads, plan.blocks),
        block=(WAVES * 16 * plan.parts,),
        stream=stream,
    )
