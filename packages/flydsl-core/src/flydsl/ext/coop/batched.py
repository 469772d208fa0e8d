"""Several reductions of a group of lanes at once, whose results the lanes share out."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserValueError
from flydsl.expr.numeric.operators import select
from flydsl.ext.coop.operations import Operation, operation
from flydsl.ext.coop.places import item_list, selected
from flydsl.ext.coop.warp import (
    chosen,
    group_width,
    lane_in_group,
    lanes_present,
    reduce_lanes,
    shuffled,
)

__all__ = [
    "warp_reduce_batched",
    "warp_reduce_batched_to_blocked",
    "warp_reduce_batched_to_striped",
    "warp_sum_batched",
    "warp_sum_batched_to_blocked",
    "warp_sum_batched_to_striped",
]


def _striped(values: list[Any], how: Operation, lanes: int) -> list[Any]:
    """Return the results that a lane owns: of the batches lane, lane + lanes and so on."""
    present = lanes_present(lanes, None)
    if present is not None:
        lane = lane_in_group(lanes)
        every = [reduce_lanes(value, how, lanes, present) for value in values]
        rows = [every[start : start + lanes] for start in range(0, len(every), lanes)]
        return [
            selected(row, select(lane < len(row), lane, lane.dtype(len(row) - 1))) for row in rows
        ]
    rows = [values[start : start + lanes] for start in range(0, len(values), lanes)]
    return [_shared_out(row, how, lanes) for row in rows]


def _shared_out(values: list[Any], how: Operation, lanes: int) -> Any:
    """Combine up to `lanes` batches; the lane gets that of its own number.

    In every step a lane gives away one half of its batches and gets what its partner has of the
    other half, so all steps together move about as much as there are batches.
    """
    width = 1 << (len(values) - 1).bit_length()
    left = [*values, *[values[-1]] * (width - len(values))]
    lane = lane_in_group(lanes)
    distance = 1
    while distance < lanes:
        upper = (lane & distance) != 0
        if len(left) > 1:
            even, odd = left[::2], left[1::2]
            kept = [chosen(upper, b, a) for a, b in zip(even, odd, strict=True)]
            given = [chosen(upper, a, b) for a, b in zip(even, odd, strict=True)]
        else:
            kept = given = left
        got = [shuffled(value, distance, lanes, "xor") for value in given]
        if how.commutative:
            left = [how(a, b) for a, b in zip(kept, got, strict=True)]
        else:
            left = [
                how(chosen(upper, b, a), chosen(upper, a, b))
                for a, b in zip(kept, got, strict=True)
            ]
        distance *= 2
    return left[0]


def warp_reduce_batched(values: Any, op: Any, *, width: Any = None) -> Any:
    """Combine several values of every lane, each with the same value of the other lanes.

    Args:
        values: A list or tuple of at most `width` values: the batches.
        op: A name or function, see `operations.operation`.
        width: Lanes per group.

    Returns:
        In lane i of a group the combination of batch i; anything where there is no such batch.

    Raises:
        UserError: Something does not fit.
    """
    own, lanes = item_list(values), group_width(width)
    if len(own) > lanes:
        raise UserValueError(
            "there are more batches than lanes in a group",
            code="FLY-U283",
            value=len(own),
            allowed=f"at most {lanes}",
            hint="use warp_reduce_batched_to_striped or _to_blocked",
        )
    return _striped(own, operation(op), lanes)[0]


def warp_reduce_batched_to_striped(values: Any, op: Any, *, width: Any = None) -> list[Any]:
    """Do what `warp_reduce_batched` does with any number of batches.

    Returns:
        In lane i the combinations of the batches i, i + width, i + 2 width, …; anything where
        there is no such batch.

    Raises:
        UserError: Something does not fit.
    """
    return _striped(item_list(values), operation(op), group_width(width))


def warp_reduce_batched_to_blocked(values: Any, op: Any, *, width: Any = None) -> list[Any]:
    """Do what `warp_reduce_batched` does with any number of batches.

    Returns:
        In lane i the combinations of the batches i * n to i * n + n - 1, where n is the number of
        batches over the width, rounded up; anything where there is no such batch.

    Raises:
        UserError: Something does not fit.
    """
    own, lanes = item_list(values), group_width(width)
    each = -(-len(own) // lanes)
    # Striped results of the batches in another order are blocked results.
    order = [min(lane * each + item, len(own) - 1) for item in range(each) for lane in range(lanes)]
    return _striped([own[batch] for batch in order], operation(op), lanes)


def warp_sum_batched(values: Any, *, width: Any = None) -> Any:
    """Return the sum of the lane's batch, see `warp_reduce_batched`."""
    return warp_reduce_batched(values, "sum", width=width)


def warp_sum_batched_to_striped(values: Any, *, width: Any = None) -> list[Any]:
    """Return the sums of the lane's batches, see `warp_reduce_batched_to_striped`."""
    return warp_reduce_batched_to_striped(values, "sum", width=width)


def warp_sum_batched_to_blocked(values: Any, *, width: Any = None) -> list[Any]:
    """Return the sums of the lane's batches, see `warp_reduce_batched_to_blocked`."""
    return warp_reduce_batched_to_blocked(values, "sum", width=width)
