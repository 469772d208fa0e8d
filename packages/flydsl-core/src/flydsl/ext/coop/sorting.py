"""Sorting the items of a group of lanes or of a block.

Lanes sort by a bitonic network (Batcher 1968) of shuffles. Blocks merge: every thread sorts its
items, then runs of 1, 2, 4, … threads are merged, each item finding its place in the other run by
binary search in shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr import gpu
from flydsl.expr.numeric import Boolean, Int32, as_numeric
from flydsl.expr.numeric.operators import select
from flydsl.ext.coop.cells import Cells
from flydsl.ext.coop.places import (
    block_threads,
    integers,
    item_list,
    lane_places,
    like_items,
    moved,
    places,
    selected,
    whole_groups,
)
from flydsl.ext.coop.warp import chosen, group_width, linear_thread, shuffled
from flydsl.frontend.loops import make_range
from flydsl.frontend.runtime import CACHE, for_

__all__ = [
    "Less",
    "block_merge_sort",
    "block_order",
    "block_sort",
    "block_top_k",
    "warp_bitonic_sort",
    "warp_merge_sort",
]

Less = Callable[[Any, Any], Any]
"""Whether the first of two keys comes before the second."""


def _natural(a: Any, b: Any) -> Any:
    """Compare numbers; NaN is greater than all of them."""
    if not a.is_float:
        return a < b
    return (a < b) | ((b != b) & (a == a))  # noqa: PLR0124  (NaN is not equal to itself)


def _less(keys: list[Any], compare_op: Any, descending: bool) -> Less:
    """Return the order of keys.

    Raises:
        UserTypeError: The operation is no function, or there is none and the keys are no numbers.
    """
    if compare_op is None:
        if as_numeric(keys[0]) is None:
            raise UserTypeError(
                "keys that are no numbers need an order", code="FLY-U280", hint="pass compare_op="
            )
        order: Less = _natural
    elif callable(compare_op):
        order = CACHE.callable_for(compare_op)
    else:
        raise UserTypeError("an order is a function of two keys", code="FLY-U280", value=compare_op)

    def less(a: Any, b: Any) -> Any:
        return Boolean(order(b, a) if descending else order(a, b))

    return less


def _count(valid_items: Any, total: int) -> Any:
    """Return how many items take part: an int or a run-time number.

    Raises:
        UserError: It is no integer from 0 to `total`.
    """
    if valid_items is None:
        return total
    number = as_numeric(valid_items)
    if number is None or not number.is_integer:
        raise UserTypeError("valid_items is an integer", code="FLY-U283", value=valid_items)
    if not number.is_static():
        return number.to(Int32)
    if not 0 <= number.value <= total:
        raise UserValueError(
            "valid_items counts items",
            code="FLY-U283",
            value=int(number.value),
            allowed=f"0 to {total}",
        )
    return int(number.value)


@dataclass(frozen=True, slots=True)
class _Network:
    """A bitonic network over the items of a group of lanes.

    Attributes:
        width: Lanes per group.
        count: Items per lane, a power of two.
        striped: Whether the items lie striped.
        less: The order of elements.
        distinct: Whether of two elements one always comes first.
    """

    width: int
    count: int
    striped: bool
    less: Less
    distinct: bool

    def sort(self, elements: list[Any]) -> list[Any]:
        """Return the elements in order."""
        elements = list(elements)
        where = lane_places("striped" if self.striped else "blocked", self.count, self.width)
        size = 2
        while size <= self.width * self.count:
            distance = size // 2
            while distance:
                ups = [self._clear(item, where[item], size) for item in range(self.count)]
                self._stage(elements, where, distance, ups)
                distance //= 2
            size *= 2
        return elements

    def _clear(self, item: int, place: Any, bit: int) -> Any:
        """Return whether a bit of an item's place is clear; a bool if that is known."""
        if bit >= self.width * self.count:
            return True
        if self.striped:
            return item & (bit // self.width) == 0 if bit >= self.width else (place & bit) == 0
        return item & bit == 0 if bit < self.count else (place & bit) == 0

    def _stage(self, elements: list[Any], where: list[Any], distance: int, ups: list[Any]) -> None:
        """Exchange the elements `distance` places apart that are in the wrong order."""
        across = distance < self.width if self.striped else distance >= self.count
        if not across:
            step = distance // self.width if self.striped else distance
            for low in range(self.count):
                high = low ^ step
                if high > low:
                    a, b = elements[low], elements[high]
                    swap = self._before(ups[low], b, a)
                    elements[low], elements[high] = chosen(swap, b, a), chosen(swap, a, b)
            return
        lanes = distance if self.striped else distance // self.count
        for item in range(self.count):
            own = elements[item]
            other = shuffled(own, lanes, self.width, "xor")
            lower = self._clear(item, where[item], distance)
            take = self._before(lower == ups[item], other, own)
            elements[item] = chosen(take, other, own)

    def _before(self, forwards: Any, a: Any, b: Any) -> Any:
        """Return whether a comes before b, or where not `forwards`, b before a."""
        if isinstance(forwards, bool):
            return self.less(a, b) if forwards else self.less(b, a)
        found = self.less(a, b)
        if self.distinct:
            return found ^ ~forwards
        return (found & forwards) | (self.less(b, a) & ~forwards)


def _network_sort(
    keys: list[Any], values: list[Any] | None, less: Less, lanes: int, valid: Any, striped: bool
) -> tuple[list[Any], list[Any]]:
    """Sort a group's keys, with values; stable if blocked."""
    count = len(keys)
    padded = 1 << (count - 1).bit_length()
    where = lane_places("striped" if striped else "blocked", count, lanes)
    marked = padded > count or not isinstance(valid, int) or valid < lanes * count
    elements = []
    for item in range(padded):
        source = min(item, count - 1)
        element = {"key": keys[source], "value": {} if values is None else {"": values[source]}}
        if not striped or marked:
            element["place"] = where[source] if item < count else Int32(lanes * padded)
        if marked:
            element["left"] = Boolean(True) if item >= count else where[source] >= valid
        elements.append(element)

    def before(a: Any, b: Any) -> Any:
        if "place" not in a:
            return less(a["key"], b["key"])
        # Of equal keys the earlier one comes first.
        early = a["place"] < b["place"]
        first = chosen(early, b["key"], a["key"])
        found = less(first, chosen(early, a["key"], b["key"])) ^ early
        if not marked:
            return found
        # What takes no part comes last, in its own order.
        return (~a["left"] & b["left"]) | (
            (a["left"] == b["left"]) & select(a["left"], early, found)
        )

    found = _Network(lanes, padded, striped, before, not striped or marked).sort(elements)
    if padded > count and not striped:
        found = _packed(found, count, padded, lanes)
    found = found[:count]
    return [x["key"] for x in found], [x["value"].get("") for x in found]


def _packed(found: list[Any], count: int, padded: int, lanes: int) -> list[Any]:
    """Return the leading items of a sequence with `padded` per lane as `count` per lane."""
    results = []
    for place in lane_places("blocked", count, lanes):
        lane, item = place // padded, place % padded
        results.append(selected([shuffled(x, lane, lanes, "idx") for x in found], item))
    return results


def warp_bitonic_sort(
    keys: Any,
    values: Any = None,
    *,
    compare_op: Any = None,
    descending: bool = False,
    width: Any = None,
    valid_items: Any = None,
) -> Any:
    """Sort the keys of a group of lanes; equal keys come in any order.

    Args:
        keys: The lane's keys, which lie striped: a list or tuple, or one key.
        values: One value per key that moves with it.
        compare_op: Whether the first of two keys comes before the second; default: ``<``, with
            NaN last.
        descending: Reverse the order.
        width: Lanes per group; the block's threads must be a multiple of it.
        valid_items: How many leading items take part; the others stay behind them.

    Returns:
        The keys, striped, in the form of the argument; with values, a pair.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    return _warp_sort(keys, values, (compare_op, descending), width, valid_items, striped=True)


def warp_merge_sort(
    keys: Any,
    values: Any = None,
    *,
    compare_op: Any = None,
    descending: bool = False,
    width: Any = None,
    valid_items: Any = None,
) -> Any:
    """Sort the keys of a group of lanes, which lie blocked; equal keys keep their order.

    Arguments and results are those of `warp_bitonic_sort`.
    """
    return _warp_sort(keys, values, (compare_op, descending), width, valid_items, striped=False)


def _warp_sort(
    keys: Any, values: Any, order: tuple[Any, bool], width: Any, valid: Any, *, striped: bool
) -> Any:
    own, lanes = item_list(keys), group_width(width)
    whole_groups(lanes, "a sort")
    carried = None if values is None else item_list(values, len(own))
    less = _less(own, *order)
    count = _count(valid, lanes * len(own))
    found, moved_ = _network_sort(own, carried, less, lanes, count, striped)
    shown = like_items(keys, found)
    return shown if values is None else (shown, like_items(values, moved_))


def _thread_sort(elements: list[Any], less: Less, places_: list[Any], valid: Any) -> list[Any]:
    """Sort the items of a thread by odd-even transposition, which keeps the order of equal ones."""
    elements = list(elements)
    bounded = not isinstance(valid, int) or valid < block_threads() * len(elements)
    for turn in range(len(elements)):
        for low in range(turn % 2, len(elements) - 1, 2):
            a, b = elements[low], elements[low + 1]
            swap = less(b["key"], a["key"])
            if bounded:
                swap = swap & (places_[low + 1] < valid)
            elements[low], elements[low + 1] = chosen(swap, b, a), chosen(swap, a, b)
    return elements


def block_order(keys: list[Any], less: Less, valid: Any, target: str, storage: Any) -> list[Any]:
    """Sort a block's keys, which lie blocked; equal keys keep their order.

    Args:
        keys: The thread's keys.
        less: Their order.
        valid: How many leading keys take part: an int or a run-time number.
        target: How the results lie: ``"blocked"`` or ``"striped"``.
        storage: Shared memory to use, of `BlockMergeSort.SharedStorage`.

    Returns:
        Dictionaries with ``key`` and ``origin``, the place where the key was.
    """
    threads, count = block_threads(), len(keys)
    own = places("blocked", count)
    elements = [{"key": key, "origin": Int32(place)} for key, place in zip(keys, own, strict=True)]
    elements = _thread_sort(elements, less, own, valid)

    def merge(turn: Any) -> None:
        """Merge runs of ``2**turn`` threads."""
        nonlocal elements
        cells = Cells.of(elements[0], threads * count, storage)
        cells.begin()
        for element, place in zip(elements, own, strict=True):
            cells.write(place, element)
        gpu.barrier()
        merging = _Merging(cells, less, threads * count, valid)
        written = merging.places([element["key"] for element in elements], turn)
        elements = moved(elements, written, own, storage=storage)

    rounds = make_range((0, (threads - 1).bit_length()), unroll=1)
    for_(rounds, merge, names=("elements",), carried=("elements",))  # type: ignore[arg-type]
    if target == "striped" and count > 1:
        elements = moved(elements, own, places("striped", count), storage=storage)
    return elements


@dataclass(frozen=True, slots=True)
class _Merging:
    """The keys of a block in sorted runs, to be merged in pairs.

    Attributes:
        cells: The keys in shared memory.
        less: Their order.
        total: Keys of the block.
        valid: How many leading keys take part: an int or a run-time number.
    """

    cells: Cells
    less: Less
    total: int
    valid: Any

    def places(self, keys: list[Any], turn: Any) -> list[Any]:
        """Return where a thread's keys belong after runs of ``2**turn`` threads are merged."""
        count, thread = len(keys), linear_thread()
        run = Int32(1) << turn
        start = (thread & ~(run * 2 - 1)) * count
        middle = _least(start + run * count, self.valid)
        end = _least(start + run * (2 * count), self.valid)
        second = (thread & run) != 0
        low = select(second, start, middle)
        high = select(second, middle, end)
        found = [low] * count

        def halve(turn_: Any) -> None:
            """Look further by half of what was looked at before."""
            nonlocal found
            step = Int32(1) << (steps - 1 - turn_)
            found = [
                select(self._comes(key, at + step, high, second), at + step, at)
                for key, at in zip(keys, found, strict=True)
            ]

        steps = turn + count.bit_length()
        span = make_range((0, steps), unroll=1)
        for_(span, halve, names=("found",), carried=("found",))  # type: ignore[arg-type]
        own = thread * count - select(second, start + run * count, start)
        places_ = []
        for item, at in enumerate(found):
            merged = start + own + item + (at - low)
            place = thread * count + item
            everything = isinstance(self.valid, int) and self.valid == self.total
            places_.append(merged if everything else select(place < self.valid, merged, place))
        return places_

    def _comes(self, key: Any, ahead: Any, high: Any, second: Any) -> Any:
        """Return whether the keys of the other run up to `ahead` all come before `key`.

        Of equal keys those of the first run come first.
        """
        other = self.cells.read(_least(ahead - 1, self.total - 1))["key"]
        first, then = chosen(second, key, other), chosen(second, other, key)
        return (ahead <= high) & (self.less(first, then) ^ second)


def _least(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return select(a < b, a, Int32(b))


def block_sort(
    keys: Any, values: Any, less: Less, valid: Any, target: str, storage: Any
) -> tuple[list[Any], list[Any] | None]:
    """Sort a block's keys, with values.

    Args:
        keys: The thread's keys, which lie blocked: a list or tuple, or one key.
        values: One value per key, or None.
        less: The order of keys.
        valid: How many leading keys take part; None: all.
        target: How the results lie: ``"blocked"`` or ``"striped"``.
        storage: Shared memory to use.

    Raises:
        UserError: Something does not fit.
    """
    own = item_list(keys)
    carried = None if values is None else item_list(values, len(own))
    total = block_threads() * len(own)
    found = block_order(own, less, _count(valid, total), target, storage)
    results = [element["key"] for element in found]
    if carried is None:
        return results, None
    origins = [element["origin"] for element in found]
    return results, moved(carried, places("blocked", len(own)), origins)


def block_merge_sort(
    keys: Any,
    values: Any = None,
    *,
    compare_op: Any = None,
    descending: bool = False,
    valid_items: Any = None,
    storage: Any = None,
) -> Any:
    """Sort the keys of a block of any size, which lie blocked; equal keys keep their order.

    Args:
        keys: The thread's keys: a list or tuple, or one key.
        values: One value per key that moves with it.
        compare_op: Whether the first of two keys comes before the second; default: ``<``, with
            NaN last.
        descending: Reverse the order.
        valid_items: How many leading keys take part (may be computed at run time); the others
            stay where they are.
        storage: Shared memory to use, of `BlockMergeSort.SharedStorage`.

    Returns:
        The keys, blocked, in the form of the argument; with values, a pair.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    less = _less(item_list(keys), compare_op, descending)
    found, carried = block_sort(keys, values, less, valid_items, "blocked", storage)
    shown = like_items(keys, found)
    return shown if carried is None else (shown, like_items(values, carried))


def block_top_k(
    keys: Any,
    k: Any,
    values: Any = None,
    *,
    largest: bool = True,
    valid_items: Any = None,
    storage: Any = None,
) -> Any:
    """Return the `k` largest (or smallest) keys of a block in order, at the first `k` places.

    Args:
        keys: The thread's keys, which lie blocked.
        k: How many; may be computed at run time.
        values: One value per key that moves with it.
        largest: The largest, in descending order; else the smallest, in ascending order.
        valid_items: How many leading keys take part, at least `k`.
        storage: Shared memory to use, of `BlockTopK.SharedStorage`.

    Returns:
        The keys, blocked, and one Boolean per key, whether it is one of the `k`; with values,
        keys, values and flags.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    own = item_list(keys)
    (count,) = integers(k, 1, "a count of keys")
    less = _less(own, None, largest)
    found, carried = block_sort(keys, values, less, valid_items, "blocked", storage)
    flags = like_items(keys, [place < count for place in places("blocked", len(own))])
    shown = like_items(keys, found)
    return (shown, flags) if carried is None else (shown, like_items(values, carried), flags)
