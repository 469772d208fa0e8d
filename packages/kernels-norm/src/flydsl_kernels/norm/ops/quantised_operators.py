"""The quantising operations as operators of PyTorch; registered by this module's import."""

from __future__ import annotations

from typing import Any

import torch

from flydsl.ext.torch_ops import register_op
from flydsl_kernels.norm.formats import QuantFormat
from flydsl_kernels.norm.ops.normalise import Norm
from flydsl_kernels.norm.ops.quantise import Inputs, fake_quantised, run_quantised

__all__ = ["add_norm_quantised_operator", "call_operator", "norm_quantised_operator"]

__flydsl_internal__ = True  # errors are at the line of the caller

Tensor = torch.Tensor


def _norm_quantised(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    smooth: Tensor | None,
    eps: float,
    mean: bool,
    form: str,
) -> tuple[Tensor, Tensor]:
    given = Inputs(x, None, weight, bias, smooth)
    small, scales = run_quantised(given, Norm(mean, eps), _form(form))
    return small, scales


def _add_norm_quantised(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    smooth: Tensor | None,
    eps: float,
    mean: bool,
    form: str,
) -> tuple[Tensor, Tensor, Tensor]:
    given = Inputs(x, residual, weight, bias, smooth)
    small, scales, total = run_quantised(given, Norm(mean, eps), _form(form))
    return small, scales, total


def _form(text: str) -> QuantFormat:
    """Return the format that ``"dtype/group/scale_dtype"`` states."""
    dtype, group, scale_dtype = text.split("/")
    return QuantFormat(dtype, int(group), scale_dtype)


def _save(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001
    ctx.mark_non_differentiable(*output[:2])


def _no_gradients(ctx: Any, *gradients: Any) -> Any:  # noqa: ARG001
    return (None,) * 7


def _through_sum(ctx: Any, small: Any, scales: Any, of_sum: Tensor) -> Any:  # noqa: ARG001
    return of_sum, of_sum, *(None,) * 6


norm_quantised_operator = register_op(
    "flydsl_norm::norm_quantised",
    _norm_quantised,
    fake=lambda x, *rest: fake_quantised(x, _form(rest[-1]).resolved(x)),
    save=_save,
    backward=_no_gradients,
)
add_norm_quantised_operator = register_op(
    "flydsl_norm::add_norm_quantised",
    _add_norm_quantised,
    fake=lambda x, *rest: (
        *fake_quantised(x, _form(rest[-1]).resolved(x)),
        x.new_empty(x.shape),
    ),
    save=_save,
    backward=_through_sum,
)


def call_operator(given: Inputs, norm: Norm, form: QuantFormat) -> tuple[Any, ...]:
    """Call the operator for the inputs given."""
    text = f"{form.dtype}/{int(form.group)}/{form.scale_dtype}"
    rest = given.weight, given.bias, given.smooth, norm.eps, norm.mean, text
    if given.residual is None:
        return tuple(norm_quantised_operator(given.x, *rest))
    return tuple(add_norm_quantised_operator(given.x, given.residual, *rest))
