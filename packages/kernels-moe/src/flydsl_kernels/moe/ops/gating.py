"""`topk_gating`."""

from __future__ import annotations

from typing import Any

from flydsl.ext import arrays
from flydsl_kernels.moe.arguments import check_array, check_rank, check_written
from flydsl_kernels.moe.ops.compiled import compiling
from flydsl_kernels.moe.problem import GatingProblem
from flydsl_kernels.moe.selection import select_gating

__all__ = ["gate", "topk_gating"]


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
    if out is None:
        out = arrays.empty(shape, "float32", logits), arrays.empty(shape, "int32", logits)
    weights = check_written(out[0], shape, ("float32",), logits, "weights")
    ids = check_written(out[1], shape, ("int32",), logits, "ids")
    if bias is not None:
        bias = check_array(bias, (problem.experts,), ("float32",), logits, "bias")
    if problem.tokens:
        if problem.experts > 1 and arrays.strides(logits)[1] != 1:
            logits = arrays.contiguous(logits)
        plan = select_gating(problem)
        given = places is not None
        if given:
            places = check_written(places, shape, ("int32",), logits, "token_expert")
        some = weights if bias is None else bias
        launch_gating(logits, some, weights, ids, places if given else ids, plan, given, stream)
    return weights, ids


def topk_gating(
    logits: Any,
    k: int,
    *,
    scoring: str = "softmax",
    renormalise: bool = True,
    bias: Any = None,
    groups: tuple[int, int] = (1, 1),
    scale: float = 1.0,
    out: Any = None,
    stream: Any = None,
) -> tuple[Any, Any]:
    """Choose the `k` best experts for every token.

    Scores are ``softmax(logits)`` or ``sigmoid(logits)`` of a token, in f32. The experts of the
    highest scores (plus `bias`) are chosen, the best first; of equal ones the one with the lowest
    number. Their weights are the scores without the bias, divided by their sum with `renormalise`,
    times `scale`.

    An expert whose logit is NaN has score 0 and is chosen after every other. Infinite logits of
    softmax share the weight; a row of -inf has equal scores. Weights whose sum is 0 stay 0.

    Args:
        logits: (T, E) NumPy array or PyTorch tensor of float32, float16 or bfloat16; E up to 1024.
        k: Experts per token, up to 16.
        scoring: ``"softmax"`` or ``"sigmoid"``.
        renormalise: Whether the weights of a token add up to `scale`.
        bias: (E,) float32 that corrects the choice, not the weights.
        groups: Number of groups of neighbouring experts (up to 32), and how many of them, those
            of the highest scores, experts are chosen from. A group's score is that of its best
            expert, or, with `bias`, the sum of its two best ones.
        scale: Factor of the weights; compiled in.
        out: The two arrays to write to.
        stream: Where to launch; default: the current stream.

    Returns:
        Weights (T, k) float32 and numbers of experts (T, k) int32.

    Raises:
        ConfigError: A size or option is out of range.
        UserError: Arguments of other libraries, shapes or types than these.
    """
    arrays.is_torch(logits)
    check_rank(logits, 2, "logits")
    tokens, experts = (int(extent) for extent in logits.shape)
    problem = GatingProblem(
        tokens, experts, k, arrays.dtype_name(logits), scoring, renormalise, bias is not None,
        *groups, scale,
    )  # fmt: skip
    if out is None and stream is None and compiling(logits):
        from flydsl_kernels.moe.ops.operators import gating_operator

        weights, ids = gating_operator(
            logits, bias, k, scoring, renormalise, list(groups), float(scale)
        )
        return weights, ids
    return gate(logits, bias, problem, out, stream)
