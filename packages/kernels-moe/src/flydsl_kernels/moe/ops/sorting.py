"""`moe_sort` and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.ext import arrays
from flydsl.ext.arguments import (
    as_integer,
    check_fields,
    check_no_gradient,
    through_pytorch,
)
from flydsl_kernels.moe.arguments import check_array, check_rank
from flydsl_kernels.moe.problem import SortProblem
from flydsl_kernels.moe.selection import select_sort

__all__ = ["Sorting", "moe_sort", "sort"]

__flydsl_internal__ = True  # errors are at the line of the caller


@dataclass(frozen=True, slots=True, eq=False)
class Sorting:
    """Pairs of token and slot in the order of their experts.

    Entries come in blocks of `unit`, each of one expert; experts without tokens have none. Within
    an expert, pairs are in the order of tokens, then slots.

    Attributes:
        ids: int32; slot * 2^24 + token, and slots * 2^24 + tokens where there is no pair.
        weights: float32; the weight of each entry, 0 where there is no pair.
        experts: int32; the expert of each block, counted among those of the mask; -1 after the
            last block.
        valid: (2,) int32; number of entries with padding, number of tokens.
        places: (T, k) int32; the entry of each pair, or -1 if its expert is not here.
        tokens: Number of tokens.
        slots: Experts per token.
        local: Number of experts here; None where a mask on a device says it: nobody waits for it.
        unit: Entries of a block.
    """

    ids: Any
    weights: Any
    experts: Any
    valid: Any
    places: Any
    tokens: int
    slots: int
    local: int | None
    unit: int

    def __post_init__(self) -> None:
        check_fields(self)


def sort(
    ids: Any, weights: Any, problem: SortProblem, mask: Any, tokens: Any, outputs: Any,
    stream: Any = None,
) -> None:  # fmt: skip
    """Sort pairs into given arrays.

    Args:
        ids: (T, k) int32.
        weights: (T, k) float32.
        problem: What is to be computed.
        mask: (E,) int32 or None.
        tokens: (1,) int32 or None.
        outputs: ids, weights, experts, valid and places.
        stream: Where to launch.
    """
    from flydsl_kernels.moe.device.sorting import Outputs, launch_sort, launch_sort_phases

    plan = select_sort(problem, mask is not None, tokens is not None)
    # An absent mask or count needs some tensor in its place; the kernel does not touch it.
    inputs = ids, weights, ids if mask is None else mask, ids if tokens is None else tokens
    out = Outputs(*outputs)
    if plan.phases:
        chunks = -(-problem.pairs // plan.chunk)
        space = arrays.empty(((chunks + 3) * plan.experts + 1,), "int32", ids)
        launch_sort_phases(*inputs, space, out, plan, stream)
    else:
        launch_sort(*inputs, out, plan, stream)


def empty_outputs(problem: SortProblem, like: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return new arrays for `sort`."""
    return (
        arrays.empty((problem.capacity,), "int32", like),
        arrays.empty((problem.capacity,), "float32", like),
        arrays.empty((problem.blocks,), "int32", like),
        arrays.empty((2,), "int32", like),
        arrays.empty((problem.tokens, problem.slots), "int32", like),
    )


def checked_mask(mask: Any, experts: int, like: Any) -> Any:
    """Return an expert mask as int32, or None."""
    if mask is None:
        return None
    arrays.check_same_library(mask, like, "expert_mask")
    arrays.check_shape(mask, (experts,), "expert_mask")
    arrays.check_dtype(mask, ("int32", "bool", "uint8", "int64"), "expert_mask")
    here = mask != 0  # before anything is cut off
    return here.int() if arrays.is_torch(here) else here.astype("int32")


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
        num_tokens is None and stream is None, given, expert_mask=expert_mask,
        num_tokens=num_tokens,
    )  # fmt: skip
    check_no_gradient("orders of experts", "FLY-U972", weights=weights)
    check_rank(ids, 2, "ids")
    experts, unit = as_integer(experts, "experts"), as_integer(unit, "unit")
    tokens, slots = (int(extent) for extent in ids.shape)
    problem = SortProblem(tokens, slots, experts, unit)
    if traced:
        from flydsl_kernels.moe.ops.operators import sort_operator

        parts = sort_operator(ids, weights, experts, unit, expert_mask)
        known = None if expert_mask is not None else experts
        entries, factors, blocks, valid, places = parts
        return Sorting(entries, factors, blocks, valid, places, tokens, slots, known, unit)
    ids = check_array(ids, (tokens, slots), ("int32",), ids, "ids")
    weights = check_array(weights, (tokens, slots), ("float32",), ids, "weights")
    mask = checked_mask(expert_mask, experts, ids)
    if num_tokens is not None:
        num_tokens = check_array(num_tokens, (1,), ("int32",), ids, "num_tokens")
    outputs = empty_outputs(problem, ids)
    if tokens:
        sort(ids, weights, problem, mask, num_tokens, outputs, stream)
    else:
        outputs[3][...] = 0
    local: int | None = experts
    if mask is not None:
        here = not arrays.is_torch(mask) or mask.device.type == "cpu"
        local = int((mask != 0).sum()) if here else None
    return Sorting(*outputs, tokens, slots, local, unit)
