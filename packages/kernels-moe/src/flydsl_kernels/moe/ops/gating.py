"""`topk_gating`."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.ext import arrays
from flydsl.ext.arguments import as_pair, check_no_gradient, through_pytorch
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.moe.arguments import check_rank
from flydsl_kernels.moe.ops.choosing import gate
from flydsl_kernels.moe.problem import GatingProblem, gating_problem

__all__ = ["topk_gating"]

__flydsl_internal__ = True  # errors are at the line of the caller


@at_user_line()
@outputs_in_graphs("out")
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
    weights, ids = (None, None) if out is None else as_pair(out, "out")
    traced = through_pytorch(
        (out is None and stream is None) or None, {"logits": logits}, bias=bias,
        weights=weights, ids=ids,
    )  # fmt: skip
    check_no_gradient("choices of experts", "FLY-U972", logits=logits, bias=bias)
    groups = as_pair(groups, "groups")
    check_rank(logits, 2, "logits")
    tokens, experts = (int(extent) for extent in logits.shape)
    problem = (GatingProblem if traced else gating_problem)(
        tokens, experts, k, arrays.dtype_name(logits), scoring, renormalise, bias is not None,
        *groups, scale,
    )  # fmt: skip
    if traced:
        from flydsl_kernels.moe.ops.operators import gating_operator

        weights, ids = gating_operator(
            logits, bias, problem.chosen, scoring, renormalise, list(groups), problem.scale
        )
        return weights, ids
    return gate(logits, bias, problem, None if out is None else (weights, ids), stream)
