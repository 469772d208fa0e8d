"""Combining one value per thread over all threads of a row.

The order of the operations is fixed, so results are the same in every run, and all threads of a row
get the same bits.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl.ext.coop import Operation, block_reduce
from flydsl_kernels.norm.device.rows import Share

__all__ = ["combine_row", "largest_of_row", "smallest_of_row", "sum_of", "sum_row"]


def _smaller(a: Any, b: Any) -> Any:
    return fx.minnumf(a, b)


def _larger(a: Any, b: Any) -> Any:
    return fx.maxnumf(a, b)


def combine_row(value: Any, operation: Any, share: Share) -> Any:
    """Combine an f32 value over the threads that share a row, or a part; every thread gets it.

    Args:
        value: The thread's, or several in a dict.
        operation: As for `flydsl.ext.coop.block_reduce`.
        share: The thread's share.
    """
    return block_reduce(value, operation, width=share.plan.lanes)


def sum_row(values: list[Any], share: Share) -> list[Any]:
    """Sum f32 values over the threads that share a row, or a part of it."""
    found = combine_row(dict(enumerate(values)), "sum", share)
    return [found[i] for i in range(len(values))]


def largest_of_row(value: Any, share: Share) -> Any:
    """Return the maximum over the threads that share a row, or a part of it, NaN ignored."""
    return combine_row(value, Operation("maxnum", _larger, True), share)


def smallest_of_row(value: Any, share: Share) -> Any:
    """Return the minimum over the threads that share a row, or a part of it, NaN ignored."""
    return combine_row(value, Operation("minnum", _smaller, True), share)


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
