"""`fused_moe`: the experts of a layer from end to end."""

from __future__ import annotations

import numbers
from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.errors import ConfigError
from flydsl.ext import arrays
from flydsl.ext.arguments import as_pair, check_no_gradient, through_pytorch
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.moe.arguments import check_rank
from flydsl_kernels.moe.experts import ExpertWeights
from flydsl_kernels.moe.ops.grouped import UNITS
from flydsl_kernels.moe.ops.layer import FusedOptions, run_fused
from flydsl_kernels.moe.plans import Activation

__all__ = ["fused_moe"]

__flydsl_internal__ = True  # errors are at the line of the caller


@at_user_line()
@outputs_in_graphs("out", adding="atomic")
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
    _check_kinds(w1, w2, activation, unit)
    smooth = as_pair(smooth, "smooth")
    needed = {
        "x": x, "w1": w1.weight.data, "w2": w2.weight.data, "topk_weights": topk_weights,
        "topk_ids": topk_ids,
    }  # fmt: skip
    optional = {"expert_mask": expert_mask, "smooth[0]": smooth[0], "smooth[1]": smooth[1]}
    traced = through_pytorch((out is None) or None, needed, **optional, out=out)
    floats = {"x": x, "topk_weights": topk_weights, "smooth[0]": smooth[0], "smooth[1]": smooth[1]}
    check_no_gradient("layers of experts", "FLY-U972", **floats)
    check_rank(x, 2, "x")
    arrays.check_dtype(x, ("float32", "float16", "bfloat16"), "x")
    check_rank(topk_ids, 2, "topk_ids")
    if expert_mask is not None:
        check_rank(expert_mask, 1, "expert_mask")
    _check_layers(x, w1, w2, topk_ids)
    if any(item is not None for item in smooth) and expert_mask is not None:
        raise ConfigError("smoothing factors are those of all experts", code="FLY-C975",
                          value="expert_mask", allowed="None")  # fmt: skip
    options = FusedOptions(activation or Activation(), early_weights, atomic, unit)
    if traced:
        from flydsl_kernels.moe.ops.operators import fused_operator_call

        return fused_operator_call(x, (w1, w2), (topk_weights, topk_ids, expert_mask), smooth,
                                   options)  # fmt: skip
    return run_fused(x, (w1, w2), (topk_weights, topk_ids, expert_mask), smooth, options, out)


def _check_kinds(w1: Any, w2: Any, activation: Any, unit: Any) -> None:
    for what, item in (("w1", w1), ("w2", w2)):
        if not isinstance(item, ExpertWeights):
            raise ConfigError(f"{what} is not weights of experts", code="FLY-C975",
                              value=type(item).__name__, allowed="ExpertWeights",
                              hint="prepare_experts makes them")  # fmt: skip
    if activation is not None and not isinstance(activation, Activation):
        raise ConfigError("this is no activation of gates", code="FLY-C975", value=activation,
                          allowed="an Activation, or None")  # fmt: skip
    known = isinstance(unit, numbers.Integral) and int(unit) in UNITS
    if unit is not None and not known:
        raise ConfigError("grouped products have no tiles of this many entries", code="FLY-C974",
                          value=unit, allowed=", ".join(map(str, UNITS)))  # fmt: skip


def _check_layers(x: Any, w1: ExpertWeights, w2: ExpertWeights, ids: Any) -> None:
    tokens, k = (int(extent) for extent in x.shape)
    if not ids.shape[1]:
        raise ConfigError("tokens have no experts", code="FLY-C971", value=0,
                          allowed="from 1 on")  # fmt: skip
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
