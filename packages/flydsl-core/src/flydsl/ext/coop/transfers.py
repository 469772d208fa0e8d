"""Loading and storing the items of a block or of groups of lanes, with a limit.

Algorithms, which differ in the order of the accesses and in how the items lie:

* ``"direct"``: items lie blocked, and each thread accesses its own. Simple; neighbours in memory
  are accessed by one thread.
* ``"striped"``: items lie striped, so that the threads of a warp access neighbours.
* ``"transpose"``: items lie blocked; memory is accessed as by ``"striped"``, and shared memory
  (or shuffles, for lanes) takes them between the arrangements.
"""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.numeric import Int32, as_numeric
from flydsl.expr.storage import Array
from flydsl.ext.coop.cells import only_where
from flydsl.ext.coop.exchange import block_exchange, warp_exchange
from flydsl.ext.coop.places import block_threads, item_list, lane_places, places
from flydsl.ext.coop.warp import group_width, linear_thread
from flydsl.frontend.runtime import choose

__all__ = ["block_load", "block_store", "warp_load", "warp_store"]

_ALGORITHMS = ("direct", "striped", "transpose")


def _arrangement(algorithm: str) -> str:
    """Return how items lie in memory order while they are accessed.

    Raises:
        UserValueError: There is no such algorithm.
    """
    if algorithm not in _ALGORITHMS:
        raise UserValueError(
            "no such algorithm", code="FLY-U283", value=algorithm, allowed=", ".join(_ALGORITHMS)
        )
    return "blocked" if algorithm == "direct" else "striped"


def _limit(valid_items: Any) -> Any:
    if valid_items is None:
        return None
    number = as_numeric(valid_items)
    if number is None or not number.is_integer:
        raise UserTypeError("valid_items is an integer", code="FLY-U283", value=valid_items)
    return number.to(Int32)


def _count(count: Any) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise UserValueError(
            "a number of items is a positive, compile-time int", code="FLY-U283", value=count
        )
    return count


def _loaded(source: Any, where: list[Any], start: Any, valid: Any, default: Any) -> list[Any]:
    limit = _limit(valid)
    if limit is None:
        return [source[start + place] for place in where]
    if default is None:
        default = 0

    def one(place: Any) -> Any:
        def element() -> Any:
            return source[start + place]

        def other() -> Any:
            return _class_of(source)(default)

        return choose(place < limit, element, other)  # type: ignore[arg-type]

    return [one(place) for place in where]


def _class_of(source: Any) -> Any:
    return source.kind.element if isinstance(source, Array) else source.dtype


def _stored(target: Any, items: list[Any], where: list[Any], start: Any, valid: Any) -> None:
    limit = _limit(valid)
    for item, place in zip(items, where, strict=True):
        if limit is None:
            target[start + place] = item
        else:
            with only_where(place < limit):
                target[start + place] = item


def block_load(
    source: Any,
    count: int,
    *,
    algorithm: str = "direct",
    start: Any = 0,
    valid_items: Any = None,
    default: Any = None,
) -> list[Any]:
    """Load `count` items per thread.

    Args:
        source: A tensor with one index, or an `Array`.
        count: Items per thread, a compile-time int.
        algorithm: ``"direct"``, ``"striped"`` or ``"transpose"``, see the module.
        start: Index of the block's first item.
        valid_items: How many items of the block there are; nothing is loaded behind them.
        default: What the items behind them are; default: 0.

    Returns:
        The thread's items, which lie striped with ``"striped"``, else blocked.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    arrangement = _arrangement(algorithm)
    where = places(arrangement, _count(count))
    items = _loaded(source, where, start, valid_items, default)
    if algorithm == "transpose" and count > 1:
        items = block_exchange(items, "striped", "blocked")
    return items


def block_store(
    target: Any,
    items: Any,
    *,
    algorithm: str = "direct",
    start: Any = 0,
    valid_items: Any = None,
) -> None:
    """Store the items of every thread.

    Args:
        target: A tensor with one index, or an `Array`.
        items: A list or tuple of the thread's items, which lie striped with ``"striped"``, else
            blocked.
        algorithm: ``"direct"``, ``"striped"`` or ``"transpose"``, see the module.
        start: Index of the block's first item.
        valid_items: How many items of the block are stored.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    own = item_list(items)
    arrangement = _arrangement(algorithm)
    if algorithm == "transpose" and len(own) > 1:
        own = block_exchange(own, "blocked", "striped")
    _stored(target, own, places(arrangement, len(own)), start, valid_items)


def _group_start(start: Any, count: int, lanes: int) -> Any:
    """Return the index of the first item of the lane's group, one group after another."""
    block_threads()  # groups are numbered, so the block has to be known
    return start + linear_thread() // lanes * (lanes * count)


def warp_load(
    source: Any,
    count: int,
    *,
    algorithm: str = "direct",
    start: Any = 0,
    width: Any = None,
    valid_items: Any = None,
    default: Any = None,
) -> list[Any]:
    """Load `count` items per lane; the groups of a block take stretches one after another.

    Args:
        source: A tensor with one index, or an `Array`.
        count: Items per lane, a compile-time int.
        algorithm: ``"direct"``, ``"striped"`` or ``"transpose"``, see the module.
        start: Index of the block's first item.
        width: Lanes per group.
        valid_items: How many items of the group there are; nothing is loaded behind them.
        default: What the items behind them are; default: 0.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    arrangement, lanes = _arrangement(algorithm), group_width(width)
    where = lane_places(arrangement, _count(count), lanes)
    items = _loaded(source, where, _group_start(start, count, lanes), valid_items, default)
    if algorithm == "transpose" and count > 1:
        items = warp_exchange(items, "striped", "blocked", width=lanes)
    return items


def warp_store(
    target: Any,
    items: Any,
    *,
    algorithm: str = "direct",
    start: Any = 0,
    width: Any = None,
    valid_items: Any = None,
) -> None:
    """Store the items of every lane; the groups of a block take stretches one after another.

    Args:
        target: A tensor with one index, or an `Array`.
        items: A list or tuple of the lane's items.
        algorithm: ``"direct"``, ``"striped"`` or ``"transpose"``, see the module.
        start: Index of the block's first item.
        width: Lanes per group.
        valid_items: How many items of the group are stored.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    own, lanes = item_list(items), group_width(width)
    arrangement = _arrangement(algorithm)
    begin = _group_start(start, len(own), lanes)
    if algorithm == "transpose" and len(own) > 1:
        own = warp_exchange(own, "blocked", "striped", width=lanes)
    _stored(target, own, lane_places(arrangement, len(own), lanes), begin, valid_items)
