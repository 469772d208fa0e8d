"""`fused_moe`: the experts of a layer from end to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flydsl.errors import ConfigError
from flydsl.ext import arrays
from flydsl_kernels.moe.arguments import check_rank
from flydsl_kernels.moe.experts import ExpertWeights
from flydsl_kernels.moe.ops.compiled import compiling
from flydsl_kernels.moe.ops.grouped import MOST_BYTES
from flydsl_kernels.moe.ops.products import moe_gemm1, moe_gemm2
from flydsl_kernels.moe.ops.quantised import moe_quantise
from flydsl_kernels.moe.ops.sorting import moe_sort
from flydsl_kernels.moe.plans import Activation
from flydsl_kernels.moe.problem import MAX_TOKENS

__all__ = ["FusedOptions", "fused_moe", "run_fused", "unit_for"]


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
    return moe_quantise(
        x, format=weights.format, dtype=weights.weight.dtype
        if weights.weight.dtype.startswith("float8") else "float8_e4m3fn",
        ids=ids, smooth=smooth, by_slot=by_slot,
    )  # fmt: skip


def _converted(x: Any, name: str) -> Any:
    if arrays.is_torch(x):
        import torch

        return x.to(getattr(torch, name))
    return x.astype(arrays.empty((0,), name, x).dtype)


def tokens_at_once(experts: tuple[ExpertWeights, ExpertWeights], slots: int) -> int:
    """Return how many tokens one launch of each product takes; see `MOST_BYTES`."""
    most = MAX_TOKENS
    for layer in experts:
        most = min(most, MOST_BYTES // (slots * (layer.k * layer.numbers.bits // 8 + 16)))
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
    weights, ids, mask = routing
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
    order = moe_sort(ids, weights, count, unit=unit, expert_mask=mask)
    own = arrays.dtype_name(x)
    by_slot = smooth[0] is not None
    rows, scales = _quantised(x, first, ids, smooth[0], by_slot)
    middle = "float16" if own == "float16" else "bfloat16"
    h = moe_gemm1(
        rows, first, order, x_scales=scales, activation=options.activation,
        weighted=options.early_weights, by_slot=by_slot, dtype=middle,
    )  # fmt: skip
    rows, scales = _quantised(h.reshape(-1, first.channels), second, ids, smooth[1])
    dtype = "float32" if options.atomic else own
    return moe_gemm2(
        rows, second, order, h_scales=scales, weighted=not options.early_weights,
        atomic=options.atomic, dtype=dtype, out=out,
    )  # fmt: skip


def fused_moe(
    x: Any,
    w1: ExpertWeights,
    w2: ExpertWeights,
    topk_weights: Any,
    topk_ids: Any,
    *,
    activation: Activation | None = None,
    expert_mask: Any = None,
    smooth: tuple[Any, Any] = (None, None),
    early_weights: bool = False,
    atomic: bool = False,
    unit: int | None = None,
    out: Any = None,
) -> Any:
    """Compute the experts of a layer for every token, and the weighted sum of their results.

    For token t, ``sum_s topk_weights[t, s] * w2[e] (act(w1_gate[e] x[t]) * (w1_up[e] x[t]))``
    with e = topk_ids[t, s]. Activations are quantised as the formats of the weights need it;
    between the products they are rounded to 16 bits first. The result is the same in every run,
    but with `atomic`.

    Args:
        x: (T, K) float32, float16 or bfloat16; NumPy array or PyTorch tensor.
        w1: What `prepare_experts(..., gated=True)` returned for (E, 2 I, K) weights.
        w2: What `prepare_experts` returned for (E, K, I) weights.
        topk_weights: (T, k) float32.
        topk_ids: (T, k) int32; an expert may be in several slots of a token, and numbers outside
            0 … E - 1 are no expert.
        activation: Of the gates; default: SiLU.
        expert_mask: (all experts,) integers or booleans, not zero for the experts whose weights
            `w1` and `w2` are; the others count as 0.
        smooth: For int8: (E, K) and (E, I) float32 factors of the activations before they are
            quantised; without a mask.
        early_weights: Multiply by `topk_weights` after the first product instead.
        atomic: Sum in memory in f32, in no certain order; less memory, and float32 results.
        unit: Height of tiles: 16, 32, 64 or 128; default: by the number of tokens.
        out: (T, K) to write to (with `atomic`: to add to). The launches go to the current stream.

    Returns:
        (T, K) of `x`'s type, or float32 with `atomic`.

    Raises:
        ConfigError: Formats or sizes that do not fit, or that the architecture does not have.
        UserError: Arguments of other libraries, shapes or types than these.
    """
    arrays.is_torch(x)
    check_rank(x, 2, "x")
    arrays.check_dtype(x, ("float32", "float16", "bfloat16"), "x")
    check_rank(topk_ids, 2, "topk_ids")
    _check_layers(x, w1, w2, topk_ids)
    if any(item is not None for item in smooth) and expert_mask is not None:
        raise ConfigError("smoothing factors are those of all experts", code="FLY-C975",
                          value="expert_mask", allowed="None")  # fmt: skip
    options = FusedOptions(activation or Activation(), early_weights, atomic, unit)
    if out is None and compiling(x):
        from flydsl_kernels.moe.ops.operators import fused_operator_call

        return fused_operator_call(x, (w1, w2), (topk_weights, topk_ids, expert_mask), smooth,
                                   options)  # fmt: skip
    return run_fused(x, (w1, w2), (topk_weights, topk_ids, expert_mask), smooth, options, out)


def _check_layers(x: Any, w1: ExpertWeights, w2: ExpertWeights, ids: Any) -> None:
    tokens, k = (int(extent) for extent in x.shape)
    expected = (tokens, k, k, w1.channels, w1.experts, True, False)
    found = (
        int(ids.shape[0]), w1.k, w2.channels, w2.k, w2.experts, w1.gated, w2.gated
    )  # fmt: skip
    if found != expected:
        raise ConfigError(
            "the weights of both products, the tokens and the routing do not fit each other",
            code="FLY-C975", value=found, allowed=str(expected),
            hint="tokens of ids, w1.k, w2.channels, w2.k, w2.experts, w1.gated, w2.gated",
        )  # fmt: skip
