"""The operations as operators of PyTorch, with gradients; registered by this module's import.

``torch.compile`` and ``torch.export`` see each as one call, ``torch.ops.flydsl_norm.<name>``.
"""

from __future__ import annotations

from typing import Any

import torch

from flydsl.ext.torch_ops import register_op
from flydsl_kernels.norm.ops.gradients import norm_gradients, softmax_gradient
from flydsl_kernels.norm.ops.normalise import Norm, run_add_norm, run_norm
from flydsl_kernels.norm.ops.quantised_operators import (
    add_norm_quantised_operator,
    norm_quantised_operator,
)
from flydsl_kernels.norm.ops.softmax_rows import run_softmax

__all__ = [
    "add_norm_operator",
    "add_norm_quantised_operator",
    "layernorm_operator",
    "norm_gradient_operator",
    "norm_quantised_operator",
    "rmsnorm_operator",
    "softmax_gradient_operator",
    "softmax_operator",
]

__flydsl_internal__ = True  # errors are at the line of the caller

Tensor = torch.Tensor


def _like(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def _norm_gradients(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, gradient: Tensor, eps: float, mean: bool
) -> tuple[Tensor, Tensor, Tensor]:
    found = norm_gradients(x, weight, bias, gradient, Norm(mean, eps))
    first, second, third = (x.new_empty(0) if g is None else g for g in found)
    return first, second, third


def _softmax_gradient(result: Tensor, gradient: Tensor, logarithm: bool) -> Tensor:
    out: Tensor = softmax_gradient(result, gradient, logarithm)
    return out


def _rmsnorm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    out: Tensor = run_norm(x, weight, None, Norm(False, eps))
    return out


def _layernorm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    out: Tensor = run_norm(x, weight, bias, Norm(True, eps))
    return out


def _add_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, mean: bool
) -> tuple[Tensor, Tensor]:
    first, second = run_add_norm((x, residual, weight, bias), Norm(mean, eps), None, None, None)
    return first, second


def _softmax(x: Tensor, logarithm: bool) -> Tensor:
    out: Tensor = run_softmax(x, logarithm)
    return out


def _save_rmsnorm(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001
    x, weight, ctx.eps = inputs
    ctx.mean = False
    ctx.save_for_backward(x, weight, None)


def _save_layernorm(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001
    x, weight, bias, ctx.eps = inputs
    ctx.mean = True
    ctx.save_for_backward(x, weight, bias)


def _save_add_norm(ctx: Any, inputs: Any, output: Any) -> None:
    _, _, weight, bias, ctx.eps, ctx.mean = inputs
    ctx.save_for_backward(output[1], weight, bias)


def _save_softmax(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.logarithm = inputs[1]
    ctx.save_for_backward(output)


def _gradients(ctx: Any, gradient: Tensor) -> list[Any]:
    """Return the gradients of x (the sum, of a fused operation), weight and bias."""
    x, weight, bias = ctx.saved_tensors
    found = norm_gradient_operator(x, weight, bias, gradient, ctx.eps, ctx.mean)
    given = (x, weight, bias)
    return [None if t is None else g for t, g in zip(given, found, strict=True)]


def _rmsnorm_backward(ctx: Any, gradient: Tensor) -> Any:
    return (*_gradients(ctx, gradient)[:2], None)


def _layernorm_backward(ctx: Any, gradient: Tensor) -> Any:
    return (*_gradients(ctx, gradient), None)


def _add_norm_backward(ctx: Any, gradient: Tensor, of_sum: Tensor) -> Any:
    through, weight, bias = _gradients(ctx, gradient)
    # The sum's own gradient is added after the normalisation's.
    both = through + of_sum
    return both, both, weight, bias, None, None


def _softmax_backward(ctx: Any, gradient: Tensor) -> Any:
    (result,) = ctx.saved_tensors
    return softmax_gradient_operator(result, gradient, ctx.logarithm), None


norm_gradient_operator = register_op(
    "flydsl_norm::norm_gradients",
    _norm_gradients,
    fake=lambda x, weight, bias, *_: tuple(
        x.new_empty(0) if t is None else _like(t) for t in (x, weight, bias)
    ),
)
softmax_gradient_operator = register_op(
    "flydsl_norm::softmax_gradient", _softmax_gradient, fake=lambda result, *_: _like(result)
)
rmsnorm_operator = register_op(
    "flydsl_norm::rmsnorm",
    _rmsnorm,
    fake=lambda x, *_: _like(x),
    save=_save_rmsnorm,
    backward=_rmsnorm_backward,
)
layernorm_operator = register_op(
    "flydsl_norm::layernorm",
    _layernorm,
    fake=lambda x, *_: _like(x),
    save=_save_layernorm,
    backward=_layernorm_backward,
)
add_norm_operator = register_op(
    "flydsl_norm::add_norm",
    _add_norm,
    fake=lambda x, *_: (_like(x), _like(x)),
    save=_save_add_norm,
    backward=_add_norm_backward,
)
softmax_operator = register_op(
    "flydsl_norm::softmax",
    _softmax,
    fake=lambda x, *_: _like(x),
    save=_save_softmax,
    backward=_softmax_backward,
)
