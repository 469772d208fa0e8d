"""The grouped product: entries of one expert times that expert's weights, in tiles.

A workgroup of four waves has `tile_m` entries and `tile_n` channels, gate and gated ones of them.
Rows of activations are gathered by the entries' tokens into local data share, one step ahead, two
steps taking turns; half of a step's are read while the step before is multiplied. Weights go from
memory straight to registers, one step ahead too. The number of steps is known at run time only, so
the loop is a loop. Weights are addressed from the expert's 64-bit base; what is outside is zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import ConfigError
from flydsl.expr.storage import ArrayType
from flydsl_kernels.moe.device.finish import finish
from flydsl_kernels.moe.device.operands import load_words, multiply, weight_operand, zero_sums
from flydsl_kernels.moe.device.records import Operands, Order, Sizes
from flydsl_kernels.moe.device.scales import (
    StepScales,
    block_factors,
    load_scales,
    scale_records,
)
from flydsl_kernels.moe.plans import GemmPlan
from flydsl_rocdl.expr.access import amd_facts

__all__ = ["launch_grouped"]

THREADS = 256
NOWHERE = -256
"""Byte offset past the end of every descriptor."""
TOKEN = (1 << 24) - 1


@dataclass(frozen=True, slots=True)
class Tile:
    """A workgroup's tile, and what a thread needs of it.

    Attributes:
        plan: What is compiled.
        sizes: Run-time extents.
        first: First entry.
        expert: The expert.
        blocks: Number of the first block of 16 channels of the wave, for gate and gated ones.
        each: Numbers of all of the wave's blocks, those past the last one replaced by it: nothing
            depends on how the hardware bounds uniform offsets.
        lane: The lane's number in its wave.
        lds: Local data share, in units of 16 bytes.
        a: Descriptor of the activations.
        rows: Byte offset of each row that the thread loads.
        places: Where it puts them.
        columns: First byte of a row that the thread loads in a step.
        reads: Where each chunk's pieces are read, for the first slot and entries.
        w: Descriptor of the expert's weights.
        scales: Where scales are.
    """

    plan: GemmPlan
    sizes: Any
    first: Any
    expert: Any
    blocks: Any
    each: Any
    lane: Any
    lds: Any
    a: Any
    rows: Any
    places: Any
    columns: Any
    reads: Any
    w: Any
    scales: Any


def for_target(plan: GemmPlan) -> GemmPlan:
    """Return the plan for the architecture compiled for.

    Raises:
        ConfigError: It has no such format.
    """
    facts = amd_facts("a grouped product")
    families = {shape.family for shape in facts.matrix}
    if plan.numbers.family not in families:
        raise ConfigError(
            f"{facts.name} does not multiply {plan.format}", code="FLY-C977", value=facts.name,
            allowed=f"architectures with {plan.numbers.family} instructions",
        )  # fmt: skip
    if plan.flavour and plan.flavour != facts.fp8:
        raise ConfigError(
            f"the 8-bit floats of {facts.name} are of another kind", code="FLY-C977",
            value=plan.flavour, allowed=facts.fp8 or "none",
        )  # fmt: skip
    return replace(plan, modern="mfma_scale" in families)


def source_row(packed: Any, plan: GemmPlan, sizes: Any) -> Any:
    """Return the row of activations of a packed id."""
    token, slot = packed & TOKEN, packed >> 24
    if plan.source == "pair":
        return token * sizes.slots + slot
    if plan.source == "slot":
        return slot * sizes.tokens + token
    return token


def gathered(order: Any, first: Any, place: Any, plan: GemmPlan, sizes: Any, pitch: Any) -> Any:
    """Return the byte offset of an entry's row of `pitch` bytes, nowhere for padding."""
    packed = (order.ids.iter + (first + place)).load()
    there = (packed & TOKEN) < sizes.tokens
    return there.select(source_row(packed, plan, sizes) * pitch, fx.Int32(NOWHERE))


