"""A layer of experts: quantising, sorting, both products and the sum, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flydsl.errors import ConfigError
from flydsl.ext import arrays
from flydsl.ext.arguments import check_fields
from flydsl_kernels.moe.experts import ExpertWeights
from flydsl_kernels.moe.ops import grouped
from flydsl_kernels.moe.ops.ordering import run_sort
from flydsl_kernels.moe.ops.parts import run_first, run_quantise, run_second
from flydsl_kernels.moe.plans import Activation
from flydsl_kernels.moe.problem import MAX_TOKENS, sort_problem

__all__ = ["FusedOptions", "run_fused", "tokens_at_once", "unit_for"]

__flydsl_internal__ = True  # errors are at the line of the caller


@dataclass(frozen=True, slots=True)
class FusedOptions:
    """How `fused_moe` computes.

    Attributes:
        activation: Of the gates.
        early_weights: Multiply by the weights of the pairs after the first product.
        atomic: Sum in memory, in no certain order.
        unit: Entries of a tile; None: by the number of tokens.
    """

    activation: Activation
    early_weights: bool = False
    atomic: bool = False
    unit: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


def unit_for(pairs: int, experts: int) -> int:
    """Return the height of tiles: about the pairs of an expert, so that padding stays small."""
    share = pairs / max(1, experts)
    for unit in (16, 32, 64):
        if share <= unit:
            return unit
    return 128


def _quantised(
    x: Any, weights: ExpertWeights, ids: Any = None, smooth: Any = None, by_slot: bool = False
) -> tuple[Any, Any]:
    """Return activations in the numbers of the weights' format, and their scales."""
    if weights.numbers.a_scale == "none":
        if smooth is not None:
            raise ConfigError("only int8 activations are smoothed", code="FLY-C975",
                              value=weights.format)  # fmt: skip
        wanted = weights.numbers.activations[0]
        return (x if arrays.dtype_name(x) == wanted else _converted(x, wanted)), None
    kind = weights.weight.dtype
    kind = kind if kind.startswith("float8") else "float8_e4m3fn"
    return run_quantise(x, ids, smooth, weights.format, kind, by_slot)


def _converted(x: Any, name: str) -> Any:
    if arrays.is_torch(x):
        import torch

        return x.to(getattr(torch, name))
    return x.astype(arrays.empty((0,), name, x).dtype)


def tokens_at_once(experts: tuple[ExpertWeights, ExpertWeights], slots: int) -> int:
    """Return how many tokens one launch of each product takes; see `MOST_BYTES`."""
    most = MAX_TOKENS
    for layer in experts:
        most = min(most, grouped.MOST_BYTES // (slots * (layer.k * layer.numbers.bits // 8 + 16)))
    return max(1, most)


def run_fused(
    x: Any, experts: tuple[ExpertWeights, ExpertWeights], routing: tuple[Any, Any, Any],
    smooth: tuple[Any, Any], options: FusedOptions, out: Any,
) -> Any:  # fmt: skip
    """Compute `fused_moe`; see there.

    Args:
        x: (T, K).
        experts: Both layers.
        routing: Weights, ids and mask.
        smooth: Factors of the columns of both products' activations, or None each.
        options: How to compute.
        out: Where to write, or None.
    """
    first, second = experts
    x, *routes = arrays.apart_from((out,), x, *routing, *smooth)
    weights, ids, mask, *factors = routes
    smooth = (factors[0], factors[1])
    slots = int(ids.shape[1])
    most = tokens_at_once(experts, slots)
    if int(x.shape[0]) > most:
        kind = "float32" if options.atomic else arrays.dtype_name(x)
        shape = int(x.shape[0]), second.channels
        zeros = arrays.zeros if options.atomic else arrays.empty
        out = zeros(shape, kind, x) if out is None else out
        for start in range(0, shape[0], most):
            part = slice(start, min(start + most, shape[0]))
            some = weights[part], ids[part], mask
            run_fused(x[part], experts, some, smooth, options, out[part])
        return out
    unit = options.unit or unit_for(int(ids.shape[0]) * slots, first.experts)
    count = first.experts if mask is None else int(mask.shape[0])
    problem = sort_problem(int(ids.shape[0]), slots, count, unit)
    order = run_sort(ids, weights, problem, mask, None)
    own = arrays.dtype_name(x)
    by_slot = smooth[0] is not None
    rows, scales = _quantised(x, first, ids, smooth[0], by_slot)
    middle = "float16" if own == "float16" else "bfloat16"
    flags = options.early_weights, by_slot
    h = run_first((rows, scales), first, order, flags, options.activation, middle)
    rows, scales = _quantised(h.reshape(-1, first.channels), second, ids, smooth[1])
    dtype = "float32" if options.atomic else own
    last = not options.early_weights, options.atomic, True
    return run_second((rows, scales), second, order, last, dtype, out)
