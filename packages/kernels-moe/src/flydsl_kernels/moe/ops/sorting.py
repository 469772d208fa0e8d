"""`moe_sort`."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.ext.arguments import as_integer, check_no_gradient, through_pytorch
from flydsl_kernels.moe.arguments import check_rank
from flydsl_kernels.moe.ops.ordering import Sorting, run_sort
from flydsl_kernels.moe.problem import SortProblem, sort_problem

__all__ = ["moe_sort"]

__flydsl_internal__ = True  # errors are at the line of the caller


@at_user_line()
def moe_sort(
    ids: Any,
    weights: Any,
    experts: int,
    *,
    unit: int = 32,
    expert_mask: Any = None,
    num_tokens: Any = None,
    stream: Any = None,
) -> Sorting:
    """Sort the (token, slot) pairs of a routing by expert, padded to blocks of one expert.

    The result is the same in every run: nothing depends on the order of atomics. Pairs whose
    expert is outside 0 … `experts` - 1 or masked out are left out; a token may have an expert in
    several slots.

    Args:
        ids: (T, k) int32, contiguous rows; T below 2^24, k up to 127.
        weights: (T, k) float32.
        experts: Number of experts, up to 1024.
        unit: Entries of a block, up to 1024.
        expert_mask: (experts,) integers or booleans, not zero for the experts that are here.
            Blocks then name experts by their number among those.
        num_tokens: (1,) int32 on the device: only so many tokens count.
        stream: Where to launch; default: the current stream.

    Returns:
        The order.

    Raises:
        ConfigError: A size is out of range.
        UserError: Arguments of other libraries, shapes or types than these.
    """
    given = {"ids": ids, "weights": weights}
    traced = through_pytorch(
        (stream is None) or None, given, expert_mask=expert_mask, num_tokens=num_tokens
    )  # fmt: skip
    check_no_gradient("orders of experts", "FLY-U972", weights=weights)
    check_rank(ids, 2, "ids")
    experts, unit = as_integer(experts, "experts"), as_integer(unit, "unit")
    tokens, slots = (int(extent) for extent in ids.shape)
    problem = (SortProblem if traced else sort_problem)(tokens, slots, experts, unit)
    if traced:
        from flydsl_kernels.moe.ops.operators import sort_operator

        parts = sort_operator(ids, weights, experts, unit, expert_mask, num_tokens)
        known = None if expert_mask is not None else experts
        entries, factors, blocks, valid, places = parts
        return Sorting(entries, factors, blocks, valid, places, tokens, slots, known, unit)
    return run_sort(ids, weights, problem, expert_mask, num_tokens, stream)
