"""Products with preshuffled weights, and of groups, as operators of PyTorch; without gradients.

Registered by this module's import. Of weights, what is no tensor is described by a text.
"""

from __future__ import annotations

from typing import Any

import torch

from flydsl.errors import UserTypeError
from flydsl.ext.torch_ops import register_op
from flydsl_kernels.gemm.ops.groups import run_grouped
from flydsl_kernels.gemm.ops.operators import outer_of
from flydsl_kernels.gemm.ops.product import Request, output_type
from flydsl_kernels.gemm.ops.weights import run_weights
from flydsl_rocdl.kernels.preshuffle import PreshuffledWeight
from flydsl_rocdl.kernels.weight_texts import described_weight, weight_of

__all__ = [
    "grouped_operator",
    "grouped_through_pytorch",
    "weights_operator",
    "weights_through_pytorch",
]

__flydsl_internal__ = True  # errors are at the line of the caller

Tensor = torch.Tensor


def _options(request: Request, out_dtype: str) -> str:
    """Return the options of a product as text.

    Raises:
        UserTypeError: A configuration is given.
    """
    if request.config is not None:
        raise UserTypeError(
            "a product of a configuration of one's own is no operator of PyTorch",
            code="FLY-U547",
            value="config=",
            allowed="calls without config= inside torch.compile and torch.export",
        )
    split = 0 if request.split_k is None else int(request.split_k)
    return f"{request.activation or ''}|{out_dtype}|{request.layout}|{split}"


def _request(text: str, extras: list[Tensor | None]) -> Request:
    """Return the optional arguments that `_options` and `_extras` were given."""
    activation, out_dtype, layout, split = text.split("|")
    bias, residual, scale_a, scale_b, scale_out = extras
    return Request(
        None, bias, activation or None, residual, scale_a, scale_b, scale_out, out_dtype, layout,
        int(split) or None,
    )  # fmt: skip


def _extras(request: Request) -> list[Tensor | None]:
    return [
        request.bias, request.residual, request.scale_a, request.scale_b, request.scale_out
    ]  # fmt: skip


def _weights(
    a: Tensor, data: Tensor, scales: Tensor | None, extras: list[Tensor | None], weight: str,
    options: str,
) -> Tensor:  # fmt: skip
    out: Tensor = run_weights(a, weight_of(weight, data, scales), _request(options, extras))
    return out


def _fake_weights(a: Tensor, *rest: Any) -> Tensor:
    weight, options = rest[-2:]
    _, _, n, _, batch, *_ = weight.split("|")
    outer = outer_of(a.shape[:-2], torch.Size((int(batch),) if int(batch) else ()))
    return a.new_empty((*outer, a.shape[-2], int(n)), dtype=_dtype(options))


def _dtype(options: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, options.split("|")[1])
    return found


def weights_through_pytorch(a: Tensor, weight: PreshuffledWeight, request: Request) -> Tensor:
    """Call the operator of products with preshuffled weights.

    Raises:
        UserTypeError: A configuration is given.
    """
    kind = output_type(a, request)
    if request.out_dtype is None and (weight.scale_layout or kind == "int32"):
        kind = "bfloat16"
    out: Tensor = weights_operator(
        a, weight.data, weight.scales, _extras(request), described_weight(weight),
        _options(request, kind),
    )  # fmt: skip
    return out


def _grouped(
    a: Tensor, b: Tensor, ends: Tensor, scales: Tensor | None, extras: list[Tensor | None],
    weight: str, options: str,
) -> Tensor:  # fmt: skip
    second = weight_of(weight, b, scales) if weight else b
    out: Tensor = run_grouped(a, second, ends, _request(options, extras))
    return out


def _fake_grouped(a: Tensor, b: Tensor, *rest: Any) -> Tensor:
    weight, options = rest[-2:]
    axis = -1 if options.split("|")[2][1] == "n" else -2
    columns = int(weight.split("|")[2]) if weight else b.shape[axis]
    return a.new_empty((a.shape[0], columns), dtype=_dtype(options))


def grouped_through_pytorch(a: Tensor, b: Any, ends: Tensor, request: Request) -> Tensor:
    """Call the operator of `grouped_gemm`.

    Raises:
        UserTypeError: A configuration is given.
    """
    kept = isinstance(b, PreshuffledWeight)
    data, scales, text = (b.data, b.scales, described_weight(b)) if kept else (b, None, "")
    options = _options(request, output_type(a, request))
    out: Tensor = grouped_operator(a, data, ends, scales, _extras(request), text, options)
    return out


weights_operator = register_op("flydsl_gemm::gemm_weights", _weights, fake=_fake_weights)
grouped_operator = register_op("flydsl_gemm::grouped_gemm", _grouped, fake=_fake_grouped)
