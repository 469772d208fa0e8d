"""Moving the items of threads between arrangements (see `places`), and to given places."""

from __future__ import annotations

from typing import Any

from flydsl.expr.numeric import Boolean
from flydsl.ext.coop.places import (
    integers,
    item_list,
    lane_places,
    like_items,
    moved,
    places,
    selected,
    whole_groups,
)
from flydsl.ext.coop.sorting import warp_bitonic_sort
from flydsl.ext.coop.warp import group_width, shuffled

__all__ = [
    "block_exchange",
    "block_scatter",
    "warp_exchange",
    "warp_scatter_to_striped",
]


def block_exchange(items: Any, source: str, target: str, *, storage: Any = None) -> Any:
    """Return the block's items in another arrangement.

    Args:
        items: A list or tuple of the thread's items.
        source: How they lie: ``"blocked"``, ``"striped"`` or ``"warp_striped"``.
        target: How the results lie.
        storage: Shared memory to use, of `BlockExchange.SharedStorage`.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    own = item_list(items)
    written, read = places(source, len(own)), places(target, len(own))
    return like_items(items, moved(own, written, read, storage=storage))


def block_scatter(
    items: Any,
    ranks: Any,
    target: str = "blocked",
    *,
    valid_flags: Any = None,
    guarded: bool = False,
    storage: Any = None,
) -> Any:
    """Put every item at its rank in the block's sequence, and return the thread's in it.

    Args:
        items: A list or tuple of the thread's items.
        ranks: One place per item; no two may be the same, and all must be below the number of
            items of the block.
        target: How the results lie.
        valid_flags: One Boolean per item: items without are left out.
        guarded: Leave out items with a negative rank.
        storage: Shared memory to use.

    Returns:
        The items. Places that nothing was put at hold zeros if some items may be left out, and
        must not exist otherwise.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    own = item_list(items)
    written = integers(ranks, len(own), "ranks")
    only: list[Any] | None = None
    if valid_flags is not None:
        only = [Boolean(flag) for flag in item_list(valid_flags, len(own))]
    if guarded:
        inside = [rank >= 0 for rank in written]
        only = inside if only is None else [a & b for a, b in zip(only, inside, strict=True)]
    read = places(target, len(own))
    return like_items(items, moved(own, written, read, storage=storage, only=only))


def warp_exchange(items: Any, source: str, target: str, *, width: Any = None) -> Any:
    """Return the items of a group of lanes in another arrangement, by shuffles.

    Args:
        items: A list or tuple of the lane's items.
        source: ``"blocked"`` or ``"striped"``.
        target: How the results lie.
        width: Lanes per group; the block's threads must be a multiple of it.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    own, lanes = item_list(items), group_width(width)
    whole_groups(lanes, "an exchange")
    count = len(own)
    if source == target:
        return like_items(items, own)
    results = []
    for place in lane_places(target, count, lanes):
        striped = source == "striped"
        lane, item = (place % lanes, place // lanes) if striped else (place // count, place % count)
        results.append(selected([shuffled(x, lane, lanes, "idx") for x in own], item))
    return like_items(items, results)


def warp_scatter_to_striped(items: Any, ranks: Any, *, width: Any = None) -> Any:
    """Put every item at its rank in the group's sequence; the results lie striped.

    Args:
        items: A list or tuple of the lane's items.
        ranks: One place per item: every place of the group once.
        width: Lanes per group; the block's threads must be a multiple of it.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    own = item_list(items)
    places_ = integers(ranks, len(own), "ranks")
    _, found = warp_bitonic_sort(places_, own, width=width)
    return like_items(items, found)
