"""The gradients of flash attention, of queries and of keys and values, by one kernel.

A workgroup keeps rows of one side, q and the gradient of the result or k and v, and passes over the
rows of the other side. With the names of the queries' side: Sᵀ = K Qᵀ and dPᵀ = V dOᵀ give the
weights P = exp(S - lse) and dS = P (dP - δ), δ the product of dO and O summed over a row less the
gradient of lse; then dQᵀ += Kᵀ dSᵀ. With sides exchanged dKᵀ += Qᵀ dS, and dVᵀ += dOᵀ P. All is
added in a fixed order: results are the same in every run.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.storage import ArrayType
from flydsl.expr.vector import vector_alias
from flydsl_kernels.attention.device.block import own_block, own_lane
from flydsl_kernels.attention.device.flash import load_rows, scores_of, store_row, weigh
from flydsl_kernels.attention.device.matrix import ELEMENTS, UNITS, paired
from flydsl_kernels.attention.device.nonfinite import any_wave, mend, odd_part
from flydsl_kernels.attention.device.rows import head_rows, key_source
from flydsl_kernels.attention.device.scores import own_rows, seen, uneven_spans
from flydsl_kernels.attention.device.softmax import power
from flydsl_kernels.attention.device.tiles import Tiles
from flydsl_kernels.attention.problem import FlashProblem
from flydsl_kernels.attention.selection import FlashPlan, select_gradient
from flydsl_rocdl.expr.access import amd_facts

__all__ = ["GradientArguments", "launch_delta", "launch_gradient"]

_LN_2 = math.log(2.0)
_LANES = 16
_THREADS = 256


@fx.struct
class GradientArguments(fx.Struct):
    """Arguments of the kernel; "own" are the rows that a workgroup keeps.

    Attributes:
        q: Own rows of the first product: q, or k [batch, length, heads, d_qk].
        y: Own rows of the second one: gradient of the result, or v [batch, length, heads, d_v].
        k: Other rows of the first product: k, or q.
        v: Other rows of the second one: v, or the gradient of the result.
        first: Gradient of `q`.
        second: Gradient of `y`, or any array.
        lse: Logarithms of the sums [batch, heads of q, length of q], f32.
        delta: δ, likewise.
        starts_q: Where packed own sequences start.
        starts_k: The same for the others.
        lengths: Not used.
        scale: Factor of the scores, times log2(e).
        left: Other rows that an own one sees to the left of its place.
        right: The same for the right.
        group: Own heads that share one of the others.
        repeat: Other heads that share an own one.
        sequences: Number of sequences.
    """

    q: fx.Tensor
    y: fx.Tensor
    k: fx.Tensor
    v: fx.Tensor
    first: fx.Tensor
    second: fx.Tensor
    lse: fx.Tensor
    delta: fx.Tensor
    starts_q: fx.Tensor
    starts_k: fx.Tensor
    lengths: fx.Tensor
    scale: fx.Float32
    left: fx.Int32
    right: fx.Int32
    group: fx.Int32
    repeat: fx.Int32
    sequences: fx.Int32


def side_tiles(a: Any, plan: FlashPlan, lane: Any, block: Any, lds: list[Any]) -> tuple[Any, Any]:
    """Return the tiles of the other rows: of the first product, and of the second.

    Each has the rows of its own matrix for the scores, and the other one turned.
    """
    turned = replace(plan, d_qk=plan.d_v, d_v=plan.d_qk)
    rows, others = (key_source(x, plan, block, w) for x, w in ((a.k, plan.d_qk), (a.v, plan.d_v)))
    return (
        Tiles(a, plan, lane, block, rows, others, lds[0], lds[1]),
        Tiles(a, turned, lane, block, others, rows, lds[2], lds[3]),
    )


def per_row(tensor: Any, block: Any, head: Any, row: Any, base: Any, length: Any) -> Any:
    """Return an f32 number per row of q, that of the last row past it."""
    known = base + fx.max(fx.min(row, length - 1), 0)
    place = (
        block.batch.to(fx.Int64) * tensor.stride[0]
        + head.to(fx.Int64) * tensor.stride[1]
        + known.to(fx.Int64) * tensor.stride[2]
    )
    return (tensor.iter + place).load()


def numbers_of(tensor: Any, tiles: Any, row: Any, first: Any, keys: bool) -> list[Any]:
    """Return a number of the row of q for every register of a block of scores.

    Args:
        tensor: lse or δ.
        tiles: The tiles.
        row: The lane's own row.
        first: Other row of register 0.
        keys: Whether own rows are those of k.
    """
    unit, block = UNITS[tiles.plan.unit], tiles.block
    if not keys:
        own = per_row(tensor, block, block.head, row.number, block.base_q, block.length_q)
        return [own] * unit.registers
    return [
        per_row(tensor, block, block.kv_head, first + unit.row(register), block.base_k,
                block.length_k)
        for register in range(unit.registers)
    ]  # fmt: skip


def differences(
    pair: tuple[Any, Any], products: tuple[Any, Any], row: Any, first: Any, flags: tuple[bool, bool]
) -> tuple[list[Any], list[Any]]:
    """Return (dS, P) of a block of scores, as operands of pieces.

    Args:
        pair: The tiles.
        products: The block of scores and that of dP.
        row: The lane's own row.
        first: Other row of register 0, for the lane's half.
        flags: Whether some rows do not see all of the block, and whether own rows are those of k.
    """
    tiles = pair[0]
    a, unit = tiles.a, UNITS[tiles.plan.unit]
    masked, keys = flags
    scores, slopes = products
    sums = numbers_of(a.lse, tiles, row, first, keys)
    delta = numbers_of(a.delta, tiles, row, first, keys)
    weights, changes = [], []
    for register in fx.range_constexpr(unit.registers):
        shifted = fx.math.fma(scores[register], a.scale, sums[register] * (-1.0 / _LN_2))
        weight = power(shifted)
        change = weight * (slopes[register] - delta[register])
        if masked:
            there = seen(unit.row(register), first, row)
            weight = fx.arith.select(there, weight, fx.Float32(0.0))
            change = fx.arith.select(there, change, fx.Float32(0.0))
        weights.append(weight)
        changes.append(change)
    return narrowed(changes, tiles), narrowed(weights, tiles)


def narrowed(values: list[Any], tiles: Any) -> list[Any]:
    """Return f32 registers of a block as operands of pieces, rounded to the element type."""
    unit, element = UNITS[tiles.plan.unit], ELEMENTS[tiles.plan.element]
    return [
        paired(fx.Vector.from_elements(values[at : at + 8]).to(element), unit, tiles.lane.half)
        for at in range(0, len(values), 8)
    ]


@flyc.jit
def gradient_passes(
    pair: Any, own: Any, found: Any, span: Any, rows: list[Any], flags: tuple[bool, bool]
) -> Any:
    """Return the gradients after the tiles from span[0] to span[1], and a flag.

    The flag says whether what `mend_rows` is for was cleaned in the wave's share.

    Args:
        pair: The tiles.
        own: Operands of the own rows for both products.
        found: Per block of own rows, the blocks of the gradients: of the first, of the second; and
            the flag.
        span: First key of the first tile, and one past the last.
        rows: The lane's own rows.
        flags: As of `differences`.
    """
    plan, unit = pair[0].plan, UNITS[pair[0].plan.unit]
    half, flag = pair[0].lane.half * unit.group, found[2]
    for first in range(span[0], span[1], plan.tile):
        turned = pair if fx.const_expr(flags[1]) else pair[1:]
        plain = [tiles.load_keys(first) for tiles in pair]
        across = [tiles.load_values(first) for tiles in turned]
        fx.rocdl.lds_barrier()
        for tiles, part in zip(pair, plain, strict=True):
            tiles.store_keys(part)
        if fx.const_expr(flags[0] and plan.uneven):
            flag = turned[0].store_values(across[0], flag)
            for tiles, part in zip(turned[1:], across[1:], strict=True):
                tiles.store_values(part, fx.Int32(0))
        else:
            for tiles, part in zip(turned, across, strict=True):
                tiles.store_values(part)
        fx.rocdl.lds_barrier()
        scores, slopes = (scores_of(tiles, mine) for tiles, mine in zip(pair, own, strict=True))
        changes, weights = [], []
        for column, row in enumerate(rows):
            made = [
                differences(pair, (s, d), row, first + number * unit.rows + half, flags)
                for number, (s, d) in enumerate(zip(scores[column], slopes[column], strict=True))
            ]
            changes.append([piece for change, _ in made for piece in change])
            weights.append([piece for _, weight in made for piece in weight])
        one = weigh(pair[1], changes, found[0])
        two = weigh(pair[0], weights, found[1]) if fx.const_expr(flags[1]) else found[1]
        found = (one, two, flag)
    return found


@flyc.jit
def mend_rows(a: Any, tiles: Any, lds: list[Any], rows: list[Any], keys: bool, flag: Any) -> None:
    """Add what own rows see of other rows that are not finite and were cleaned.

    The other rows are those of the gradient of the result, for gradients of v, and k, for those of
    q. A score of such a key is none, or minus infinity: the gradient of q is none. Where such a row
    of q is seen, its weights are none, and so is the gradient of k.

    Args:
        a: The arguments.
        tiles: Tiles of any head.
        lds: Where tiles are.
        rows: The lane's own rows, whose gradients it has written.
        keys: Whether own rows are those of k.
        flag: The wave's flag.
    """
    plan, block, unit = tiles.plan, tiles.block, UNITS[tiles.plan.unit]
    target, width = (a.second, plan.d_v) if keys else (a.first, plan.d_qk)
    if any_wave(lds[0], flag, tiles.lane.wave, plan.waves) != 0:
        for number in range(a.repeat):
            head = block.head * a.repeat + number if fx.const_expr(keys) else block.kv_head
            pair = side_tiles(a, plan, tiles.lane, replace(block, kv_head=head), lds)
            others = pair[0 if keys else 1]
            for row in rows:
                if row.number < block.length_q:
                    mend(
                        uneven_spans(tiles, row),
                        (tiles.lane.half * unit.group, width, 2 * unit.group, unit.group),
                        partial(odd_element, others, not keys),
                        start_of(target, block, row, width),
                    )


def odd_element(tiles: Any, lost: bool, row: Any, element: Any) -> Any:
    """Return `odd_part` of an element of a row that is turned in the tiles."""
    return odd_part(tiles.value_at(row, element), tiles.plan.element, lost)


def start_of(target: Any, block: Any, row: Any, width: int) -> Any:
    """Return the pointer to a row of a gradient."""
    source = head_rows(target, block.batch, block.base_q, block.head, width)
    return source.start + row.number.to(fx.Int64) * source.stride


@flyc.kernel
def gradient_kernel(
    a: GradientArguments, blocks: fx.Int32, plan: fx.Constexpr[FlashPlan], keys: fx.Constexpr[bool]
) -> None:
    """Gradients of the own rows of a workgroup."""
    unit = UNITS[plan.unit]
    lane, block = own_lane(unit), own_block(a, blocks, plan)
    if block.first < block.length_q:
        shared, element = fx.SharedAllocator(), ELEMENTS[plan.element]
        widths = (plan.wide_qk, plan.wide_v if keys else 8, plan.wide_v, plan.wide_qk)
        lds = [shared.allocate(ArrayType(element, plan.tile * width)).ptr for width in widths]
        tiles = side_tiles(a, plan, lane, block, lds)[0]
        own = (load_rows(tiles, a.q, plan.d_qk), load_rows(tiles, a.y, plan.d_v))
        rows = own_rows(tiles)
        zero = fx.Vector.filled((unit.registers,), 0.0, fx.Float32)
        sums = [
            [[zero] * (width // unit.rows) for _ in rows] for width in (plan.wide_qk, plan.wide_v)
        ]
        found: Any = (*sums, fx.Int32(0))
        for number in range(a.repeat):
            head = block.head * a.repeat + number if fx.const_expr(keys) else block.kv_head
            pair = side_tiles(a, plan, lane, replace(block, kv_head=head), lds)
            if fx.const_expr(plan.left):
                span = (block.begin, block.whole_begin)
                found = gradient_passes(pair, own, found, span, rows, (True, keys))
            span = (block.whole_begin, block.whole_end)
            found = gradient_passes(pair, own, found, span, rows, (False, keys))
            span = (block.whole_end, block.end)
            found = gradient_passes(pair, own, found, span, rows, (True, keys))
        for column, row in enumerate(rows):
            if row.number < block.length_q:
                scaled = [part * (a.scale * _LN_2) for part in found[0][column]]
                store_row(tiles, start_of(a.first, block, row, plan.d_qk), scaled, plan.d_qk)
                if fx.const_expr(keys):
                    start = start_of(a.second, block, row, plan.d_v)
                    store_row(tiles, start, found[1][column], plan.d_v)
        if fx.const_expr(plan.uneven):
            mend_rows(a, tiles, lds, rows, keys, found[2])


@flyc.jit
def launch_gradient(
    a: GradientArguments, problem: fx.Constexpr[FlashProblem], keys: fx.Constexpr[bool],
    longest: fx.Int32, stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch a workgroup per block of own rows, head and sequence."""
    plan = select_gradient(problem, keys, amd_facts("the gradient of flash_attention"))
    unit = UNITS[plan.unit]
    rows = plan.waves * plan.columns * unit.rows
    blocks = (longest + (rows - 1)) // rows
    gradient_kernel(a, blocks, plan, keys).launch(
        grid=(blocks * a.q.shape[2] * a.sequences,), block=(plan.waves * unit.lanes,),
        stream=stream,
    )  # fmt: skip


