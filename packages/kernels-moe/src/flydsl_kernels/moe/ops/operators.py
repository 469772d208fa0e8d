"""The operations as operators of PyTorch; registered by this module's import.

``torch.compile`` and ``torch.export`` see each as one call, ``torch.ops.flydsl_moe.<name>``.
"""

from __future__ import annotations

from typing import Any

import torch

from flydsl.ext import arrays
from flydsl.ext.torch_ops import register_op
from flydsl_kernels.moe.experts import ExpertWeights
from flydsl_kernels.moe.ops.choosing import gate
from flydsl_kernels.moe.ops.layer import FusedOptions, run_fused
from flydsl_kernels.moe.ops.ordering import run_sort
from flydsl_kernels.moe.ops.summing import run_reduce
from flydsl_kernels.moe.plans import Activation
from flydsl_kernels.moe.problem import SortProblem, gating_problem, sort_problem
from flydsl_rocdl.kernels.weight_texts import PARTS, described_weight, weight_of

__all__ = [
    "activation_of",
    "channels_of",
    "described",
    "described_options",
    "fused_operator",
    "fused_operator_call",
    "gating_operator",
    "layer_of",
    "numbers_of",
    "reduce_operator",
    "sort_operator",
    "tensors_of",
]

__flydsl_internal__ = True  # errors are at the line of the caller

Tensor = torch.Tensor


def _gating(
    logits: Tensor, bias: Tensor | None, k: int, scoring: str, renormalise: bool,
    groups: list[int], scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    problem = gating_problem(
        int(logits.shape[0]), int(logits.shape[1]), k, arrays.dtype_name(logits), scoring,
        renormalise, bias is not None, groups[0], groups[1], scale,
    )  # fmt: skip
    weights, ids = gate(logits, bias, problem)
    return weights, ids


def _fake_gating(logits: Tensor, bias: Tensor | None, k: int, *_: object) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    shape = (logits.shape[0], k)
    return logits.new_empty(shape, dtype=torch.float32), logits.new_empty(shape, dtype=torch.int32)


def _sort(
    ids: Tensor, weights: Tensor, experts: int, unit: int, mask: Tensor | None,
    count: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    problem = sort_problem(int(ids.shape[0]), int(ids.shape[1]), experts, unit)
    found = run_sort(ids, weights, problem, mask, count)
    return found.ids, found.weights, found.experts, found.valid, found.places


def _fake_sort(
    ids: Tensor, weights: Tensor, experts: int, unit: int, *_: object
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    problem = SortProblem(int(ids.shape[0]), int(ids.shape[1]), experts, unit)
    entries = (problem.capacity,)
    return (
        ids.new_empty(entries), weights.new_empty(entries), ids.new_empty((problem.blocks,)),
        ids.new_empty((2,)), ids.new_empty(ids.shape),
    )  # fmt: skip


def _reduce(rows: Tensor, places: Tensor | None, weights: Tensor | None) -> Tensor:
    out: Tensor = run_reduce(rows, places, weights)
    return out


def _fused(
    x: Tensor, data: list[Tensor], w1: str, w2: str, routing: list[Tensor | None],
    smooth: list[Tensor | None], how: str, numbers: list[float],
) -> Tensor:  # fmt: skip
    layers = [
        layer_of(text, tensors) for text, tensors in ((w1, data[:2]), (w2, data[2:]))
    ]  # fmt: skip
    out: Tensor = run_fused(
        x, (layers[0], layers[1]), (routing[0], routing[1], routing[2]), (smooth[0], smooth[1]),
        _options(how, numbers), None,
    )  # fmt: skip
    return out


def layer_of(text: str, tensors: list[Tensor]) -> ExpertWeights:
    """Return the layer that `described` and `tensors_of` were given."""
    scaled, form, channels, columns, gated, group = text.split("|")[PARTS:]
    weight = weight_of(text, tensors[0])
    scales = tensors[1] if scaled == "True" else None
    return ExpertWeights(weight, scales, form, int(channels), int(columns), gated == "True",
                         int(group))  # fmt: skip


def described(layer: ExpertWeights) -> str:
    """Return what of a layer is no tensor, as text that PyTorch's tracer can make."""
    channels, columns, group = (int(x) for x in (layer.channels, layer.k, layer.group))
    rest = f"{layer.format}|{channels}|{columns}|{layer.gated}|{group}"
    return f"{described_weight(layer.weight)}|{layer.scales is not None}|{rest}"


def channels_of(text: str) -> int:
    """Return the channels of a layer that `described` was given."""
    return int(text.split("|")[PARTS + 2])


def described_options(options: FusedOptions) -> str:
    """Return options as text, as `described`."""
    unit = 0 if options.unit is None else int(options.unit)
    return f"{options.activation.name}|{options.early_weights}|{options.atomic}|{unit}"


def numbers_of(activation: Activation) -> list[float]:
    """Return the numbers of an activation, the limit if there is one last."""
    limit = [] if activation.limit is None else [activation.limit]
    return [activation.alpha, activation.offset, *limit]


def activation_of(name: str, numbers: list[float]) -> Activation:
    """Return the activation that `numbers_of` was given."""
    alpha, offset, *limit = numbers
    return Activation(name, limit[0] if limit else None, alpha, offset)


def _options(text: str, numbers: list[float]) -> FusedOptions:
    name, early, atomic, unit = text.split("|")
    activation = activation_of(name, numbers)
    return FusedOptions(activation, early == "True", atomic == "True", int(unit) or None)


def tensors_of(layer: ExpertWeights) -> list[Tensor]:
    """Return the weights of a layer as bytes, and its scales (or the bytes once more)."""
    data = layer.weight.data.view(torch.uint8)
    return [data, data if layer.scales is None else layer.scales]


def fused_operator_call(
    x: Tensor, layers: Any, routing: Any, smooth: Any, options: FusedOptions
) -> Tensor:
    """Call the operator of `fused_moe`; arguments as for `run_fused`."""
    data = [tensor for layer in layers for tensor in tensors_of(layer)]
    out: Tensor = fused_operator(
        x, data, described(layers[0]), described(layers[1]), list(routing), list(smooth),
        described_options(options), numbers_of(options.activation),
    )  # fmt: skip
    return out


def _fake_fused(x: Tensor, *rest: object) -> Tensor:
    atomic = str(rest[-2]).split("|")[2] == "True"
    return x.new_empty(x.shape, dtype=torch.float32) if atomic else x.new_empty(x.shape)


fused_operator = register_op("flydsl_moe::fused_moe", _fused, fake=_fake_fused)
gating_operator = register_op("flydsl_moe::topk_gating", _gating, fake=_fake_gating)
sort_operator = register_op("flydsl_moe::moe_sort", _sort, fake=_fake_sort)
reduce_operator = register_op(
    "flydsl_moe::moe_reduce",
    _reduce,
    fake=lambda rows, *_: rows.new_empty((rows.shape[0], rows.shape[2])),
)
