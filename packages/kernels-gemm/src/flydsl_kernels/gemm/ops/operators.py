"""The product as an operator of PyTorch, with gradients; registered by this module's import.

``torch.compile`` and ``torch.export`` see one call, ``torch.ops.flydsl_gemm.gemm``.
"""

from __future__ import annotations

from typing import Any

import torch

from flydsl.errors import UserValueError
from flydsl.ext.torch_ops import register_op
from flydsl_kernels.gemm.ops.product import Request, run_gemm

__all__ = ["differentiable_gemm", "gemm_operator", "outer_of"]

Tensor = torch.Tensor
_ACTIVATIONS = {
    "relu": torch.nn.functional.relu,
    "silu": torch.nn.functional.silu,
    "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "gelu_erf": torch.nn.functional.gelu,
}


def _gemm(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    scales: list[Tensor | None],
    options: str,
    split_k: int,
) -> Tensor:
    activation, out_dtype, layout = options.split(",")
    scale_a, scale_b, scale_out = scales
    request = Request(
        None, bias, activation or None, residual, scale_a, scale_b, scale_out, out_dtype, layout,
        split_k or None,
    )  # fmt: skip
    out: Tensor = run_gemm(a, b, request)
    return out


def outer_of(first: torch.Size, second: torch.Size) -> torch.Size:
    """Return the axes of the batch of a product, of those of its operands.

    As of the product itself: the longer batch; one matrix fits every batch, an empty one too.
    """
    if first.numel() == second.numel():
        return first if len(first) >= len(second) else second
    return first if second.numel() == 1 else second


def _fake(a: Tensor, b: Tensor, *rest: Any) -> Tensor:
    _, out_dtype, layout = rest[3].split(",")
    rows = a.shape[-2 if layout[0] == "n" else -1]
    columns = b.shape[-1 if layout[1] == "n" else -2]
    outer = outer_of(a.shape[:-2], b.shape[:-2])
    return a.new_empty((*outer, rows, columns), dtype=getattr(torch, out_dtype))


def _save(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001
    a, b, bias, residual, _, options, _ = inputs
    ctx.layout = options.split(",")[2]
    ctx.kept = [None if t is None else (t.shape, t.dtype) for t in (bias, residual)]
    ctx.save_for_backward(a, b)


def _reduced(gradient: Tensor, shape: Any) -> Tensor:
    """Sum over the axes of a batch that an argument does not have."""
    extra = len(shape) - gradient.ndim
    whole = gradient.reshape((1,) * extra + gradient.shape) if extra > 0 else gradient
    return whole.sum_to_size(shape)


def _backward(ctx: Any, gradient: Tensor) -> Any:
    a, b = ctx.saved_tensors
    first, second = ctx.layout
    of_bias, of_residual = ctx.kept
    needed = ctx.needs_input_grad
    narrow = gradient.to(a.dtype)
    da = db = dbias = dresidual = None
    if needed[0]:
        # dA = dC Bᵀ, or its transpose B dCᵀ: what is stored of B is one or the other.
        other = "t" if second == "n" else "n"
        left, right, how = (narrow, b, "n" + other) if first == "n" else (b, narrow, second + "t")
        da = _reduced(_plain(left, right, how, a.dtype), a.shape)
    if needed[1]:
        other = "t" if first == "n" else "n"
        left, right, how = (a, narrow, other + "n") if second == "n" else (narrow, a, "t" + first)
        db = _reduced(_plain(left, right, how, b.dtype), b.shape)
    if of_bias is not None and needed[2]:
        shape, dtype = of_bias
        rows = gradient.to(torch.float32).sum(-2)
        dbias = _reduced(rows, shape).reshape(shape).to(dtype)
    if of_residual is not None and needed[3]:
        shape, dtype = of_residual
        dresidual = _reduced(gradient, shape).to(dtype)
    return da, db, dbias, dresidual, None, None, None


def _plain(a: Tensor, b: Tensor, layout: str, dtype: torch.dtype) -> Tensor:
    name = str(dtype).rpartition(".")[2]
    out: Tensor = gemm_operator(a, b, None, None, [None] * 3, f",{name},{layout}", 0)
    return out


gemm_operator = register_op("flydsl_gemm::gemm", _gemm, fake=_fake, save=_save, backward=_backward)


def differentiable_gemm(a: Tensor, b: Tensor, request: Request, out_dtype: str) -> Tensor:
    """Multiply so that PyTorch sees the call; an activation is PyTorch's if it has a gradient.

    Args:
        a: As for `gemm`.
        b: As for `gemm`.
        request: The optional arguments.
        out_dtype: Element type of the result.

    Raises:
        UserValueError: A gradient is asked for through scales or 8-bit operands.
    """
    scales = [request.scale_a, request.scale_b, request.scale_out]
    given = (a, b, request.bias, request.residual)
    graded = torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (*given, *scales)
    )
    if graded and (a.itemsize == 1 or any(scale is not None for scale in scales)):
        raise UserValueError(
            "products with scales, and of 8-bit operands, have no gradient", code="FLY-U914",
            value=str(a.dtype), hint="detach the arguments, or use torch.no_grad()",
        )  # fmt: skip
    activation = request.activation or ""
    options = f"{activation},{out_dtype},{request.layout}"
    if not (graded and activation):
        bias, residual = request.bias, request.residual
        out: Tensor = gemm_operator(
            a, b, bias, residual, scales, options, request.split_k or 0
        )  # fmt: skip
        return out
    options = f",float32,{request.layout}"
    wide = gemm_operator(a, b, request.bias, None, scales, options, request.split_k or 0)
    result = _ACTIVATIONS[activation](wide)
    if request.residual is not None:
        result = result + request.residual
    return result.to(getattr(torch, out_dtype))
