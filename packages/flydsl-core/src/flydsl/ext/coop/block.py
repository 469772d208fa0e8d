"""What all threads of a block compute together, through shared memory.

Every warp combines its values by shuffles and leaves one result in shared memory; after a barrier
every thread combines those of the warps, in order. The block size must be known while tracing; it
need not be a multiple of the warp size.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr import gpu
from flydsl.expr.numeric import Int32, as_numeric
from flydsl.expr.storage import Array, ArrayType
from flydsl.ext.coop.cells import Cells, only_where
from flydsl.ext.coop.operations import Operation, operation
from flydsl.ext.coop.parts import split
from flydsl.ext.coop.warp import (
    Place,
    Scan,
    beginning,
    chosen,
    fold_items,
    items_of,
    like_given,
    linear_thread,
    reduce_lanes,
    scan_lanes,
    shuffled,
    spread,
)

__all__ = [
    "BlockReduce",
    "BlockScan",
    "block_broadcast",
    "block_exclusive_scan",
    "block_exclusive_sum",
    "block_inclusive_scan",
    "block_inclusive_sum",
    "block_max",
    "block_min",
    "block_reduce",
    "block_scan",
    "block_sum",
]


def _threads() -> int:
    x, y, z = gpu.known_block_size()
    return x * y * z


def _count(valid_items: Any, threads: int) -> Any:
    """Return how many leading threads take part: an int or a run-time number.

    Raises:
        UserError: It is no integer from 1 to the block's threads.
    """
    if valid_items is None:
        return threads
    number = as_numeric(valid_items)
    if number is None or not number.is_integer:
        raise UserTypeError("valid_items is an integer", code="FLY-U283", value=valid_items)
    if not number.is_static():
        return number.to(Int32)
    if not 1 <= number.value <= threads:
        raise UserValueError(
            "valid_items counts threads of the block",
            code="FLY-U283",
            value=int(number.value),
            allowed=f"1 to {threads}",
        )
    return int(number.value)


def _in_warp(threads: int, count: Any, lanes: int, warp: Any) -> Any:
    """Return how many lanes of the thread's warp take part (at least 1); None for all."""
    if isinstance(count, int) and count == threads and threads % lanes == 0:
        return None
    left = count - warp * lanes
    return (left < 1).select(Int32(1), (left < lanes).select(left, Int32(lanes)))


def _group(width: Any, threads: int, lanes: int, valid_items: Any) -> int:
    """Return the threads per group, checked: a power of two within a warp, or whole warps.

    Raises:
        UserError: They do not divide the block so, or `valid_items` is given too.
    """
    number = as_numeric(width)
    if number is None or not number.is_integer or not number.is_static():
        raise UserTypeError("a group's width is a compile-time int", code="FLY-U283", value=width)
    count = int(number.value)
    fits = count >= 1 and threads % count == 0
    if not fits or (count % lanes if count > lanes else count & (count - 1)):
        raise UserValueError(
            "a group does not divide the block",
            code="FLY-U283",
            value=count,
            allowed=f"a divisor of {threads}: a power of two up to {lanes}, or a multiple of it",
        )
    if valid_items is not None:
        raise UserValueError(
            "valid_items is for the whole block", code="FLY-U283", value=valid_items
        )
    return count


def _combined(cells: Cells, first: Any, count: int, how: Operation) -> Any:
    """Return places `first`, … combined in order: neighbours first, so that chains are short."""
    items = [cells.read(index if first is None else first + index) for index in range(count)]
    while len(items) > 1:
        odd = items[len(items) - len(items) % 2 :]
        items = [how(items[i], items[i + 1]) for i in range(0, len(items) - 1, 2)] + odd
    return items[0]


