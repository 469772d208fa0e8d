"""Operations specialised by ``[…]``, such as ``BlockRadixSort[fx.Uint32, 256, 4]``.

The parameters are the class of the values; the block size (an int or a tuple of ints), or for a
warp the lanes per group; and where threads have several items, their number. Parameters after
those, which choose an algorithm in the public API, do not change results. A form refuses calls in
another block, or with another number of items, and says what shared memory it can be given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

from flydsl.errors import UserAttributeError, UserTypeError, UserValueError
from flydsl.expr.numeric import Int32, Uint32
from flydsl.expr.storage import ArrayType
from flydsl.expr.structs import struct
from flydsl.ext.coop import (
    batched,
    counting,
    exchange,
    neighbours,
    radix,
    segments,
    sorting,
    transfers,
    warp,
)
from flydsl.ext.coop.places import block_threads
from flydsl.ext.coop.warp import is_items

__all__ = [
    "BlockAdjacentDifference",
    "BlockDiscontinuity",
    "BlockExchange",
    "BlockHistogram",
    "BlockLoad",
    "BlockMergeSort",
    "BlockRadixRank",
    "BlockRadixSort",
    "BlockRunLengthDecode",
    "BlockShuffle",
    "BlockStore",
    "BlockTopK",
    "WarpBitonicSort",
    "WarpExchange",
    "WarpLoad",
    "WarpMergeSort",
    "WarpReduce",
    "WarpReduceBatched",
    "WarpScan",
    "WarpStore",
]

_Operation = Callable[..., Any]


def _table(**operations: _Operation) -> Mapping[str, _Operation]:
    return MappingProxyType(operations)


class _Form:
    """What the forms have in common.

    Attributes:
        dtype: Class of the values.
        threads: Threads of the block, or lanes per group.
        items: Items per thread; None if the form does not say.
        extra: Parameters after those.
    """

    operations: ClassVar[Mapping[str, _Operation]] = MappingProxyType({})
    """The form's operations by name; calling the form runs the first one."""
    counted: ClassVar[bool] = True
    """Whether the first argument of operations holds the items."""

    __slots__ = ("dtype", "extra", "items", "threads")

    def __init__(self, dtype: Any, threads: int, items: int | None, extra: tuple[Any, ...]) -> None:
        self.dtype = dtype
        self.threads = threads
        self.items = items
        self.extra = extra

    def __class_getitem__(cls, parameters: Any) -> Any:
        """Return the form with these parameters.

        Raises:
            UserTypeError: They are not a class, a size, and a number of items.
        """
        dtype, size, *rest = parameters if isinstance(parameters, tuple) else (parameters, None)
        threads = 1
        for extent in size if isinstance(size, (tuple, list)) else (size,):
            threads *= cls._whole(extent, parameters)
        items = None
        if rest and isinstance(rest[0], int):
            items = cls._whole(rest.pop(0), parameters)
        return cls(dtype, threads, items, tuple(rest))

    @classmethod
    def _whole(cls, number: Any, parameters: Any) -> int:
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise UserTypeError(
                f"{cls.__name__} takes a class, a size, and a number of items",
                code="FLY-U283",
                value=parameters,
                allowed=f"{cls.__name__}[fx.Float32, 64] or [fx.Float32, 64, 4]",
            )
        return number

    def __getattr__(self, name: str) -> Any:
        """Return an operation.

        Raises:
            UserAttributeError: There is none of this name.
        """
        found = type(self).operations.get(name)
        if found is None:
            raise UserAttributeError(
                f"{type(self).__name__} has no operation {name!r}",
                code="FLY-U283",
                allowed=", ".join(type(self).operations),
            )
        return partial(self._run, found)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run the first operation."""
        return self._run(next(iter(type(self).operations.values())), *arguments, **keywords)

    def _run(self, operation: _Operation, *arguments: Any, **keywords: Any) -> Any:
        if self.counted and self.items is not None and arguments:
            given = len(arguments[0]) if is_items(arguments[0]) else 1
            if given != self.items:
                raise UserValueError(
                    f"{type(self).__name__} is made for another number of items",
                    code="FLY-U283",
                    value=given,
                    allowed=str(self.items),
                )
        return operation(*arguments, **keywords)


class _BlockForm(_Form):
    """A form for blocks of one size."""

    __slots__ = ()

    @property
    def SharedStorage(self) -> Any:  # noqa: N802  (the name of the public API)
        """Type of the shared memory that ``storage=`` takes; allocate a `SharedAllocator`'s."""
        return ArrayType(self.dtype, self.threads * (self.items or 1))

    def _run(self, operation: _Operation, *arguments: Any, **keywords: Any) -> Any:
        if block_threads() != self.threads:
            raise UserValueError(
                f"{type(self).__name__} is made for another block size",
                code="FLY-U283",
                value=self.threads,
                allowed=str(block_threads()),
            )
        return super()._run(operation, *arguments, **keywords)


