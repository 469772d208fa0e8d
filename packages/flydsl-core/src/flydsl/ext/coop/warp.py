"""What the lanes of a warp compute together, by shuffles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr import gpu
from flydsl.expr.ambient import require
from flydsl.expr.numeric import Int32, as_numeric
from flydsl.expr.numeric.operators import select
from flydsl.expr.vector import Vector
from flydsl.ext.coop.operations import Operation, identity_of, operation
from flydsl.ext.coop.parts import map_parts, split

__all__ = [
    "Place",
    "Scan",
    "beginning",
    "chosen",
    "fold_items",
    "group_width",
    "is_items",
    "items_of",
    "lane_in_group",
    "lanes_present",
    "like_given",
    "linear_thread",
    "reduce_lanes",
    "scan_lanes",
    "shuffled",
    "spread",
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


def shuffled(value: Any, offset: Any, width: int, mode: str) -> Any:
    """Return `value` of another lane, part by part."""
    return map_parts(lambda part: gpu.shuffle(part, offset, width, mode), value)


def chosen(condition: Any, yes: Any, no: Any) -> Any:
    """Return `yes` where the condition holds, else `no`, part by part."""
    return map_parts(lambda a, b: select(condition, a, b).to(a.dtype), yes, no)


def group_width(width: Any) -> int:
    """Return the lanes per group.

    Raises:
        UserValueError: No power of two of at most the warp size.
        UserTypeError: No compile-time int.
    """
    lanes = gpu.num_warp_threads()
    if width is None:
        return lanes
    number = as_numeric(width)
    if number is None or not number.is_integer or not number.is_static():
        raise UserTypeError("a group's width is a compile-time int", code="FLY-U283", value=width)
    count = int(number.value)
    if not 1 <= count <= lanes or count & (count - 1):
        raise UserValueError(
            "a group's width is a power of two of at most the warp size",
            code="FLY-U283",
            value=count,
            allowed=f"1, 2, 4, …, {lanes}",
        )
    return count


def lane_in_group(width: int) -> Any:
    """Return the lane's number in its group of `width` lanes."""
    lane = gpu.lane_id()
    return lane if width == gpu.num_warp_threads() else lane & (width - 1)


def linear_thread() -> Any:
    """Return the thread's number in its block; x is fastest."""
    block = _block()
    x = gpu.thread_idx.x
    if block is not None and block[1] == block[2] == 1:
        return x
    wide, high = (gpu.block_dim.x, gpu.block_dim.y) if block is None else block[:2]
    return x + (gpu.thread_idx.y + gpu.thread_idx.z * high) * wide


def _block() -> tuple[int, int, int] | None:
    session = require("a reduction")
    return None if session.kernel is None else session.kernel.block


def lanes_present(width: int, valid_items: Any) -> Any:
    """Return how many lanes of the group hold values; None for all of them."""
    block = _block()
    if block is not None:
        total: Any = block[0] * block[1] * block[2]
    else:
        total = gpu.block_dim.x * gpu.block_dim.y * gpu.block_dim.z
    present = None
    if not isinstance(total, int) or total % width:
        start = linear_thread() - lane_in_group(width)
        present = _least(total - start, width)
    if valid_items is None:
        return present
    given = as_numeric(valid_items)
    if given is None or not given.is_integer:
        raise UserTypeError("valid_items is an integer", code="FLY-U283", value=valid_items)
    if given.is_static():
        if not 1 <= given.value <= width:
            raise UserValueError(
                "valid_items counts lanes of the group",
                code="FLY-U283",
                value=int(given.value),
                allowed=f"1 to {width}",
            )
        if given.value == width:
            return present
    limited = given.to(Int32)
    return limited if present is None else _least(limited, present)


def _least(a: Any, b: Any) -> Any:
    return select(a < b, a, Int32(b))


def is_items(value: Any) -> bool:
    """Return whether a value is a plain list or tuple: several items of one thread."""
    return isinstance(value, (list, tuple)) and not hasattr(value, "_asdict")


def fold_items(value: Any, op: Operation) -> Any:
    """Return the items of a list or tuple combined in order; other values as they are.

    Raises:
        UserValueError: There are no items.
    """
    if not is_items(value):
        parts, shape = split(value)  # checks it, and makes numerics of Python numbers
        return shape(iter(parts))
    if not value:
        raise UserValueError("there are no items to combine", code="FLY-U280", value=value)
    items = [fold_items(item, op) for item in value]
    result = items[0]
    for item in items[1:]:
        result = op(result, item)
    return result


