"""What the items of a block have to do with those beside them."""

from __future__ import annotations

import operator
from typing import Any

from flydsl.errors import UserTypeError
from flydsl.expr.numeric import Boolean, Int32, as_numeric
from flydsl.expr.numeric.operators import select
from flydsl.ext.coop.parts import map_parts, same_kinds
from flydsl.ext.coop.places import block_threads, item_list, like_items, moved
from flydsl.ext.coop.warp import chosen, linear_thread
from flydsl.frontend.runtime import CACHE

__all__ = [
    "block_adjacent_difference_left",
    "block_adjacent_difference_right",
    "block_flag_heads",
    "block_flag_heads_and_tails",
    "block_flag_tails",
    "block_rotate",
    "block_shuffle",
    "block_shuffle_down",
    "block_shuffle_up",
]


def _distance(distance: Any) -> Any:
    number = as_numeric(distance)
    if number is None or not number.is_integer:
        raise UserTypeError("a distance is an integer", code="FLY-U283", value=distance)
    return number.to(Int32)


def block_shuffle(value: Any, distance: Any = 1, *, storage: Any = None) -> Any:
    """Return the value of the thread `distance` behind this one.

    Args:
        value: Number, vector, or a value of several parts.
        distance: Threads onwards; negative: back. May be computed at run time.
        storage: Shared memory to use, of `BlockShuffle.SharedStorage`.

    Returns:
        The value; the thread's own where there is no such thread.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    thread = linear_thread()
    other = thread + _distance(distance)
    there = (other >= 0) & (other < block_threads())
    (found,) = moved(item_list(value, 1), [thread], [select(there, other, thread)], storage=storage)
    return found


def block_rotate(value: Any, distance: Any = 1, *, storage: Any = None) -> Any:
    """Return the value of the thread `distance` behind this one, round the end of the block.

    Arguments and errors are those of `block_shuffle`.
    """
    thread = linear_thread()
    other = (thread + _distance(distance)) % block_threads()
    (found,) = moved(item_list(value, 1), [thread], [other], storage=storage)
    return found


def block_shuffle_up(items: Any, *, first: Any = None, storage: Any = None) -> Any:
    """Return for each item the one before it.

    Args:
        items: The thread's items, which lie blocked: a list or tuple, or one item.
        first: What comes before the very first item; default: that item itself.
        storage: Shared memory to use, of `BlockShuffle.SharedStorage`.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    own = item_list(items)
    thread = linear_thread()
    at_end = thread == 0
    (other,) = moved([own[-1]], [thread], [select(at_end, thread, thread - 1)], storage=storage)
    edge = own[0] if first is None else _like(own[0], first)
    return like_items(items, [chosen(at_end, edge, other), *own[:-1]])


def block_shuffle_down(items: Any, *, last: Any = None, storage: Any = None) -> Any:
    """Return for each item the one after it.

    Args:
        items: The thread's items, which lie blocked: a list or tuple, or one item.
        last: What comes after the very last item; default: that item itself.
        storage: Shared memory to use, of `BlockShuffle.SharedStorage`.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    own = item_list(items)
    thread = linear_thread()
    at_end = thread == block_threads() - 1
    (other,) = moved([own[0]], [thread], [select(at_end, thread, thread + 1)], storage=storage)
    edge = own[-1] if last is None else _like(own[-1], last)
    return like_items(items, [*own[1:], chosen(at_end, edge, other)])


def _like(item: Any, value: Any) -> Any:
    """Return a value given for the end of the sequence, in the kinds of the items."""
    (shown,) = item_list(value, 1)
    return map_parts(lambda a, b: b.to(a.dtype), item, same_kinds(item, shown))


def _function(function: Any) -> Any:
    if not callable(function):
        raise UserTypeError(
            "an operation is a function of two values", code="FLY-U280", value=function
        )
    return CACHE.callable_for(function)


def block_adjacent_difference_left(
    items: Any, op: Any = operator.sub, *, predecessor: Any = None, storage: Any = None
) -> Any:
    """Return ``op(item, the one before it)`` for each item.

    Args:
        items: The thread's items, which lie blocked: a list or tuple, or one item.
        op: A function of two items; default: their difference.
        predecessor: What comes before the very first item; default: that item is its own result.
        storage: Shared memory to use.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    own, how = item_list(items), _function(op)
    before = block_shuffle_up(own, first=predecessor, storage=storage)
    results = [how(item, other) for item, other in zip(own, before, strict=True)]
    if predecessor is None:
        results[0] = chosen(linear_thread() == 0, same_kinds(results[0], own[0]), results[0])
    return like_items(items, results)


def block_adjacent_difference_right(
    items: Any, op: Any = operator.sub, *, successor: Any = None, storage: Any = None
) -> Any:
    """Return ``op(item, the one after it)`` for each item.

    Args:
        items: The thread's items, which lie blocked: a list or tuple, or one item.
        op: A function of two items; default: their difference.
        successor: What comes after the very last item; default: that item is its own result.
        storage: Shared memory to use.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    own, how = item_list(items), _function(op)
    after = block_shuffle_down(own, last=successor, storage=storage)
    results = [how(item, other) for item, other in zip(own, after, strict=True)]
    if successor is None:
        end = linear_thread() == block_threads() - 1
        results[-1] = chosen(end, same_kinds(results[-1], own[-1]), results[-1])
    return like_items(items, results)


def block_flag_heads(
    items: Any, op: Any = operator.ne, *, predecessor: Any = None, storage: Any = None
) -> Any:
    """Return whether each item begins a run.

    Args:
        items: The thread's items, which lie blocked: a list or tuple, or one item.
        op: Whether two neighbours, in order, belong to different runs; default: they differ.
        predecessor: What comes before the very first item; default: nothing, so it begins a run.
        storage: Shared memory to use, of `BlockDiscontinuity.SharedStorage`.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    own, how = item_list(items), _function(op)
    before = block_shuffle_up(own, first=predecessor, storage=storage)
    flags = [Boolean(how(other, item)) for item, other in zip(own, before, strict=True)]
    if predecessor is None:
        flags[0] = flags[0] | (linear_thread() == 0)
    return like_items(items, flags)


def block_flag_tails(
    items: Any, op: Any = operator.ne, *, successor: Any = None, storage: Any = None
) -> Any:
    """Return whether each item ends a run; see `block_flag_heads`.

    Args:
        items: The thread's items, which lie blocked: a list or tuple, or one item.
        op: Whether two neighbours, in order, belong to different runs; default: they differ.
        successor: What comes after the very last item; default: nothing, so it ends a run.
        storage: Shared memory to use.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    own, how = item_list(items), _function(op)
    after = block_shuffle_down(own, last=successor, storage=storage)
    flags = [Boolean(how(item, other)) for item, other in zip(own, after, strict=True)]
    if successor is None:
        flags[-1] = flags[-1] | (linear_thread() == block_threads() - 1)
    return like_items(items, flags)


def block_flag_heads_and_tails(
    items: Any,
    op: Any = operator.ne,
    *,
    predecessor: Any = None,
    successor: Any = None,
    storage: Any = None,
) -> tuple[Any, Any]:
    """Return what `block_flag_heads` and `block_flag_tails` return."""
    heads = block_flag_heads(items, op, predecessor=predecessor, storage=storage)
    return heads, block_flag_tails(items, op, successor=successor, storage=storage)
