"""Reductions and scans of segments: runs of neighbouring threads that flags mark the ends of.

A *head* flag is set on the first item of a segment, a *tail* flag on the last. The first item
begins a segment and the last ends one, whatever their flags are.
"""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError
from flydsl.expr.numeric import Boolean, Int32, as_numeric
from flydsl.expr.numeric.operators import select
from flydsl.ext.coop.block import block_inclusive_scan
from flydsl.ext.coop.neighbours import block_shuffle_down
from flydsl.ext.coop.operations import Operation, operation
from flydsl.ext.coop.places import item_list, like_items, moved
from flydsl.ext.coop.warp import (
    chosen,
    group_width,
    items_of,
    lane_in_group,
    lanes_present,
    linear_thread,
    shuffled,
    warp_inclusive_scan,
)

__all__ = [
    "block_segmented_inclusive_scan",
    "block_segmented_reduce",
    "warp_head_segmented_reduce",
    "warp_head_segmented_sum",
    "warp_segmented_inclusive_scan",
    "warp_tail_segmented_reduce",
    "warp_tail_segmented_sum",
]


def _flag(flag: Any) -> Boolean:
    number = as_numeric(flag)
    if number is None:
        raise UserTypeError("a segment's flag is a Boolean", code="FLY-U280", value=flag)
    return Boolean(number)


def _joined(how: Operation) -> Any:
    """Return the operation on values with their flags that stops at heads of segments."""

    def join(a: Any, b: Any) -> Any:
        value = chosen(b["head"], b["value"], how(a["value"], b["value"]))
        return {"head": a["head"] | b["head"], "value": value}

    return join


def _pairs(value: Any, flag: Any, how: Operation) -> list[Any]:
    items = items_of(value, how)
    flags = [_flag(item) for item in item_list(flag, len(items))]
    return [{"head": f, "value": x} for f, x in zip(flags, items, strict=True)]


def warp_segmented_inclusive_scan(value: Any, flag: Any, op: Any, *, width: Any = None) -> Any:
    """Return the combination of the values from the head of the lane's segment up to the lane.

    Args:
        value: Number, vector, or a value of several parts; a list or tuple of items.
        flag: Whether the lane (or each item) begins a segment.
        op: A name or function, see `operations.operation`.
        width: Lanes per group, where segments end as well.

    Raises:
        UserError: Something does not fit.
    """
    how = operation(op)
    found = warp_inclusive_scan(_pairs(value, flag, how), _joined(how), width=width)
    return like_items(value, [x["value"] for x in found])


def _warp_reduce(value: Any, head: Boolean, op: Any, width: Any, valid_items: Any) -> Any:
    """Combine segments that begin at heads; every lane gets the combination of its segment."""
    lanes = group_width(width)
    present = lanes_present(lanes, valid_items)
    lane = lane_in_group(lanes)
    upto = warp_segmented_inclusive_scan(value, head, op, width=lanes)
    # The lane before the next head holds the whole segment; look for it by doubling.
    bound = Int32(lanes) if present is None else present
    none = Int32(lanes)
    following = shuffled(select(head, lane, none), 1, lanes, "down")
    following = select(lane + 1 < bound, following, none)
    distance = 1
    while distance < lanes:
        further = shuffled(following, distance, lanes, "down")
        further = select(lane + distance < bound, further, none)
        following = select(following < further, following, further)
        distance *= 2
    end = select(following < bound, following, bound) - 1
    return shuffled(upto, select(end < lane, lane, end), lanes, "idx")


def warp_head_segmented_reduce(
    value: Any, flag: Any, op: Any, *, width: Any = None, valid_items: Any = None
) -> Any:
    """Combine the values of segments of lanes; every lane gets the combination of its segment.

    Args:
        value: Number, vector, or a value of several parts.
        flag: Whether a segment begins at the lane.
        op: A name or function, see `operations.operation`.
        width: Lanes per group, where segments end as well.
        valid_items: How many leading lanes of a group take part; lanes behind them get anything.

    Raises:
        UserError: Something does not fit.
    """
    return _warp_reduce(value, _flag(flag), op, width, valid_items)


def warp_tail_segmented_reduce(
    value: Any, flag: Any, op: Any, *, width: Any = None, valid_items: Any = None
) -> Any:
    """Do what `warp_head_segmented_reduce` does, where the flag is set at the ends of segments."""
    lanes = group_width(width)
    before = shuffled(_flag(flag), 1, lanes, "up")
    head = before | (lane_in_group(lanes) == 0)
    return _warp_reduce(value, head, op, width, valid_items)


def warp_head_segmented_sum(
    value: Any, flag: Any, *, width: Any = None, valid_items: Any = None
) -> Any:
    """Return the sum of the lane's segment, see `warp_head_segmented_reduce`."""
    return warp_head_segmented_reduce(value, flag, "sum", width=width, valid_items=valid_items)


def warp_tail_segmented_sum(
    value: Any, flag: Any, *, width: Any = None, valid_items: Any = None
) -> Any:
    """Return the sum of the lane's segment, see `warp_tail_segmented_reduce`."""
    return warp_tail_segmented_reduce(value, flag, "sum", width=width, valid_items=valid_items)


def block_segmented_inclusive_scan(value: Any, flag: Any, op: Any) -> Any:
    """Return the combination of the values from the head of the segment up to each item.

    Args:
        value: As for `block_inclusive_scan`: items of one thread come after those of the one
            before.
        flag: Whether a segment begins at the thread, or at each item.
        op: A name or function.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    how = operation(op)
    found = block_inclusive_scan(_pairs(value, flag, how), _joined(how))
    return like_items(value, [x["value"] for x in found])


def block_segmented_reduce(value: Any, flag: Any, op: Any) -> Any:
    """Combine the values of segments; every item gets the combination of its segment.

    Args:
        value: As for `block_segmented_inclusive_scan`.
        flag: Whether a segment begins at the thread, or at each item.
        op: A name or function.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    how = operation(op)
    pairs = _pairs(value, flag, how)
    pairs[0]["head"] = pairs[0]["head"] | (linear_thread() == 0)
    heads = [x["head"] for x in pairs]
    upto = [x["value"] for x in block_inclusive_scan(pairs, _joined(how))]
    numbers = block_inclusive_scan([head.to(Int32) for head in heads], "sum")
    segments = [number - 1 for number in numbers]
    tails = block_shuffle_down(heads, last=True)
    # The last item of a segment holds all of it; one place per segment.
    found = moved(upto, segments, segments, only=tails, fill=False)
    return like_items(value, found)
