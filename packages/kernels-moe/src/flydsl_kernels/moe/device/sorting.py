"""Sorting (token, slot) pairs by expert: stable, without atomics whose order could show.

Every wave counts the pairs of each expert in its own stretch of the input. Sums over waves and
experts give each wave where its pairs of an expert go; it then walks its stretch again, and lanes
of a row with the same expert are numbered by a ballot per bit of the expert's number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.storage import ArrayType
from flydsl_kernels.moe.selection import SortPlan

__all__ = ["launch_sort", "launch_sort_phases"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A wave's part of the pairs.

    Attributes:
        wave: The wave's number in its workgroup.
        lane: The lane's number in its wave.
        first: The lane's first pair; the next ones are a wave's lanes apart.
        end: Where the wave's part ends.
        limit: Pairs from here on do not count.
    """

    wave: Any
    lane: Any
    first: Any
    end: Any
    limit: Any


@fx.struct
class Outputs(fx.Struct):
    """Where results go.

    Attributes:
        ids: Packed ids, slot * 2^24 + token.
        weights: Weights in the same order.
        experts: The expert of each block, -1 after the last one.
        valid: Length with padding, and the number of tokens.
        places: For every pair its place in the order, or -1.
    """

    ids: fx.Tensor
    weights: fx.Tensor
    experts: fx.Tensor
    valid: fx.Tensor
    places: fx.Tensor


def waves_of(plan: SortPlan) -> int:
    """Return the number of waves of a workgroup on the target compiled for."""
    return plan.block // fx.gpu.num_warp_threads()