class _WarpForm(_Form):
    """A form for groups of lanes."""

    __slots__ = ()

    def _run(self, operation: _Operation, *arguments: Any, **keywords: Any) -> Any:
        return super()._run(operation, *arguments, width=self.threads, **keywords)


class BlockExchange(_BlockForm):
    """``BlockExchange[dtype, block size, items]``: see `exchange`."""

    __slots__ = ()
    operations = _table(
        blocked_to_striped=partial(exchange.block_exchange, source="blocked", target="striped"),
        striped_to_blocked=partial(exchange.block_exchange, source="striped", target="blocked"),
        blocked_to_warp_striped=partial(
            exchange.block_exchange, source="blocked", target="warp_striped"
        ),
        warp_striped_to_blocked=partial(
            exchange.block_exchange, source="warp_striped", target="blocked"
        ),
        scatter_to_blocked=partial(exchange.block_scatter, target="blocked"),
        scatter_to_striped=partial(exchange.block_scatter, target="striped"),
        scatter_to_striped_guarded=partial(exchange.block_scatter, target="striped", guarded=True),
        scatter_to_striped_flagged=lambda items, ranks, valid_flags, **keywords: (
            exchange.block_scatter(items, ranks, "striped", valid_flags=valid_flags, **keywords)
        ),
    )


class _TransferForm(_Form):
    """A form that moves items to or from memory, in the way that its last parameter names."""

    __slots__ = ()
    counted = False

    def _run(self, operation: _Operation, *arguments: Any, **keywords: Any) -> Any:
        keywords.setdefault("algorithm", str(self.extra[0]).lower() if self.extra else "direct")
        return super()._run(operation, *arguments, **keywords)


class _LoadForm(_TransferForm):
    """A form that loads as many items as it is for."""

    __slots__ = ()

    def _run(self, operation: _Operation, *arguments: Any, **keywords: Any) -> Any:
        return super()._run(operation, *arguments, count=self.items or 1, **keywords)


class BlockLoad(_LoadForm, _BlockForm):
    """``BlockLoad[dtype, block size, items, algorithm]``: see `transfers.block_load`."""

    __slots__ = ()
    operations = _table(load=transfers.block_load)


class BlockStore(_TransferForm, _BlockForm):
    """``BlockStore[dtype, block size, items, algorithm]``: see `transfers.block_store`."""

    __slots__ = ()
    operations = _table(store=transfers.block_store)


class BlockShuffle(_BlockForm):
    """``BlockShuffle[dtype, block size]``: see `neighbours`."""

    __slots__ = ()
    operations = _table(
        offset=neighbours.block_shuffle,
        rotate=neighbours.block_rotate,
        up=neighbours.block_shuffle_up,
        down=neighbours.block_shuffle_down,
    )


class BlockAdjacentDifference(_BlockForm):
    """``BlockAdjacentDifference[dtype, block size]``: see `neighbours`."""

    __slots__ = ()
    operations = _table(
        subtract_left=neighbours.block_adjacent_difference_left,
        subtract_right=neighbours.block_adjacent_difference_right,
    )


class BlockDiscontinuity(_BlockForm):
    """``BlockDiscontinuity[dtype, block size]``: see `neighbours`."""

    __slots__ = ()
    operations = _table(
        flag_heads=neighbours.block_flag_heads,
        flag_tails=neighbours.block_flag_tails,
        flag_heads_and_tails=neighbours.block_flag_heads_and_tails,
    )


class BlockHistogram(_BlockForm):
    """``BlockHistogram[dtype, block size, items, bins]``: see `counting.block_histogram`."""

    __slots__ = ()
    operations = _table(histogram=counting.block_histogram)

    @property
    def SharedStorage(self) -> Any:  # noqa: N802  (the name of the public API)
        """Type of the shared memory for the counts."""
        return ArrayType(Uint32, self._bins())

    def _bins(self) -> int:
        bins: int = self._whole(self.extra[0] if self.extra else None, self.extra)
        return bins

    def _run(self, operation: _Operation, *arguments: Any, **keywords: Any) -> Any:
        return super()._run(operation, *arguments, bins=self._bins(), **keywords)


class _SortForm(_BlockForm):
    """A form whose shared memory holds keys and where they were."""

    __slots__ = ()

    @property
    def SharedStorage(self) -> Any:  # noqa: N802  (the name of the public API)
        """Type of the shared memory that ``storage=`` takes."""
        count = self.threads * (self.items or 1)
        product: Any = struct
        return product["keys" : ArrayType(self.dtype, count), "origins" : ArrayType(Int32, count)]


