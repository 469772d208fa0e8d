"""`moe_permute`, `moe_unpermute` and `moe_reduce`."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.ext.arguments import check_instance, check_no_gradient, through_pytorch
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.moe.arguments import check_rank
from flydsl_kernels.moe.ops.ordering import Sorting
from flydsl_kernels.moe.ops.parts import run_permute, run_unpermute
from flydsl_kernels.moe.ops.summing import run_reduce

__all__ = ["moe_permute", "moe_reduce", "moe_unpermute"]

__flydsl_internal__ = True  # errors are at the line of the caller


@at_user_line()
@outputs_in_graphs("out")
def moe_permute(x: Any, sorting: Sorting, *, out: Any = None, stream: Any = None) -> Any:
    """Copy rows of tokens to the order of their experts.

    Args:
        x: (T, C) rows; contiguous, else they are copied first.
        sorting: What `moe_sort` returned.
        out: Where to write; default: a new array.
        stream: Where to launch; default: the current stream.

    Returns:
        (entries, C): row i is that of the token of entry i, or zero.

    Raises:
        UserError: Arguments of other libraries, shapes or types than these.
    """
    check_instance(sorting, Sorting, "sorting", "moe_sort makes it")
    new = out is None and stream is None
    traced = through_pytorch(new or None, {"x": x, "sorting": sorting.ids}, out=out)
    check_no_gradient("rows in the order of experts", "FLY-U972", x=x)
    check_rank(x, 2, "x")
    if traced:
        from flydsl_kernels.moe.ops.part_operators import permute_through_pytorch

        return permute_through_pytorch(x, sorting)
    return run_permute(x, sorting, out, stream)


@at_user_line()
@outputs_in_graphs("out")
def moe_unpermute(
    rows: Any, sorting: Sorting, weights: Any = None, *, out: Any = None, stream: Any = None
) -> Any:
    """Sum the rows of every token, times its weights, in f32 and in the order of slots.

    Args:
        rows: (entries, C) rows in the order of `sorting`.
        sorting: What `moe_sort` returned.
        weights: (T, k) float32; default: all 1.
        out: (T, C) of a type of rows, to write to; default: a new array of `rows`' type.
        stream: Where to launch; default: the current stream.

    Returns:
        (T, C); pairs whose expert is not here count as 0.

    Raises:
        UserError: Arguments of other libraries, shapes or types than these.
    """
    check_instance(sorting, Sorting, "sorting", "moe_sort makes it")
    needed = {"rows": rows, "sorting": sorting.ids}
    new = out is None and stream is None
    traced = through_pytorch(new or None, needed, weights=weights, out=out)
    check_no_gradient("sums of rows of experts", "FLY-U972", rows=rows, weights=weights)
    check_rank(rows, 2, "rows")
    if traced:
        from flydsl_kernels.moe.ops.part_operators import unpermute_through_pytorch

        return unpermute_through_pytorch(rows, weights, sorting)
    return run_unpermute(rows, sorting, weights, out, stream)


@at_user_line()
@outputs_in_graphs("out")
def moe_reduce(
    rows: Any, places: Any = None, weights: Any = None, *, out: Any = None, stream: Any = None
) -> Any:
    """Sum the rows of every token's slots, times its weights, in f32 and in the order of slots.

    Args:
        rows: (T, k, C).
        places: (T, k) int32 such as `Sorting.places`: slots with -1 are left out, whatever their
            rows hold; default: none is.
        weights: (T, k) float32; default: all 1.
        out: (T, C) of a type of rows, to write to; default: a new array of `rows`' type.
        stream: Where to launch; default: the current stream.

    Returns:
        (T, C).

    Raises:
        UserError: Arguments of other libraries, shapes or types than these.
    """
    new = out is None and stream is None
    traced = through_pytorch(new or None, {"rows": rows}, places=places, weights=weights, out=out)
    check_no_gradient("sums of rows of experts", "FLY-U972", rows=rows, weights=weights)
    check_rank(rows, 3, "rows")
    if traced:
        from flydsl_kernels.moe.ops.operators import reduce_operator

        return reduce_operator(rows, places, weights)
    return run_reduce(rows, places, weights, out, stream)