def reduce_lanes(value: Any, op: Operation, width: int, present: Any = None) -> Any:
    """Combine one value per lane over groups of `width` lanes; all lanes get the result.

    Args:
        value: The lane's value.
        op: The operation.
        width: Lanes per group, a power of two.
        present: How many leading lanes of the group take part (at least 1); None: all.
    """
    distance = 1
    lane: Any = None if present is None and op.commutative else lane_in_group(width)
    while distance < width:
        if present is None:
            other = shuffled(value, distance, width, "xor")
            if op.commutative:
                value = op(value, other)
            else:
                first = (lane & distance) == 0
                value = op(chosen(first, value, other), chosen(first, other, value))
        else:
            other = shuffled(value, distance, width, "down")
            value = chosen(lane + distance < present, op(value, other), value)
        distance *= 2
    return value if present is None or width == 1 else shuffled(value, 0, width, "idx")


def scan_lanes(value: Any, op: Operation, width: int) -> Any:
    """Return the combination of the group's values up to and including the lane's."""
    lane = lane_in_group(width)
    distance = 1
    while distance < width:
        other = shuffled(value, distance, width, "up")
        value = chosen(lane >= distance, op(other, value), value)
        distance *= 2
    return value


def warp_reduce(value: Any, op: Any, *, width: Any = None, valid_items: Any = None) -> Any:
    """Combine the lanes' values; every lane of a group gets the result.

    Args:
        value: Number, vector, or a value of several parts; a list or tuple of items is combined
            first.
        op: A name or function, see `operations.operation`.
        width: Lanes per group, a power of two; default: the warp.
        valid_items: How many leading lanes of the group take part, at least 1 (may be computed at
            run time); default: all that the block has.

    Returns:
        The combination, in the type of the value; floats are rounded in every step.

    Raises:
        UserError: The operation, width or value does not fit.
    """
    lanes, how = group_width(width), operation(op)
    return reduce_lanes(fold_items(value, how), how, lanes, lanes_present(lanes, valid_items))


def warp_sum(value: Any, *, width: Any = None, valid_items: Any = None) -> Any:
    """Return the sum over the group, in the type of the value (integers wrap around)."""
    return warp_reduce(value, "sum", width=width, valid_items=valid_items)


def warp_max(value: Any, *, width: Any = None, valid_items: Any = None) -> Any:
    """Return the largest value of the group; NaN if one is."""
    return warp_reduce(value, "max", width=width, valid_items=valid_items)


def warp_min(value: Any, *, width: Any = None, valid_items: Any = None) -> Any:
    """Return the smallest value of the group; NaN if one is."""
    return warp_reduce(value, "min", width=width, valid_items=valid_items)


def warp_broadcast(value: Any, lane: Any = 0, *, width: Any = None) -> Any:
    """Return the value of one lane of the group, which must be there (see `warp_reduce`).

    Args:
        value: Number, vector, or a value of several parts.
        lane: Number of the lane in its group; may be computed at run time.
        width: Lanes per group.

    Raises:
        UserValueError: A compile-time lane outside the group.
    """
    lanes = group_width(width)
    number = as_numeric(lane)
    if number is not None and number.is_static() and not 0 <= number.value < lanes:
        raise UserValueError(
            "there is no such lane", code="FLY-U283", value=lane, allowed=f"0 to {lanes - 1}"
        )
    return shuffled(value, lane, lanes, "idx")


@dataclass(frozen=True, slots=True)
class Scan:
    """Results of a scan for one thread.

    Attributes:
        inclusive: One result per item.
        exclusive: The same without the item itself; empty if the first is not known.
        total: Combination of everything, or None if it was not asked for.
    """

    inclusive: list[Any]
    exclusive: list[Any]
    total: Any = None


def spread(items: list[Any], op: Operation, place: Place, start: Any, init: Any) -> Scan:
    """Return the scans of a thread's items, given what comes before the thread.

    Args:
        items: The thread's values, in order.
        op: The operation.
        place: What comes before the thread.
        start: Exclusive result of the very first item, or None.
        init: What comes before everything, or None.
    """
    inclusive: list[Any] = []
    own: Any = None
    for item in items:
        own = item if own is None else op(own, item)
        inclusive.append(chosen(place.first, own, op(place.before, own)))
    before = place.before
    if init is not None:
        inclusive = [op(init, item) for item in inclusive]
        before = op(init, before)
    if start is None:
        return Scan(inclusive, [])
    return Scan(inclusive, [chosen(place.first, start, before), *inclusive[:-1]])


