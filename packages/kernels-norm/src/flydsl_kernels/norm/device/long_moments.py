"""Mean and scale of a row that does not fit in registers, in one pass over it.

Mean and squared deviation of each thread's elements are updated vector by vector (Welford 1962;
Chan, Golub and LeVeque 1979, for merging), so the row is read twice, not three times. They are of
x - pivot, where the pivot is the mean of the first vectors of the row, or of the workgroup's part
of it, one of each thread. That is at least a thirty-second of them, so their mean is at most six
standard deviations away from it, and a large common offset costs no accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.norm.device.combine import sum_row
from flydsl_kernels.norm.device.moments import scale_of
from flydsl_kernels.norm.device.parts import keep_part, read_parts
from flydsl_kernels.norm.device.rows import Share, load_tail, load_vector, ratio

__all__ = ["keep_part_moments", "long_moments"]


def vector_moments(value: Any, vector: int) -> tuple[Any, Any]:
    """Return mean and sum of squared deviations of an f32 vector."""
    mean = value.reduce("add") * (1.0 / vector)
    off = value - mean
    return mean, (off * off).reduce("add")


@flyc.jit
def thread_moments(start: Any, share: Share, pivot: Any) -> tuple[Any, Any, Any]:
    """Return count, mean less `pivot`, and squared deviation of a thread's elements of a row."""
    vector = share.plan.vector
    count, mean, squares = fx.Float32(0.0), fx.Float32(0.0), fx.Float32(0.0)
    for index in range(share.first, share.full, share.plan.lanes):
        value = load_vector(start, index, share).to(fx.Float32)
        new_mean, new_squares = vector_moments(value - pivot, vector)
        before = count
        count = count + float(vector)
        delta = new_mean - mean
        part = vector / count
        mean = mean + delta * part
        squares = squares + new_squares + delta * delta * (before * part)
    if fx.const_expr(share.plan.tail):
        last = load_tail(start, share, 0.0).to(fx.Float32) - pivot
        if share.in_tail:
            count = count + 1.0
            delta = last - mean
            mean = mean + delta / count
            squares = squares + delta * (last - mean)
    return count, mean, squares


@flyc.jit
def thread_square_sum(start: Any, share: Share) -> Any:
    """Return the sum of squares of a thread's elements of a row."""
    total = fx.Vector.filled((share.plan.vector,), 0.0, fx.Float32)
    for index in range(share.first, share.full, share.plan.lanes):
        value = load_vector(start, index, share).to(fx.Float32)
        total = fx.math.fma(value, value, total)
    squares = total.reduce("add")
    if fx.const_expr(share.plan.tail):
        last = load_tail(start, share, 0.0).to(fx.Float32)
        squares = fx.math.fma(last, last, squares)
    return squares


def merged(found: Any, add: Callable[[list[Any]], list[Any]], columns: Any) -> tuple[Any, Any]:
    """Return mean less the pivot and squared deviation of several groups of elements together.

    Args:
        found: Count, mean less the pivot, and squared deviation of each group.
        add: Returns the sums over the groups of some numbers of each.
        columns: Number of elements of all groups.
    """
    count, mean, squares = found
    (total,) = add([count * mean])
    middle = ratio(total, columns)
    off = mean - middle
    left, squares = add([count * off, squares + count * off * off])
    left = ratio(left, columns)
    return middle + left, squares - left * left * columns


def pivot_of(start: Any, share: Share) -> Any:
    """Return the mean of the first vectors of the threads."""
    first = load_vector(start, share.first, share).to(fx.Float32).reduce("add")
    (total,) = sum_row([first], share)
    return total * (1.0 / (share.plan.lanes * share.plan.vector))


def keep_part_moments(start: Any, share: Share, norm: Any, partial: Any) -> None:
    """Store what `long_moments` needs of the workgroup's part of a row."""
    if not norm.mean:
        keep_part(partial, share, sum_row([thread_square_sum(start, share)], share))
        return
    pivot = pivot_of(start, share)
    found = thread_moments(start, share, pivot)
    (count,) = sum_row([found[0]], share)
    mean, squares = merged(found, lambda values: sum_row(values, share), count)
    keep_part(partial, share, [count, mean, squares, pivot])


def _vector_sums(values: list[Any]) -> list[Any]:
    return [value.reduce("add") for value in values]


def long_moments(
    start: Any, share: Share, columns: Any, norm: Any, partial: Any
) -> tuple[Any, Any, Any]:
    """Return pivot, scale and shift of a row: x̂ = (x - pivot) * scale + shift.

    Args:
        start: Pointer to the row.
        share: The thread's share.
        columns: Length of the row as `Float32`.
        norm: Its `mean` and `eps`.
        partial: What `keep_part_moments` stored, of rows that are split.
    """
    zero, split = fx.Float32(0.0), share.plan.splits > 1
    if not norm.mean:
        if split:
            (squares,) = _vector_sums(read_parts(partial, share, 1))
        else:
            (squares,) = sum_row([thread_square_sum(start, share)], share)
        return zero, scale_of(ratio(squares, columns), norm.eps), zero
    if split:
        count, means, deviations, pivots = read_parts(partial, share, 4)
        pivot = pivots[0]
        found = count, means + (pivots - pivot), deviations
        mean, squares = merged(found, _vector_sums, columns)
    else:
        pivot = pivot_of(start, share)
        found = thread_moments(start, share, pivot)
        mean, squares = merged(found, lambda values: sum_row(values, share), columns)
    scale = scale_of(fx.max(ratio(squares, columns), zero), norm.eps)
    return pivot, scale, -mean * scale