def block_reduce(
    value: Any,
    op: Any,
    *,
    width: Any = None,
    valid_items: Any = None,
    storage: Array | None = None,
) -> Any:
    """Combine the threads' values; every thread gets the result.

    Args:
        value: Number, vector, or a value of several parts; a list or tuple of items is combined
            first.
        op: A name or function, see `operations.operation`.
        width: Threads per group, each group combined for itself; default: the block. A power of
            two within a warp, or a multiple of the warp size; it divides the block.
        valid_items: How many leading threads take part, at least 1 (may be computed at run time);
            default: all. Not with `width`.
        storage: Shared memory to use, of `BlockReduce.SharedStorage`; default: an allocation that
            calls of this kind share.

    Returns:
        The combination, in the type of the value. Results of the warps are combined in pairs of
        neighbours, those again, and so on, unless `valid_items` is computed at run time.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    how, threads, lanes = operation(op), _threads(), gpu.num_warp_threads()
    value = fold_items(value, how)
    group = threads if width is None else _group(width, threads, lanes, valid_items)
    if group <= lanes and group < threads:
        return reduce_lanes(value, how, group)
    count = _count(valid_items, threads)
    thread = linear_thread()
    warps = -(-threads // lanes)
    warp = thread // lanes
    value = reduce_lanes(value, how, lanes, _in_warp(threads, count, lanes, warp))
    if warps == 1:
        return value
    cells = Cells.of(value, warps, storage)
    cells.begin()
    cells.write(warp, value)
    gpu.barrier()
    if isinstance(count, int):
        sharing = -(-min(count, group) // lanes)
        first = None if group == threads else warp - warp % sharing
        return _combined(cells, first, sharing, how)
    total = cells.read(0)
    for index in range(1, warps):
        total = chosen(count > index * lanes, how(total, cells.read(index)), total)
    return total


def block_sum(value: Any, *, valid_items: Any = None, storage: Array | None = None) -> Any:
    """Return the sum over the block, in the type of the value (integers wrap around)."""
    return block_reduce(value, "sum", valid_items=valid_items, storage=storage)


def block_max(value: Any, *, valid_items: Any = None, storage: Array | None = None) -> Any:
    """Return the largest value of the block; NaN if one is."""
    return block_reduce(value, "max", valid_items=valid_items, storage=storage)


def block_min(value: Any, *, valid_items: Any = None, storage: Array | None = None) -> Any:
    """Return the smallest value of the block; NaN if one is."""
    return block_reduce(value, "min", valid_items=valid_items, storage=storage)


def block_broadcast(value: Any, thread: Any = 0, *, storage: Array | None = None) -> Any:
    """Return the value of one thread of the block.

    Args:
        value: Number, vector, or a value of several parts.
        thread: The thread's number in its block (x fastest); may be computed at run time, but must
            be the same in all threads.
        storage: Shared memory to use.

    Raises:
        UserValueError: A compile-time number that no thread has.
    """
    number, threads = as_numeric(thread), _threads()
    if number is None or not number.is_integer:
        raise UserTypeError("a thread's number is an integer", code="FLY-U283", value=thread)
    if number.is_static() and not 0 <= number.value < threads:
        raise UserValueError(
            "there is no such thread", code="FLY-U283", value=thread, allowed=f"0 to {threads - 1}"
        )
    parts, shape = split(value)
    value = shape(iter(parts))
    if threads <= gpu.num_warp_threads():
        return shuffled(value, number, gpu.num_warp_threads(), "idx")
    cells = Cells.of(value, 1, storage)
    cells.begin()
    with only_where(linear_thread() == number):
        cells.write(0, value)
    gpu.barrier()
    return cells.read(0)


def _scan(value: Any, op: Any, init: Any, wanted: str, storage: Array | None) -> Scan:
    how, threads, lanes = operation(op), _threads(), gpu.num_warp_threads()
    items = items_of(value, how)
    start, init = beginning(how, items[0], init, "exclusive" in wanted)
    own = scan_lanes(fold_items(items, how), how, lanes)
    thread = linear_thread()
    warps = -(-threads // lanes)
    before = shuffled(own, 1, lanes, "up")
    if warps == 1:
        found = spread(items, how, Place(thread == 0, before), start, init)
        last = shuffled(found.inclusive[-1], threads - 1, lanes, "idx")
        return replace(found, total=last)
    warp, lane = thread // lanes, gpu.lane_id()
    cells = Cells.of(own, warps, storage)
    cells.begin()
    with only_where((lane == lanes - 1) | (thread == threads - 1)):
        cells.write(warp, own)
    gpu.barrier()
    # What the warps before hold together: of the first one, of the first two, …
    prefix = total = cells.read(0)
    for index in range(1, warps):
        total = how(total, cells.read(index))
        if index < warps - 1:
            prefix = chosen(warp > index, total, prefix)
    before = chosen(lane == 0, prefix, chosen(warp == 0, before, how(prefix, before)))
    found = spread(items, how, Place(thread == 0, before), start, init)
    return replace(found, total=total if init is None else how(init, total))


def _result(value: Any, results: list[Any], found: Scan, with_aggregate: bool) -> Any:
    shown = like_given(value, results)
    return (shown, found.total) if with_aggregate else shown


def block_inclusive_scan(
    value: Any,
    op: Any,
    *,
    init: Any = None,
    with_aggregate: bool = False,
    storage: Array | None = None,
) -> Any:
    """Return the combination of the values of the threads up to this one, included.

    Args:
        value: As for `block_reduce`. Of a list or tuple of items, each item gets its own result:
            those of a thread come after those of the thread before.
        op: A name or function.
        init: Comes before all values.
        with_aggregate: Also return the combination of the whole block (with `init`).
        storage: Shared memory to use, of `BlockScan.SharedStorage`.

    Raises:
        UserError: Something does not fit, or the block size is not known while tracing.
    """
    found = _scan(value, op, init, "", storage)
    return _result(value, found.inclusive, found, with_aggregate)


def block_exclusive_scan(
    value: Any,
    op: Any,
    *,
    init: Any = None,
    with_aggregate: bool = False,
    storage: Array | None = None,
) -> Any:
    """Return the combination of the values of the threads before this one.

    Args:
        value: As for `block_inclusive_scan`.
        op: A name or function.
        init: Result of the first thread, and comes before all values; default: the neutral value
            of a named operation.
        with_aggregate: Also return the combination of the whole block (with `init`).
        storage: Shared memory to use.

    Raises:
        UserTypeError: No `init` for a function, or something does not fit.
    """
    found = _scan(value, op, init, "exclusive", storage)
    return _result(value, found.exclusive, found, with_aggregate)


def block_scan(
    value: Any, op: Any, *, init: Any = None, storage: Array | None = None
) -> tuple[Any, Any, Any]:
    """Return the inclusive scan, the exclusive scan, and the combination of the block."""
    found = _scan(value, op, init, "exclusive", storage)
    inclusive, exclusive = (like_given(value, x) for x in (found.inclusive, found.exclusive))
    return inclusive, exclusive, found.total


def block_inclusive_sum(value: Any, *, storage: Array | None = None) -> Any:
    """Return the sum of the values of the threads up to this one, included."""
    return block_inclusive_scan(value, "sum", storage=storage)


def block_exclusive_sum(value: Any, *, storage: Array | None = None) -> Any:
    """Return the sum of the values of the threads before this one."""
    return block_exclusive_scan(value, "sum", storage=storage)


class _BlockForm:
    """A block operation on values of one type, with storage that the kernel allocates.

    Attributes:
        dtype: Numeric class or vector type of the values.
        threads: Threads of the block.
    """

    __slots__ = ("dtype", "threads")

    def __init__(self, dtype: Any, threads: int) -> None:
        self.dtype = dtype
        self.threads = threads

    def __class_getitem__(cls, parameters: Any) -> Any:
        """Return the form ``[dtype, block size, …]``; more parameters do not change the result.

        Raises:
            UserTypeError: The block size is no int or tuple of ints.
        """
        dtype, size, *_ = parameters if isinstance(parameters, tuple) else (parameters, None)
        threads = 1
        for extent in size if isinstance(size, (tuple, list)) else (size,):
            if not isinstance(extent, int) or isinstance(extent, bool) or extent < 1:
                raise UserTypeError(
                    f"{cls.__name__} takes a type and a block size",
                    code="FLY-U283",
                    value=size,
                    allowed=f"{cls.__name__}[fx.Float32, 256] or [fx.Float32, (16, 16)]",
                )
            threads *= extent
        return cls(dtype, threads)

    @property
    def SharedStorage(self) -> ArrayType:  # noqa: N802  (the name of the public API)
        """Type of the shared memory that a call uses; allocate it with a `SharedAllocator`."""
        return ArrayType(self.dtype, -(-self.threads // gpu.num_warp_threads()))

    def _check(self) -> None:
        if _threads() != self.threads:
            raise UserValueError(
                f"{type(self).__name__} is made for another block size",
                code="FLY-U283",
                value=self.threads,
                allowed=str(gpu.known_block_size()),
            )


class BlockReduce(_BlockForm):
    """``BlockReduce[dtype, block size]``: `block_reduce` with storage of one's own."""

    __slots__ = ()

    def __call__(self, value: Any, op: Any, *, storage: Any = None, valid_items: Any = None) -> Any:
        """Combine the threads' values, see `block_reduce`."""
        self._check()
        return block_reduce(value, op, valid_items=valid_items, storage=storage)

    def sum(self, value: Any, *, storage: Any = None, valid_items: Any = None) -> Any:
        """Return the sum over the block."""
        return self(value, "sum", storage=storage, valid_items=valid_items)

    def max(self, value: Any, *, storage: Any = None, valid_items: Any = None) -> Any:
        """Return the largest value of the block."""
        return self(value, "max", storage=storage, valid_items=valid_items)

    def min(self, value: Any, *, storage: Any = None, valid_items: Any = None) -> Any:
        """Return the smallest value of the block."""
        return self(value, "min", storage=storage, valid_items=valid_items)


class BlockScan(_BlockForm):
    """``BlockScan[dtype, block size]``: block scans with storage of one's own."""

    __slots__ = ()

    def inclusive(self, value: Any, op: Any, *, init: Any = None, storage: Any = None) -> Any:
        """Return the inclusive scan, see `block_inclusive_scan`."""
        self._check()
        return block_inclusive_scan(value, op, init=init, storage=storage)

    def exclusive(self, value: Any, op: Any, *, init: Any = None, storage: Any = None) -> Any:
        """Return the exclusive scan, see `block_exclusive_scan`."""
        self._check()
        return block_exclusive_scan(value, op, init=init, storage=storage)

    def inclusive_sum(self, value: Any, *, storage: Any = None) -> Any:
        """Return the sum of the values up to this thread's, included."""
        return self.inclusive(value, "sum", storage=storage)

    def exclusive_sum(self, value: Any, *, storage: Any = None) -> Any:
        """Return the sum of the values before this thread's."""
        return self.exclusive(value, "sum", storage=storage)