@flyc.jit
def own_stretch(ids: Any, tokens: Any, plan: SortPlan) -> Stretch:
    """Return the calling wave's part of the workgroup's chunk."""
    lanes = fx.gpu.num_warp_threads()
    pairs = fx.Int32(ids.shape[0]) * plan.slots
    begin = fx.block_idx.x * plan.chunk
    end = fx.min(pairs, begin + plan.chunk)
    rows = (end - begin + (plan.block - 1)) // plan.block
    wave = fx.rocdl.read_first_lane(fx.thread_idx.x // lanes)
    lane = fx.thread_idx.x % lanes
    start = begin + wave * rows * lanes
    limit = end
    if fx.const_expr(plan.counted):
        limit = fx.min(end, tokens.iter.load() * plan.slots)
    return Stretch(wave, lane, start + lane, start + rows * lanes, limit)


@flyc.jit
def expert_of(ids: Any, mask: Any, pair: Any, stretch: Stretch, plan: SortPlan) -> Any:
    """Return the expert of a pair, `plan.experts` if it has none here."""
    expert = fx.Int32(plan.experts)
    if pair < stretch.limit:
        found = (ids.iter + pair).load()
        # As unsigned numbers, negative ones are too large.
        if found.bitcast(fx.Uint32) < fx.Uint32(plan.experts):
            expert = found
            if fx.const_expr(plan.masked):
                expert = ((mask.iter + found).load() != 0).select(found, fx.Int32(plan.experts))
    return expert


@flyc.jit
def count_pairs(ids: Any, mask: Any, counts: Any, stretch: Stretch, plan: SortPlan) -> None:
    """Count the wave's pairs of each expert in its row of `counts`, which is zeroed first."""
    for place in range(fx.thread_idx.x, waves_of(plan) * plan.experts, plan.block):
        counts[place] = fx.Int32(0)
    fx.gpu.barrier()
    row = stretch.wave * plan.experts
    for pair in range(stretch.first, stretch.end, fx.gpu.num_warp_threads()):
        expert = expert_of(ids, mask, pair, stretch, plan)
        if expert < plan.experts:
            fx.atomic_add(counts.ptr + (row + expert), 1)
    fx.gpu.barrier()


@flyc.jit
def place_experts(totals: Any, mask: Any, table: Any, plan: SortPlan) -> Any:
    """Find where each expert's entries begin.

    Args:
        totals: Function that returns the number of pairs of an expert.
        mask: Which experts are here.
        table: For every expert its start, its pairs and its number among those here.
        plan: What is compiled.

    Returns:
        Entries of all experts with padding.
    """
    each = -(-plan.experts // plan.block)
    first = fx.thread_idx.x * each
    counts: list[Any] = []
    padded: list[Any] = []
    here: list[Any] = []
    for offset in fx.range_constexpr(each):
        expert = first + offset
        inside = expert < plan.experts
        safe = inside.select(expert, fx.Int32(0))
        count = fx.Int32(0)
        if inside:
            count = totals(expert)
        counts = [*counts, count]
        padded = [*padded, (count + (plan.unit - 1)) // plan.unit * plan.unit]
        present = fx.Int32(1)
        if fx.const_expr(plan.masked):
            present = ((mask.iter + safe).load() != 0).select(fx.Int32(1), fx.Int32(0))
        here = [*here, present]
    own, local = padded[0], here[0]
    for more, other in zip(padded[1:], here[1:], strict=True):
        own, local = own + more, local + other
    _, start, total = fx.coop.block_scan(own, "sum")
    number = fx.coop.block_exclusive_sum(local)
    for offset in fx.range_constexpr(each):
        expert = first + offset
        if expert < plan.experts:
            table[expert] = start
            table[plan.experts + expert] = counts[offset]
            table[2 * plan.experts + expert] = number
        start, number = start + padded[offset], number + here[offset]
    return total


@flyc.jit
def place_waves(counts: Any, begins: Any, plan: SortPlan) -> None:
    """Turn counts of waves into where the wave's pairs of an expert begin."""
    for expert in range(fx.thread_idx.x, plan.experts, plan.block):
        place = begins(expert)
        for wave in range(waves_of(plan)):
            at = wave * plan.experts + expert
            count = counts[at]
            counts[at] = place
            place = place + count
    fx.gpu.barrier()


def same_expert(expert: Any, plan: SortPlan) -> Any:
    """Return a bit for every lane of the wave that has the same expert."""
    peers = None
    word = fx.Int64 if fx.gpu.num_warp_threads() == 64 else fx.Int32
    for bit in fx.range_constexpr(plan.experts.bit_length()):
        mine = ((expert >> bit) & 1) != 0
        lanes = fx.rocdl.ballot(word, mine)
        agree = mine.select(lanes, ~lanes)
        peers = agree if peers is None else peers & agree
    return peers


@flyc.jit
def scatter_pairs(
    inputs: tuple[Any, Any, Any], counts: Any, out: Outputs, stretch: Stretch, plan: SortPlan
) -> None:
    """Write the wave's pairs to their places."""
    ids, weights, mask = inputs
    row = stretch.wave * plan.experts
    pairs = fx.Int32(ids.shape[0]) * plan.slots
    for pair in range(stretch.first, stretch.end, fx.gpu.num_warp_threads()):
        expert = expert_of(ids, mask, pair, stretch, plan)
        peers = same_expert(expert, plan)
        below = (peers.dtype(1) << stretch.lane.to(peers.dtype)) - peers.dtype(1)
        rank = fx.ctpop(peers & below).to(fx.Int32)
        place = fx.Int32(-1)
        if expert < plan.experts:
            begin = counts[row + expert]
            place = begin + rank
            if rank == 0:
                counts[row + expert] = begin + fx.ctpop(peers).to(fx.Int32)
            token = pair // plan.slots
            packed = ((pair - token * plan.slots) << 24) | token
            (out.ids.iter + place).store(packed)
            (out.weights.iter + place).store((weights.iter + pair).load())
        if pair < pairs:
            (out.places.iter + pair).store(place)


@flyc.jit
def expert_at(table: Any, entry: Any, plan: SortPlan) -> Any:
    """Return the last expert whose entries begin at `entry` or before."""
    found = fx.Int32(0)
    for bit in fx.range_constexpr(plan.experts.bit_length() - 1, -1, -1):
        next_one = found + (1 << bit)
        safe = fx.min(next_one, fx.Int32(plan.experts - 1))
        further = (next_one < plan.experts) & (table[safe] <= entry)
        found = further.select(next_one, found)
    return found


@flyc.jit
def pad_entries(
    table: Any, total: Any, out: Outputs, sentinel: Any, share: tuple[Any, Any], plan: SortPlan
) -> None:
    """Fill what holds no pair, and name the expert of every block.

    Args:
        table: As `place_experts` wrote it.
        total: Entries with padding.
        out: Where to write.
        sentinel: Packed id of an entry without a pair.
        share: The thread's number, and how many there are.
        plan: What is compiled.
    """
    thread, threads = share
    lanes = fx.gpu.num_warp_threads()
    for expert in range(thread // lanes, plan.experts, threads // lanes):
        count = table[plan.experts + expert]
        begin = table[expert] + count
        end = table[expert] + (count + (plan.unit - 1)) // plan.unit * plan.unit
        for entry in range(begin + thread % lanes, end, lanes):
            (out.ids.iter + entry).store(sentinel)
            (out.weights.iter + entry).store(fx.Float32(0.0))
    for entry in range(total + thread, fx.Int32(out.ids.shape), threads):
        (out.ids.iter + entry).store(sentinel)
        (out.weights.iter + entry).store(fx.Float32(0.0))
    for block in range(thread, fx.Int32(out.experts.shape), threads):
        number = fx.Int32(-1)
        entry = block * plan.unit
        if entry < total:
            number = table[2 * plan.experts + expert_at(table, entry, plan)]
        (out.experts.iter + block).store(number)


def sentinel_of(ids: Any, plan: SortPlan) -> Any:
    """Return the packed id of an entry without a pair: slots * 2^24 + tokens."""
    return fx.Int32(ids.shape[0]) | (plan.slots << 24)


@flyc.jit
def keep_lengths(ids: Any, tokens: Any, total: Any, out: Outputs, plan: SortPlan) -> None:
    """Write the length with padding and the number of tokens."""
    count = fx.Int32(ids.shape[0])
    if fx.const_expr(plan.counted):
        count = fx.min(count, tokens.iter.load())
    if fx.thread_idx.x == 0:
        out.valid.iter.store(total)
        (out.valid.iter + 1).store(count)


@flyc.kernel
def sort_kernel(
    I: fx.Tensor, W: fx.Tensor, K: fx.Tensor, T: fx.Tensor, out: Outputs,
    plan: fx.Constexpr[SortPlan],
) -> None:  # fmt: skip
    """Sort all pairs in one workgroup."""
    shared = fx.SharedAllocator()
    counts = shared.allocate(ArrayType(fx.Int32, waves_of(plan) * plan.experts))
    table = shared.allocate(ArrayType(fx.Int32, 3 * plan.experts))
    stretch = own_stretch(I, T, plan)
    count_pairs(I, K, counts, stretch, plan)

    def total_of(expert: Any) -> Any:
        total = counts[expert]
        for wave in fx.range_constexpr(1, waves_of(plan)):
            total = total + counts[wave * plan.experts + expert]
        return total

    total = place_experts(total_of, K, table, plan)
    fx.gpu.barrier()
    place_waves(counts, lambda expert: table[expert], plan)
    scatter_pairs((I, W, K), counts, out, stretch, plan)
    pad_entries(table, total, out, sentinel_of(I, plan), (fx.thread_idx.x, plan.block), plan)
    keep_lengths(I, T, total, out, plan)


@flyc.kernel
def count_kernel(
    I: fx.Tensor, K: fx.Tensor, T: fx.Tensor, H: fx.Tensor, plan: fx.Constexpr[SortPlan]
) -> None:
    """H[chunk] = pairs of each expert in the chunk."""
    counts = fx.SharedAllocator().allocate(ArrayType(fx.Int32, waves_of(plan) * plan.experts))
    count_pairs(I, K, counts, own_stretch(I, T, plan), plan)
    start = H.iter + fx.block_idx.x * plan.experts
    for expert in range(fx.thread_idx.x, plan.experts, plan.block):
        total = counts[expert]
        for wave in fx.range_constexpr(1, waves_of(plan)):
            total = total + counts[wave * plan.experts + expert]
        (start + expert).store(total)


@flyc.kernel
def place_kernel(
    I: fx.Tensor, K: fx.Tensor, T: fx.Tensor, H: fx.Tensor, out: Outputs, chunks: fx.Int32,
    plan: fx.Constexpr[SortPlan],
) -> None:  # fmt: skip
    """H = where the pairs of each chunk and expert begin; then a table of the experts."""

    def total_of(expert: Any) -> Any:
        total = fx.Int32(0)
        for chunk in range(chunks):
            place = H.iter + (chunk * plan.experts + expert)
            count = place.load()
            place.store(total)
            total = total + count
        return total

    table = H.iter + chunks * plan.experts
    total = place_experts(total_of, K, table, plan)
    keep_lengths(I, T, total, out, plan)
    if fx.thread_idx.x == 0:
        (table + 3 * plan.experts).store(total)


@flyc.kernel
def scatter_kernel(
    I: fx.Tensor, W: fx.Tensor, K: fx.Tensor, T: fx.Tensor, H: fx.Tensor, out: Outputs,
    chunks: fx.Int32, plan: fx.Constexpr[SortPlan],
) -> None:  # fmt: skip
    """Write the pairs of each chunk to their places."""
    counts = fx.SharedAllocator().allocate(ArrayType(fx.Int32, waves_of(plan) * plan.experts))
    stretch = own_stretch(I, T, plan)
    count_pairs(I, K, counts, stretch, plan)
    table = H.iter + chunks * plan.experts
    start = H.iter + fx.block_idx.x * plan.experts
    place_waves(counts, lambda expert: (start + expert).load() + (table + expert).load(), plan)
    scatter_pairs((I, W, K), counts, out, stretch, plan)
    thread = fx.block_idx.x * plan.block + fx.thread_idx.x
    total = (table + 3 * plan.experts).load()
    pad_entries(table, total, out, sentinel_of(I, plan), (thread, chunks * plan.block), plan)


@flyc.jit
def launch_sort(
    I: fx.Tensor, W: fx.Tensor, K: fx.Tensor, T: fx.Tensor, out: Outputs,
    plan: fx.Constexpr[SortPlan], stream: fx.Stream,
) -> None:  # fmt: skip
    """Sort in one launch."""
    sort_kernel(I, W, K, T, out, plan).launch(grid=(1,), block=(plan.block,), stream=stream)


@flyc.jit
def launch_sort_phases(
    I: fx.Tensor, W: fx.Tensor, K: fx.Tensor, T: fx.Tensor, H: fx.Tensor, out: Outputs,
    plan: fx.Constexpr[SortPlan], stream: fx.Stream,
) -> None:  # fmt: skip
    """Sort in three launches; H is a workspace."""
    chunks = (I.shape[0] * plan.slots + (plan.chunk - 1)) // plan.chunk
    block = (plan.block,)
    count_kernel(I, K, T, H, plan).launch(grid=(chunks,), block=block, stream=stream)
    place_kernel(I, K, T, H, out, chunks, plan).launch(grid=(1,), block=block, stream=stream)
    scatter_kernel(I, W, K, T, H, out, chunks, plan).launch(
        grid=(chunks,), block=block, stream=stream
    )