class BlockMergeSort(_SortForm):
    """``BlockMergeSort[dtype, block size, items]``: see `sorting.block_merge_sort`."""

    __slots__ = ()
    operations = _table(sort=sorting.block_merge_sort)


class BlockRadixSort(_SortForm):
    """``BlockRadixSort[dtype, block size, items]``: see `radix.block_radix_sort`."""

    __slots__ = ()
    operations = _table(
        sort=radix.block_radix_sort,
        sort_descending=partial(radix.block_radix_sort, descending=True),
        sort_blocked_to_striped=partial(radix.block_radix_sort, target="striped"),
        sort_descending_blocked_to_striped=partial(
            radix.block_radix_sort, descending=True, target="striped"
        ),
    )


class BlockRadixRank(_BlockForm):
    """``BlockRadixRank[dtype, block size, items]``: see `counting.block_radix_rank`."""

    __slots__ = ()
    operations = _table(rank=counting.block_radix_rank)


class BlockTopK(_SortForm):
    """``BlockTopK[dtype, block size, items]``: see `sorting.block_top_k`."""

    __slots__ = ()
    operations = _table(
        max_keys=sorting.block_top_k,
        min_keys=partial(sorting.block_top_k, largest=False),
        max_pairs=lambda keys, values, k, **keywords: sorting.block_top_k(
            keys, k, values, **keywords
        ),
        min_pairs=lambda keys, values, k, **keywords: sorting.block_top_k(
            keys, k, values, largest=False, **keywords
        ),
    )


class BlockRunLengthDecode(_BlockForm):
    """``BlockRunLengthDecode[dtype, block size, items]``: see `counting`."""

    __slots__ = ()
    operations = _table(decode=counting.block_run_length_decode)


class WarpReduce(_WarpForm):
    """``WarpReduce[dtype, width]``: see `warp` and `segments`."""

    __slots__ = ()
    operations = _table(
        reduce=warp.warp_reduce,
        sum=warp.warp_sum,
        max=warp.warp_max,
        min=warp.warp_min,
        head_segmented_reduce=segments.warp_head_segmented_reduce,
        head_segmented_sum=segments.warp_head_segmented_sum,
        tail_segmented_reduce=segments.warp_tail_segmented_reduce,
        tail_segmented_sum=segments.warp_tail_segmented_sum,
    )


class WarpScan(_WarpForm):
    """``WarpScan[dtype, width]``: see `warp`."""

    __slots__ = ()
    operations = _table(
        scan=warp.warp_scan,
        inclusive=warp.warp_inclusive_scan,
        exclusive=warp.warp_exclusive_scan,
        inclusive_sum=warp.warp_inclusive_sum,
        exclusive_sum=warp.warp_exclusive_sum,
        scan_with_aggregate=warp.warp_scan_with_aggregate,
        broadcast=warp.warp_broadcast,
    )


class WarpReduceBatched(_WarpForm):
    """``WarpReduceBatched[dtype, width, items]``: see `batched`."""

    __slots__ = ()
    operations = _table(
        reduce=batched.warp_reduce_batched,
        reduce_to_blocked=batched.warp_reduce_batched_to_blocked,
        reduce_to_striped=batched.warp_reduce_batched_to_striped,
        sum=batched.warp_sum_batched,
        sum_to_blocked=batched.warp_sum_batched_to_blocked,
        sum_to_striped=batched.warp_sum_batched_to_striped,
    )


class WarpBitonicSort(_WarpForm):
    """``WarpBitonicSort[dtype, width, items]``: see `sorting.warp_bitonic_sort`."""

    __slots__ = ()
    operations = _table(sort=sorting.warp_bitonic_sort)


class WarpMergeSort(_WarpForm):
    """``WarpMergeSort[dtype, width, items]``: see `sorting.warp_merge_sort`."""

    __slots__ = ()
    operations = _table(sort=sorting.warp_merge_sort)


class WarpExchange(_WarpForm):
    """``WarpExchange[dtype, width, items]``: see `exchange`."""

    __slots__ = ()
    operations = _table(
        blocked_to_striped=partial(exchange.warp_exchange, source="blocked", target="striped"),
        striped_to_blocked=partial(exchange.warp_exchange, source="striped", target="blocked"),
        scatter_to_striped=exchange.warp_scatter_to_striped,
    )


class WarpLoad(_LoadForm, _WarpForm):
    """``WarpLoad[dtype, width, items, algorithm]``: see `transfers.warp_load`."""

    __slots__ = ()
    operations = _table(load=transfers.warp_load)


class WarpStore(_TransferForm, _WarpForm):
    """``WarpStore[dtype, width, items, algorithm]``: see `transfers.warp_store`."""

    __slots__ = ()
    operations = _table(store=transfers.warp_store)