@flyc.kernel
def delta_kernel(o: fx.Tensor, slope: fx.Tensor, of_lse: fx.Tensor, delta: fx.Tensor) -> None:
    """δ of every row and head: the products of o and its gradient, less the gradient of lse."""
    length, heads = fx.Int32(o.shape[1]), fx.Int32(o.shape[2])
    number = fx.block_idx.x * (_THREADS // _LANES) + fx.thread_idx.x // _LANES
    lane = fx.thread_idx.x % _LANES
    head, row, batch = number % heads, number // heads % length, number // heads // length
    total = fx.Float32(0.0)
    there = batch < fx.Int32(o.shape[0])
    if there:
        starts = [head_rows(x, batch, row, head, 8).start for x in (o, slope)]
        for chunk in range(lane, fx.Int32(o.shape[3]) // 8, _LANES):
            kinds = [vector_alias(start.element, (8,)) for start in starts]
            one, other = (
                (start + chunk * 8).load(kind).to(fx.Float32)
                for start, kind in zip(starts, kinds, strict=True)
            )
            total = total + (one * other).reduce("add")
    for offset in (1, 2, 4, 8):
        total = total + fx.gpu.shuffle_xor(total, offset)
    if there and lane == 0:
        delta[batch, head, row] = total - of_lse[batch, head, row]


@flyc.jit
def launch_delta(
    o: fx.Tensor, slope: fx.Tensor, of_lse: fx.Tensor, delta: fx.Tensor, groups: fx.Int32,
    stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch; `groups` workgroups of 16 rows and heads."""
    delta_kernel(o, slope, of_lse, delta).launch(grid=(groups,), block=(_THREADS,), stream=stream)
