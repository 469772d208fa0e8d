"""Sorting pairs of token and expert: what is returned, and from arrays to a launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flydsl.ext import arrays
from flydsl.ext.arguments import check_fields
from flydsl_kernels.moe.arguments import check_array
from flydsl_kernels.moe.problem import SortProblem
from flydsl_kernels.moe.selection import select_sort

__all__ = ["Sorting", "checked_mask", "empty_outputs", "run_sort", "sort"]

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


def run_sort(
    ids: Any, weights: Any, problem: SortProblem, expert_mask: Any, num_tokens: Any,
    stream: Any = None,
) -> Sorting:  # fmt: skip
    """Sort pairs without PyTorch's knowledge; see `moe_sort` for the arguments."""
    tokens, slots = problem.tokens, problem.slots
    ids = check_array(ids, (tokens, slots), ("int32",), ids, "ids")
    weights = check_array(weights, (tokens, slots), ("float32",), ids, "weights")
    mask = checked_mask(expert_mask, problem.experts, ids)
    if num_tokens is not None:
        num_tokens = check_array(num_tokens, (1,), ("int32",), ids, "num_tokens")
    outputs = empty_outputs(problem, ids)
    if tokens:
        sort(ids, weights, problem, mask, num_tokens, outputs, stream)
    else:
        outputs[3][...] = 0
    local: int | None = problem.experts
    if mask is not None:
        here = not arrays.is_torch(mask) or mask.device.type == "cpu"
        local = int((mask != 0).sum()) if here else None
    return Sorting(*outputs, tokens, slots, local, problem.unit)
