"""Cooperation of threads: reductions, scans and broadcasts of a warp or a block (``fx.coop``).

* `warp`: what the lanes of a warp, or of a power-of-two group of them, compute together.
* `block`: the same for all threads of a block of any size, through shared memory.
* `operations`: combining operations by name (``"sum"``, ``"max"``, …) or as functions.
* `parts`: which numbers and vectors a value is made of.
* `welford`: mean and variance in one pass.

Values are numbers, vectors, or several of them in a struct, named tuple, dict, namespace or
dataclass; a plain list or tuple holds *items* of one thread, in order. The operation must be
associative. It need not be commutative: operands are always combined in the order of the threads,
so the result of a sum of floats depends on the block size but is the same in every run.

All threads of the warp or block must make the call, in uniform control flow.
"""

from __future__ import annotations

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
from flydsl.ext.coop.welford import Welford, merge_welford

__all__ = [
    "BlockReduce",
    "BlockScan",
    "Welford",
    "block_broadcast",
    "block_exclusive_scan",
    "block_exclusive_sum",
    "block_inclusive_scan",
    "block_inclusive_sum",
    "block_max",
    "block_min",
    "block_reduce",
    "block_scan",
    "block_sum",
    "merge_welford",
    "warp_broadcast",
    "warp_exclusive_scan",
    "warp_exclusive_sum",
    "warp_inclusive_scan",
    "warp_inclusive_sum",
    "warp_max",
    "warp_min",
    "warp_reduce",
    "warp_scan",
    "warp_scan_with_aggregate",
    "warp_sum",
]
