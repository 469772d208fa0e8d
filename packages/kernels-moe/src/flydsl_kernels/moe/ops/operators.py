"""The operations as operators of PyTorch; registered by this module's import.

``torch.compile`` and ``torch.export`` see each as one call, ``torch.ops.flydsl_moe.<name>``.
"""

from __future__ import annotations

import torch

from flydsl.ext.torch_ops import register_op
from flydsl_kernels.moe.ops.gating import topk_gating
from flydsl_kernels.moe.ops.rows import moe_reduce
from flydsl_kernels.moe.ops.sorting import moe_sort
from flydsl_kernels.moe.problem import SortProblem

__all__ = ["gating_operator", "reduce_operator", "sort_operator"]

Tensor = torch.Tensor


def _gating(
    logits: Tensor, bias: Tensor | None, k: int, scoring: str, renormalise: bool,
    groups: list[int], scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    weights, ids = topk_gating(
        logits, k, scoring=scoring, renormalise=renormalise, bias=bias,
        groups=(groups[0], groups[1]), scale=scale,
    )  # fmt: skip
    return weights, ids


def _fake_gating(logits: Tensor, bias: Tensor | None, k: int, *_: object) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    shape = (logits.shape[0], k)
    return logits.new_empty(shape, dtype=torch.float32), logits.new_empty(shape, dtype=torch.int32)


def _sort(
    ids: Tensor, weights: Tensor, experts: int, unit: int, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    found = moe_sort(ids, weights, experts, unit=unit, expert_mask=mask)
    return found.ids, found.weights, found.experts, found.valid, found.places


def _fake_sort(
    ids: Tensor, weights: Tensor, experts: int, unit: int, mask: Tensor | None  # noqa: ARG001
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    problem = SortProblem(int(ids.shape[0]), int(ids.shape[1]), experts, unit)
    entries = (problem.capacity,)
    return (
        ids.new_empty(entries), weights.new_empty(entries), ids.new_empty((problem.blocks,)),
        ids.new_empty((2,)), ids.new_empty(ids.shape),
    )  # fmt: skip


def _reduce(rows: Tensor, places: Tensor | None, weights: Tensor | None) -> Tensor:
    out: Tensor = moe_reduce(rows, places, weights)
    return out


gating_operator = register_op("flydsl_moe::topk_gating", _gating, fake=_fake_gating)
sort_operator = register_op("flydsl_moe::moe_sort", _sort, fake=_fake_sort)
reduce_operator = register_op(
    "flydsl_moe::moe_reduce",
    _reduce,
    fake=lambda rows, *_: rows.new_empty((rows.shape[0], rows.shape[2])),
)
