"""Cooperation of threads of a warp or a block (``fx.coop``).

* `warp`: reductions, scans and broadcasts of the lanes of a warp, or of a power-of-two group.
* `block`: the same for all threads of a block of any size, through shared memory.
* `segments`: reductions and scans of runs of neighbours that flags mark.
* `batched`: several reductions of a warp at once.
* `sorting`, `radix`: sorts by comparison and by bits, and the largest keys.
* `exchange`, `transfers`: the arrangements of items over threads, and loads and stores of them.
* `neighbours`, `counting`: shifts, differences and heads of runs; histograms, ranks, repetition.
* `forms`: all of these as classes specialised by ``[…]``, with storage of one's own.
* `operations`: combining operations by name (``"sum"``, ``"max"``, …) or as functions.
* `parts`, `places`, `cells`: what values are made of, where items lie, and shared memory for them.
* `welford`: mean and variance in one pass.

Values are numbers, vectors, or several of them in a struct, named tuple, dict, namespace or
dataclass; a plain list or tuple holds *items* of one thread, in order. The operation must be
associative. It need not be commutative: operands are always combined in the order of the threads,
so the result of a sum of floats depends on the block size but is the same in every run.

All threads of the warp or block must make the call, in uniform control flow. To add an operation,
write it in the module of its kind with `places` and `cells`, export it here, and add it to a form.
"""

from __future__ import annotations

from flydsl.ext.coop.batched import (
    warp_reduce_batched,
    warp_reduce_batched_to_blocked,
    warp_reduce_batched_to_striped,
    warp_sum_batched,
    warp_sum_batched_to_blocked,
    warp_sum_batched_to_striped,
)
from flydsl.ext.coop.block import (
    BlockReduce,
    BlockScan,
    block_broadcast,
    block_exclusive_scan,
    block_exclusive_sum,
    block_inclusive_scan,
    block_inclusive_sum,
    block_max,
    block_min,
    block_reduce,
    block_scan,
    block_sum,
)
from flydsl.ext.coop.counting import (
    block_histogram,
    block_radix_rank,
    block_run_length_decode,
)
from flydsl.ext.coop.exchange import (
    block_exchange,
    block_scatter,
    warp_exchange,
    warp_scatter_to_striped,
)
from flydsl.ext.coop.forms import (
    BlockAdjacentDifference,
    BlockDiscontinuity,
    BlockExchange,
    BlockHistogram,
    BlockLoad,
    BlockMergeSort,
    BlockRadixRank,
    BlockRadixSort,
    BlockRunLengthDecode,
    BlockShuffle,
    BlockStore,
    BlockTopK,
    WarpBitonicSort,
    WarpExchange,
    WarpLoad,
    WarpMergeSort,
    WarpReduce,
    WarpReduceBatched,
    WarpScan,
    WarpStore,
)
from flydsl.ext.coop.neighbours import (
    block_adjacent_difference_left,
    block_adjacent_difference_right,
    block_flag_heads,
    block_flag_heads_and_tails,
    block_flag_tails,
    block_rotate,
    block_shuffle,
    block_shuffle_down,
    block_shuffle_up,
)
from flydsl.ext.coop.operations import Operation
from flydsl.ext.coop.radix import (
    block_radix_sort,
)
from flydsl.ext.coop.segments import (
    block_segmented_inclusive_scan,
    block_segmented_reduce,
    warp_head_segmented_reduce,
    warp_head_segmented_sum,
    warp_segmented_inclusive_scan,
    warp_tail_segmented_reduce,
    warp_tail_segmented_sum,
)
from flydsl.ext.coop.sorting import (
    block_merge_sort,
    block_top_k,
    warp_bitonic_sort,
    warp_merge_sort,
)
from flydsl.ext.coop.transfers import (
    block_load,
    block_store,
    warp_load,
    warp_store,
)
from flydsl.ext.coop.warp import (
    warp_broadcast,
    warp_exclusive_scan,
    warp_exclusive_sum,
    warp_inclusive_scan,
    warp_inclusive_sum,
    warp_max,
    warp_min,
    warp_reduce,
    warp_scan,
    warp_scan_with_aggregate,
    warp_sum,
)
from flydsl.ext.coop.welford import (
    Welford,
    merge_welford,
)

__all__ = [
    "BlockAdjacentDifference",
    "BlockDiscontinuity",
    "BlockExchange",
    "BlockHistogram",
    "BlockLoad",
    "BlockMergeSort",
    "BlockRadixRank",
    "BlockRadixSort",
    "BlockReduce",
    "BlockRunLengthDecode",
    "BlockScan",
    "BlockShuffle",
    "BlockStore",
    "BlockTopK",
    "Operation",
    "WarpBitonicSort",
    "WarpExchange",
    "WarpLoad",
    "WarpMergeSort",
    "WarpReduce",
    "WarpReduceBatched",
    "WarpScan",
    "WarpStore",
    "Welford",
    "block_adjacent_difference_left",
    "block_adjacent_difference_right",
    "block_broadcast",
    "block_exchange",
    "block_exclusive_scan",
    "block_exclusive_sum",
    "block_flag_heads",
    "block_flag_heads_and_tails",
    "block_flag_tails",
    "block_histogram",
    "block_inclusive_scan",
    "block_inclusive_sum",
    "block_load",
    "block_max",
    "block_merge_sort",
    "block_min",
    "block_radix_rank",
    "block_radix_sort",
    "block_reduce",
    "block_rotate",
    "block_run_length_decode",
    "block_scan",
    "block_scatter",
    "block_segmented_inclusive_scan",
    "block_segmented_reduce",
    "block_shuffle",
    "block_shuffle_down",
    "block_shuffle_up",
    "block_store",
    "block_sum",
    "block_top_k",
    "merge_welford",
    "warp_bitonic_sort",
    "warp_broadcast",
    "warp_exchange",
    "warp_exclusive_scan",
    "warp_exclusive_sum",
    "warp_head_segmented_reduce",
    "warp_head_segmented_sum",
    "warp_inclusive_scan",
    "warp_inclusive_sum",
    "warp_load",
    "warp_max",
    "warp_merge_sort",
    "warp_min",
    "warp_reduce",
    "warp_reduce_batched",
    "warp_reduce_batched_to_blocked",
    "warp_reduce_batched_to_striped",
    "warp_scan",
    "warp_scan_with_aggregate",
    "warp_scatter_to_striped",
    "warp_segmented_inclusive_scan",
    "warp_store",
    "warp_sum",
    "warp_sum_batched",
    "warp_sum_batched_to_blocked",
    "warp_sum_batched_to_striped",
    "warp_tail_segmented_reduce",
    "warp_tail_segmented_sum",
]
