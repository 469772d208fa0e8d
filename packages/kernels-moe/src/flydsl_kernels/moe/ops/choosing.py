"""Choosing experts, from arrays to a launch."""

from __future__ import annotations

from typing import Any

from flydsl.ext import arrays
from flydsl.ext.arguments import check_results_apart
from flydsl_kernels.moe.arguments import check_array, check_written
from flydsl_kernels.moe.problem import GatingProblem
from flydsl_kernels.moe.selection import select_gating

__all__ = ["gate"]

__flydsl_internal__ = True  # errors are at the line of the caller


def gate(
    logits: Any, bias: Any, problem: GatingProblem, out: Any = None, stream: Any = None,
    places: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Choose experts for a problem; see `topk_gating` for the arguments.

    Args:
        logits: As there.
        bias: As there.
        problem: What is to be computed.
        out: As there.
        stream: Where to launch.
        places: (T, k) int32 that gets slot * T + token, or None.
    """
    from flydsl_kernels.moe.device.gating import launch_gating

    shape = (problem.tokens, problem.chosen)
    logits, bias = arrays.apart_from((*(out or ()), places), logits, bias)
    if out is None:
        weights, ids = (arrays.empty(shape, dtype, logits) for dtype in ("float32", "int32"))
    else:
        weights = check_written(out[0], shape, ("float32",), logits, "weights")
        ids = check_written(out[1], shape, ("int32",), logits, "ids")
        check_results_apart(weights=weights, ids=ids)
    if bias is not None:
        bias = check_array(bias, (problem.experts,), ("float32",), logits, "bias")
    if problem.tokens:
        if problem.experts > 1 and arrays.strides(logits)[1] != 1:
            logits = arrays.contiguous(logits)
        plan = select_gating(problem)
        given = places is not None
        if given:
            places = check_written(places, shape, ("int32",), logits, "token_expert")
            check_results_apart(weights=weights, ids=ids, token_expert=places)
        some = weights if bias is None else bias
        launch_gating(logits, some, weights, ids, places if given else ids, plan, given, stream)
    return weights, ids