def own_tile(data: Any, order: Any, sizes: Any, plan: GemmPlan) -> Tile:
    """Return the calling thread's part of its workgroup's tile."""
    numbers, thread = plan.numbers, fx.thread_idx.x
    lane = thread % 64
    wave = fx.rocdl.read_first_lane(thread // 64)
    first = fx.block_idx.y * plan.tile_m
    expert = fx.rocdl.read_first_lane((order.experts.iter + fx.block_idx.y).load())
    block = (fx.block_idx.x * 4 + wave) * plan.tiles
    blocks = [block + half * sizes.half_blocks for half in range(plan.halves)]
    last = sizes.half_blocks * plan.halves - 1
    each = [fx.min(first_ + n, last) for first_ in blocks for n in range(plan.tiles)]
    pieces = numbers.pieces
    lines = THREADS // pieces
    passes = max(1, plan.tile_m // lines)
    row, piece = thread // pieces, thread % pieces
    rows, places = [], []
    for turn in range(passes):
        place = row + turn * lines
        offset = gathered(order, first, place % plan.tile_m, plan, sizes, sizes.row_bytes)
        if plan.tile_m < lines:
            offset = (place < plan.tile_m).select(offset, fx.Int32(NOWHERE))
        # Padding has to stay outside: its offset is not moved.
        rows.append((offset == NOWHERE).select(offset, offset + piece * 16))
        places.append(place * pieces + (piece ^ (place % 8)))
    lds = fx.SharedAllocator().allocate(
        ArrayType(fx.Int128, 2 * max(plan.tile_m, lines) * pieces), alignment=1024
    )
    quarter, own = lane // 16, lane % 16
    reads = []
    for chunk in range(plan.chunks):
        zero, one = plan.pieces(chunk, 0), plan.pieces(chunk, 1)
        reads.append([
            own * pieces + ((p + quarter * (q - p)) ^ (own % 8))
            for p, q in zip(zero, one, strict=True)
        ])  # fmt: skip
    base = data.w.iter + expert.to(fx.Int64) * sizes.expert_bytes
    w = scale_records(base, sizes.expert_bytes)
    a = scale_records(data.x.iter, sizes.a_bytes)
    tile = Tile(plan, sizes, first, expert, blocks, each, lane, lds, a, rows, places, piece * 16,
                reads, w, None)  # fmt: skip
    return tile if numbers.w_scale in ("none", "channel") else with_scales(tile, data, order)


def with_scales(tile: Tile, data: Any, order: Any) -> Tile:
    """Return the tile with where its scales are."""
    plan, sizes, numbers = tile.plan, tile.sizes, tile.plan.numbers
    w = scale_records(
        data.b.iter + tile.expert.to(fx.Int64) * sizes.expert_scale_bytes, sizes.expert_scale_bytes
    )
    places: dict[str, Any] = {"w": w}
    if numbers.w_scale == "block":
        firsts = tile.each[:: plan.tiles]
        places["tiles"] = [block // 8 * sizes.scale_pitch for block in firsts]
    else:
        each = tile.each
        if numbers.w_scale == "group":
            places["lane"] = tile.lane % 16 * 4
            places["tiles"] = [block * 64 for block in each]
            places["pitch"] = sizes.scale_pitch
        else:
            places["lane"] = tile.lane * 4
            places["tiles"] = [block // 2 * sizes.scale_pitch for block in each]
            places["odd"] = [block % 2 * 8 for block in each]
    if numbers.a_scale in ("block", "mx"):
        places["a"] = scale_records(data.a.iter, sizes.a_scale_bytes)
        places["rows"] = [
            gathered(order, tile.first, tile.lane % 16 + 16 * m, plan, sizes, sizes.a_scale_pitch)
            for m in range(plan.columns)
        ]
    return replace(tile, scales=StepScales(plan, **places))


def load_rows(step: Any, tile: Tile) -> list[Any]:
    """Load the thread's share of the activations of a step."""
    base = step * tile.plan.numbers.row_bytes
    offsets = tile.rows
    if tile.plan.ragged_k:
        inside = base + tile.columns < tile.sizes.row_bytes
        offsets = [inside.select(offset, fx.Int32(NOWHERE)) for offset in offsets]
    return [load_words(tile.a, offset, base) for offset in offsets]


def place_rows(loaded: list[Any], slot: int, tile: Tile) -> None:
    """Put what `load_rows` loaded into a slot of local data share."""
    plan = tile.plan
    size = max(plan.tile_m, THREADS // plan.numbers.pieces) * plan.numbers.pieces
    for value, place in zip(loaded, tile.places, strict=True):
        (tile.lds.ptr + (place + slot * size)).store(value.bitcast(fx.Int128)[0])


def read_rows(chunk: int, column: int, slot: int, tile: Tile) -> list[Any]:
    """Read the pieces of a chunk of 16 entries."""
    plan, pieces = tile.plan, tile.plan.numbers.pieces
    size = max(plan.tile_m, THREADS // pieces) * pieces
    offset = slot * size + column * 16 * pieces
    return [(tile.lds.ptr + (read + offset)).load(fx.Int32x4) for read in tile.reads[chunk]]


def load_weights(step: Any, tile: Tile) -> list[list[Any]]:
    """Load the lane's weights of a step: for each block of channels its pieces."""
    numbers = tile.plan.numbers
    out = []
    offset = tile.lane * numbers.load_bytes
    for block in tile.each:
        base = block * tile.sizes.block_bytes + step * numbers.weight_tile
        out.append([
            load_words(tile.w, offset + load * 64 * numbers.load_bytes, base, numbers.load_bytes)
            for load in range(numbers.loads)
        ])  # fmt: skip
    return out


def scale_arguments(scales: list[Any], block: int, chunk: int, plan: GemmPlan) -> tuple[Any, ...]:
    """Return the scale that widens weights, and those of the matrix instruction per entry."""
    numbers = plan.numbers
    if numbers.w_scale == "group":
        return scales[block].bitcast(fx.Float32), [()] * plan.columns
    if numbers.w_scale == "mx" and numbers.a_scale == "none":
        # The byte is an exponent: in place of an f32 number's it is the scale.
        exponent = (scales[block] & 255) << 23
        return exponent.bitcast(fx.Float32), [()] * plan.columns
    if numbers.a_scale == "mx":
        first = plan.halves * plan.tiles
        return None, [
            (scales[block], 2 * chunk, scales[first + 2 * column + chunk])
            for column in range(plan.columns)
        ]
    return None, [()] * plan.columns


def units_of(plan: GemmPlan) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return which (chunk, column of entries) a step reads ahead of itself, and which at once."""
    units = [(chunk, column) for chunk in range(plan.chunks) for column in range(plan.columns)]
    early = -(-len(units) // 2)
    return units[:early], units[early:]


def read_units(units: list[tuple[int, int]], slot: int, tile: Tile) -> list[Any]:
    """Read the activations of some units from a slot."""
    return [read_rows(chunk, column, slot, tile) for chunk, column in units]


def multiply_units(
    sums: list[Any], units: list[tuple[int, int]], rows: list[Any], step: tuple[Any, Any],
    plan: GemmPlan,
) -> list[Any]:  # fmt: skip
    """Return the sums plus the products of some units.

    Args:
        sums: For each block of channels those of its columns of entries.
        units: Which units.
        rows: Their activations.
        step: Weights and scales of the step.
        plan: What is compiled.
    """
    weights, scales = step
    out = list(sums)
    for chunk in sorted({chunk for chunk, _ in units}):
        for block, pieces in enumerate(weights):
            widen, others = scale_arguments(scales, block, chunk, plan)
            operand = weight_operand(pieces, chunk, widen, plan)
            for (own, column), values in zip(units, rows, strict=True):
                if own == chunk:
                    place = block * plan.columns + column
                    out[place] = multiply(out[place], operand, values, others[column], plan)
    return out


def first_sums(sums: list[Any], plan: GemmPlan) -> list[Any]:
    """Return what the products of a step are added to: zero where blocks are scaled."""
    return [zero_sums(plan)] * len(sums) if plan.numbers.w_scale == "block" else sums


def last_sums(sums: list[Any], part: list[Any], scales: list[Any], plan: GemmPlan) -> list[Any]:
    """Return the sums after a step whose products are in `part`."""
    if plan.numbers.w_scale != "block":
        return part
    factors, out = block_factors(scales, plan), []
    for place, value in enumerate(part):
        block, column = divmod(place, plan.columns)
        wide = fx.Vector.filled((4,), factors[block // plan.tiles][column], fx.Float32)
        out.append(fx.math.fma(value, wide, sums[place]))
    return out


def scales_of(step: Any, tile: Tile) -> list[Any]:
    """Load the scales of a step, if there are any."""
    return [] if tile.scales is None else load_scales(step, tile.scales)


def advance(step: Any, slot: int, state: Any, tile: Tile) -> Any:
    """Multiply a step, half of whose activations have been read, while the next ones arrive.

    The barrier is between the halves: what follows it is read for the next step while the second
    half is multiplied.
    """
    sums, weights, scales, coming, rows = state
    plan = tile.plan
    early, late = units_of(plan)
    # After the last step it is loaded again, and not used.
    last = tile.sizes.steps - 1
    after = load_rows(fx.min(step + 2, last), tile)
    later = fx.min(step + 1, last)
    following = load_weights(later, tile), scales_of(later, tile)
    others = read_units(late, slot, tile)
    part = multiply_units(first_sums(sums, plan), early, rows, (weights, scales), plan)
    place_rows(coming, 1 - slot, tile)
    fx.rocdl.lds_barrier()
    rows = read_units(early, 1 - slot, tile)
    part = multiply_units(part, late, others, (weights, scales), plan)
    return [last_sums(sums, part, scales, plan), *following, after, rows]


@flyc.jit
def product(tile: Tile) -> list[Any]:
    """Return the sums of the tile: for each block of channels those of its columns of entries."""
    plan = tile.plan
    early, late = units_of(plan)
    steps = tile.sizes.steps
    place_rows(load_rows(fx.Int32(0), tile), 0, tile)
    coming = load_rows(fx.min(steps - 1, fx.Int32(1)), tile)
    first = load_weights(fx.Int32(0), tile), scales_of(fx.Int32(0), tile)
    sums = [zero_sums(plan)] * (plan.halves * plan.tiles * plan.columns)
    fx.rocdl.lds_barrier()
    state = [sums, *first, coming, read_units(early, 0, tile)]
    for pair in range(steps // 2):
        state = advance(pair * 2, 0, state, tile)
        state = advance(pair * 2 + 1, 1, state, tile)
    sums, weights, scales, _, rows = state
    if steps % 2 != 0:
        others = read_units(late, 0, tile)
        part = multiply_units(first_sums(sums, plan), early, rows, (weights, scales), plan)
        part = multiply_units(part, late, others, (weights, scales), plan)
        sums = last_sums(sums, part, scales, plan)
    return sums


@flyc.kernel
def grouped_kernel(
    data: Operands, order: Order, sizes: Sizes, plan: fx.Constexpr[GemmPlan]
) -> None:
    """Write the products of entries with their experts' weights."""
    plan = for_target(plan)
    expert = (order.experts.iter + fx.block_idx.y).load()
    # An order of more experts than there are weights would lead outside of them.
    inside = (expert >= 0) & (expert < sizes.experts)
    if inside & (fx.block_idx.y * plan.tile_m < order.valid.iter.load()):
        tile = own_tile(data, order, sizes, plan)
        finish(product(tile), tile, data, order)


@flyc.jit
def launch_grouped(
    data: Operands, order: Order, sizes: Sizes, plan: fx.Constexpr[GemmPlan], stream: fx.Stream
) -> None:
    """Launch one workgroup per tile of entries and channels."""
    across = (sizes.channels + (plan.tile_n - 1)) // plan.tile_n
    grouped_kernel(data, order, sizes, plan).launch(
        grid=(across, order.experts.shape), block=(THREADS,), stream=stream
    )
