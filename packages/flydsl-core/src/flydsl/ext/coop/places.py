"""Items of threads, the places where they lie, and the moves between places.

A thread has one or several *items* (a list or tuple; anything else is one item). Over a block or
a group of lanes they form one sequence, in one of these arrangements, where `T` threads have `n`
items each:

* ``"blocked"``: thread t has the places t * n to t * n + n - 1.
* ``"striped"``: thread t has the places t, t + T, t + 2 T, …
* ``"warp_striped"``: every warp has a stretch of its own, striped over its lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr import gpu
from flydsl.expr.numeric import Int32, as_numeric
from flydsl.expr.numeric.operators import select
from flydsl.expr.vector import Vector
from flydsl.ext.coop.cells import Cells, only_where
from flydsl.ext.coop.parts import map_parts, same_kinds, split
from flydsl.ext.coop.warp import chosen, is_items, lane_in_group, linear_thread

__all__ = [
    "ARRANGEMENTS",
    "block_threads",
    "integers",
    "item_list",
    "lane_places",
    "like_items",
    "moved",
    "places",
    "selected",
    "whole_groups",
]

ARRANGEMENTS = ("blocked", "striped", "warp_striped")


def block_threads() -> int:
    """Return the threads of the block.

    Raises:
        UserError: Its size is not known while tracing.
    """
    x, y, z = gpu.known_block_size()
    return x * y * z


def item_list(value: Any, count: int | None = None) -> list[Any]:
    """Return the items of a thread, all of one kind.

    Args:
        value: A list or tuple of items, or one item.
        count: How many there have to be.

    Raises:
        UserError: There are none or another number, or they are of different kinds.
    """
    items = list(value) if is_items(value) else [value]
    if not items or (count is not None and len(items) != count):
        raise UserValueError(
            "a thread has another number of items",
            code="FLY-U280",
            value=len(items),
            allowed="at least 1" if count is None else str(count),
        )
    shown = []
    for item in items:
        parts, shape = split(item)  # checks it, and makes numerics of Python numbers
        shown.append(shape(iter(parts)))
    return [same_kinds(shown[0], item) for item in shown]


def like_items(value: Any, results: list[Any]) -> Any:
    """Return the results in the form of the items: a list, a tuple, or the only one."""
    return type(value)(results) if is_items(value) else results[0]


def integers(value: Any, count: int, what: str) -> list[Any]:
    """Return one integer per item, as `Int32`.

    Raises:
        UserError: They are no integers, or another number of them.
    """
    numbers = [as_numeric(item) for item in item_list(value, count)]
    found = [number for number in numbers if number is not None and number.is_integer]
    if len(found) != count:
        raise UserTypeError(f"{what} are integers", code="FLY-U283", value=value)
    return [number.to(Int32) for number in found]


def selected(items: Sequence[Any], index: Any) -> Any:
    """Return the item with a run-time index."""
    found = items[0]
    for position in range(1, len(items)):
        found = chosen(index == position, items[position], found)
    return found


def places(arrangement: str, count: int) -> list[Any]:
    """Return where the thread's `count` items lie in the sequence of the block.

    Raises:
        UserValueError: There is no such arrangement.
    """
    threads, lanes = block_threads(), gpu.num_warp_threads()
    thread = linear_thread()
    if arrangement == "blocked":
        return [thread * count + item for item in range(count)]
    if arrangement == "striped":
        return [thread + item * threads for item in range(count)]
    if arrangement != "warp_striped":
        raise UserValueError(
            "no such arrangement",
            code="FLY-U283",
            value=arrangement,
            allowed=", ".join(ARRANGEMENTS),
        )
    warp = thread // lanes
    start = warp * (lanes * count) + gpu.lane_id()
    width: Any = lanes
    if threads % lanes:  # the last warp has fewer
        left = threads - warp * lanes
        width = select(left < lanes, left, Int32(lanes))
    return [start + width * item for item in range(count)]


def lane_places(arrangement: str, count: int, width: int) -> list[Any]:
    """Return where the lane's items lie in the sequence of its group."""
    lane = lane_in_group(width)
    if arrangement == "blocked":
        return [lane * count + item for item in range(count)]
    return [lane + item * width for item in range(count)]


def whole_groups(width: int, what: str) -> None:
    """Check that every group has all its lanes.

    Raises:
        UserError: The block's threads are no multiple of the width, or are not known.
    """
    if block_threads() % width:
        raise UserValueError(
            f"{what} needs all lanes of every group",
            code="FLY-U283",
            value=f"{block_threads()} threads in groups of {width}",
            hint="use a block that is a multiple of the width, or the form for blocks",
        )


def moved(
    items: list[Any],
    written: Sequence[Any],
    read: Sequence[Any],
    *,
    storage: Any = None,
    only: Sequence[Any] | None = None,
    fill: bool = True,
) -> list[Any]:
    """Return what other threads wrote, through shared memory.

    Args:
        items: What the thread writes.
        written: Where, in the sequence of the block.
        read: The places to read.
        storage: Shared memory to use; default: an allocation that such calls share.
        only: Which items are written.
        fill: Whether places that nobody writes then hold zero; else they must not be read.

    Raises:
        UserTypeError: The storage does not fit, or the items cannot be stored.
    """
    threads, count = block_threads(), len(items)
    cells = Cells.of(items[0], threads * count, storage)
    cells.begin()
    if only is not None and fill:
        nothing = _zero(items[0])
        for place in places("striped", count):
            cells.write(place, nothing)
        gpu.barrier()
    for index, (item, place) in enumerate(zip(items, written, strict=True)):
        with nullcontext() if only is None else only_where(only[index]):
            cells.write(place, item)
    gpu.barrier()
    return [cells.read(place) for place in read]


def _zero(item: Any) -> Any:
    def zero(part: Any) -> Any:
        if isinstance(part, Vector):
            return Vector.filled(part.shape, part.dtype.zero, part.dtype)
        return type(part)(type(part).zero)

    return map_parts(zero, item)