@dataclass(frozen=True, slots=True)
class Place:
    """Where a thread is in a scan.

    Attributes:
        first: Whether nothing comes before it.
        before: Combination of what does; anything for the first.
    """

    first: Any
    before: Any


def items_of(value: Any, op: Operation) -> list[Any]:
    """Return the items of a list or tuple, or the one value, as numerics and vectors."""
    return [fold_items(item, op) for item in (value if is_items(value) else [value])]


def beginning(op: Operation, value: Any, init: Any, exclusive: bool) -> tuple[Any, Any]:
    """Return the first exclusive result and `init`, in the types of a value; None where unknown.

    Raises:
        UserTypeError: The first exclusive result is wanted, but not known.
    """
    if init is not None:
        init = map_parts(_converted, value, init)
        return init, init
    return (identity_of(op, value) if exclusive else None), None


def _converted(part: Any, init: Any) -> Any:
    if isinstance(part, Vector):
        return init if isinstance(init, Vector) else Vector.filled(part.shape, init, part.dtype)
    return type(part)(init.value) if init.is_static() else init


def like_given(value: Any, results: list[Any]) -> Any:
    """Return the results as a list or tuple if the value was one, else the only one."""
    return type(value)(results) if is_items(value) else results[0]


def _scan(value: Any, op: Any, width: Any, init: Any, wanted: str) -> Scan:
    lanes, how = group_width(width), operation(op)
    items = items_of(value, how)
    start, init = beginning(how, items[0], init, "exclusive" in wanted)
    upto = scan_lanes(fold_items(items, how), how, lanes)
    first = lane_in_group(lanes) == 0
    if len(items) == 1 and init is None and "exclusive" not in wanted:
        found = Scan([upto], [])
    else:
        place = Place(first, shuffled(upto, 1, lanes, "up"))
        found = spread(items, how, place, start, init)
    if "total" not in wanted:
        return found
    present = lanes_present(lanes, None)
    last: Any = lanes - 1 if present is None else present - 1
    return replace(found, total=shuffled(found.inclusive[-1], last, lanes, "idx"))


def warp_inclusive_scan(value: Any, op: Any, *, width: Any = None, init: Any = None) -> Any:
    """Return the combination of the values of the group's lanes up to this one, included.

    Args:
        value: As for `warp_reduce`. Of a list or tuple of items, each item gets its own result:
            those of a lane come after those of the lane before.
        op: A name or function.
        width: Lanes per group.
        init: Comes before all values.

    Raises:
        UserError: The operation, width or value does not fit.
    """
    return like_given(value, _scan(value, op, width, init, "").inclusive)


def warp_exclusive_scan(value: Any, op: Any, *, width: Any = None, init: Any = None) -> Any:
    """Return the combination of the values of the group's lanes before this one.

    Args:
        value: As for `warp_inclusive_scan`.
        op: A name or function.
        width: Lanes per group.
        init: Result of the first lane, and comes before all values; default: the neutral value of
            a named operation.

    Raises:
        UserTypeError: No `init` for a function, or something does not fit.
    """
    return like_given(value, _scan(value, op, width, init, "exclusive").exclusive)


def warp_scan(value: Any, op: Any, *, width: Any = None, init: Any = None) -> tuple[Any, Any]:
    """Return the inclusive and the exclusive scan."""
    found = _scan(value, op, width, init, "exclusive")
    return like_given(value, found.inclusive), like_given(value, found.exclusive)


def warp_scan_with_aggregate(
    value: Any, op: Any, *, width: Any = None, init: Any = None
) -> tuple[Any, Any, Any]:
    """Return the inclusive scan, the exclusive scan, and the combination of the whole group.

    The combination includes `init`.
    """
    found = _scan(value, op, width, init, "exclusive total")
    inclusive, exclusive = (like_given(value, x) for x in (found.inclusive, found.exclusive))
    return inclusive, exclusive, found.total


def warp_inclusive_sum(value: Any, *, width: Any = None) -> Any:
    """Return the sum of the values of the group's lanes up to this one, included."""
    return warp_inclusive_scan(value, "sum", width=width)


def warp_exclusive_sum(value: Any, *, width: Any = None) -> Any:
    """Return the sum of the values of the group's lanes before this one."""
    return warp_exclusive_scan(value, "sum", width=width)
