"""Combining one value per thread over all threads of a row.

The order of the operations is fixed, so results are the same in every run, and all threads of a row
get the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flydsl.expr as fx
from flydsl.expr.storage import ArrayType
from flydsl_kernels.norm.device.rows import Share

__all__ = ["add", "combine_row", "largest", "sum_of"]


def add(a: Any, b: Any) -> Any:
    """Return the sum."""
    return a + b


def largest(a: Any, b: Any) -> Any:
    """Return the maximum, the other one where one is NaN."""
    return fx.maxnumf(a, b)


def combine_row(values: list[Any], combine: Callable[[Any, Any], Any], share: Share) -> list[Any]:
    """Combine f32 values over the threads that share a row; every thread gets the results.

    Args:
        values: The thread's values, each combined for itself.
        combine: Commutative and associative up to rounding.
        share: The thread's share. Rows of more lanes than a wave has go through shared memory
            that belongs to this call, with one barrier.
    """
    plan = share.plan
    wave = fx.gpu.num_warp_threads()
    width = min(wave, plan.lanes)
    offset = 1
    while offset < width:
        values = [combine(value, fx.gpu.shuffle_xor(value, offset)) for value in values]
        offset *= 2
    if plan.lanes == width:
        return values
    count, waves = len(values), plan.block // wave
    scratch = share.shared.allocate(ArrayType(fx.Float32, count * waves))
    own = fx.thread_idx.x // wave
    for position, value in enumerate(values):
        scratch[position * waves + own] = value  # the lanes of a wave write the same value
    fx.gpu.barrier()
    sharing = plan.lanes // wave
    first = fx.Int32(0) if plan.rows == 1 else own // sharing * sharing
    out = []
    for position in range(count):
        items = [scratch[position * waves + first + other] for other in range(sharing)]
        while len(items) > 1:
            items = [combine(items[i], items[i + 1]) for i in range(0, len(items), 2)]
        out.append(items[0])
    return out


def sum_of(parts: list[Any], chunks: int) -> Any:
    """Return the sum of a thread's values: vectors first, the tail's element if any after them."""
    total = None
    if chunks:
        vector = parts[0]
        for part in parts[1:chunks]:
            vector = vector + part
        total = vector.reduce("add")
    for part in parts[chunks:]:
        total = part if total is None else total + part
    return fx.Float32(0.0) if total is None else total
