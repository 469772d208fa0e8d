"""The parts of a layer of experts as operators of PyTorch; registered by this module's import.

What is no tensor is described by texts and numbers.
"""

from __future__ import annotations

from typing import Any

import torch

from flydsl.ext.torch_ops import register_op
from flydsl_kernels.moe.experts import ExpertWeights
from flydsl_kernels.moe.formats import FORMATS
from flydsl_kernels.moe.ops.operators import (
    activation_of,
    channels_of,
    described,
    layer_of,
    numbers_of,
    tensors_of,
)
from flydsl_kernels.moe.ops.ordering import Sorting
from flydsl_kernels.moe.ops.parts import (
    run_first,
    run_permute,
    run_quantise,
    run_second,
    run_unpermute,
)
from flydsl_kernels.moe.plans import Activation

__all__ = [
    "first_operator",
    "first_through_pytorch",
    "permute_operator",
    "permute_through_pytorch",
    "quantise_operator",
    "quantise_through_pytorch",
    "second_operator",
    "second_through_pytorch",
    "unpermute_operator",
    "unpermute_through_pytorch",
]

__flydsl_internal__ = True  # errors are at the line of the caller

Tensor = torch.Tensor


def _parts(order: Sorting) -> tuple[list[Tensor], list[int]]:
    """Return an order as tensors and numbers."""
    local = -1 if order.local is None else order.local
    tensors = [order.ids, order.weights, order.experts, order.valid, order.places]
    return tensors, [order.tokens, order.slots, local, order.unit]


def _order(tensors: list[Tensor], numbers: list[int]) -> Sorting:
    """Return the order that `_parts` was given."""
    ids, weights, experts, valid, places = tensors
    tokens, slots, local, unit = numbers
    known = None if local < 0 else local
    return Sorting(ids, weights, experts, valid, places, tokens, slots, known, unit)


def _first(
    x: Tensor, x_scales: Tensor | None, data: list[Tensor], layer: str, order: list[Tensor],
    numbers: list[int], how: str, activation: list[float],
) -> Tensor:  # fmt: skip
    name, weighted, by_slot, dtype = how.split("|")
    out: Tensor = run_first(
        (x, x_scales), layer_of(layer, data), _order(order, numbers),
        (weighted == "True", by_slot == "True"), activation_of(name, activation), dtype,
    )  # fmt: skip
    return out


def _fake_first(x: Tensor, *rest: Any) -> Tensor:
    _, _, layer, _, numbers, how, _ = rest
    channels = channels_of(layer)
    dtype = getattr(torch, how.rpartition("|")[2])
    return x.new_empty((numbers[0], numbers[1], channels), dtype=dtype)


def first_through_pytorch(
    given: tuple[Tensor, Tensor | None], weights: ExpertWeights, order: Sorting,
    activation: Activation | None, flags: tuple[bool, bool], dtype: str,
) -> Tensor:  # fmt: skip
    """Call the operator of `moe_gemm1`.

    Args:
        given: The activations and their scales.
        weights: The experts.
        order: The order.
        activation: Of the gates.
        flags: Whether results are weighted, and whether every pair has a row of its own.
        dtype: Element type of the result.
    """
    chosen = activation or Activation()
    how = f"{chosen.name}|{flags[0]}|{flags[1]}|{dtype}"
    out: Tensor = first_operator(
        *given, tensors_of(weights), described(weights), *_parts(order), how, numbers_of(chosen)
    )
    return out


def _second(
    h: Tensor, h_scales: Tensor | None, data: list[Tensor], layer: str, order: list[Tensor],
    numbers: list[int], how: str,
) -> Tensor:  # fmt: skip
    weighted, atomic, reduce, dtype = how.split("|")
    out: Tensor = run_second(
        (h, h_scales), layer_of(layer, data), _order(order, numbers),
        (weighted == "True", atomic == "True", reduce == "True"), dtype,
    )  # fmt: skip
    return out


def _fake_second(h: Tensor, *rest: Any) -> Tensor:
    _, _, layer, _, numbers, how = rest
    reduce, dtype = how.split("|")[2:]
    channels = channels_of(layer)
    pairs = (numbers[0],) if reduce == "True" else (numbers[0], numbers[1])
    return h.new_empty((*pairs, channels), dtype=getattr(torch, dtype))


def second_through_pytorch(
    given: tuple[Tensor, Tensor | None], weights: ExpertWeights, order: Sorting,
    flags: tuple[bool, bool, bool], dtype: str,
) -> Tensor:  # fmt: skip
    """Call the operator of `moe_gemm2`; flags: weighted, atomic, reduce."""
    how = f"{flags[0]}|{flags[1]}|{flags[2]}|{dtype}"
    out: Tensor = second_operator(
        *given, tensors_of(weights), described(weights), *_parts(order), how
    )
    return out


def _permute(x: Tensor, order: list[Tensor], numbers: list[int]) -> Tensor:
    out: Tensor = run_permute(x, _order(order, numbers))
    return out


def permute_through_pytorch(x: Tensor, order: Sorting) -> Tensor:
    """Call the operator of `moe_permute`."""
    out: Tensor = permute_operator(x, *_parts(order))
    return out


def _unpermute(
    rows: Tensor, weights: Tensor | None, order: list[Tensor], numbers: list[int]
) -> Tensor:
    out: Tensor = run_unpermute(rows, _order(order, numbers), weights)
    return out


def unpermute_through_pytorch(rows: Tensor, weights: Tensor | None, order: Sorting) -> Tensor:
    """Call the operator of `moe_unpermute`."""
    out: Tensor = unpermute_operator(rows, weights, *_parts(order))
    return out


def _quantise(
    x: Tensor, ids: Tensor | None, smooth: Tensor | None, form: str, dtype: str, by_slot: bool
) -> tuple[Tensor, Tensor]:
    return run_quantise(x, ids, smooth, form, dtype, by_slot)


def _fake_quantise(
    x: Tensor, ids: Tensor | None, smooth: Tensor | None, form: str, dtype: str, *_: object
) -> tuple[Tensor, Tensor]:
    numbers, columns = FORMATS[form], x.shape[1]
    rows = x.shape[0] if smooth is None or ids is None else ids.shape[0] * ids.shape[1]
    packed = numbers.bits == 4 and not numbers.integer
    kind = torch.int8 if numbers.integer else torch.uint8 if packed else getattr(torch, dtype)
    result = x.new_empty((rows, columns // 2 if packed else columns), dtype=kind)
    group = {"row": 0, "block": 128, "mx": 32}[numbers.a_scale]
    shape = (rows, -(-columns // group)) if group else (rows,)
    return result, x.new_empty(shape, dtype=torch.uint8 if group == 32 else torch.float32)


def quantise_through_pytorch(
    x: Tensor, ids: Tensor | None, smooth: Tensor | None, form: str, dtype: str, by_slot: bool
) -> tuple[Tensor, Tensor]:
    """Call the operator of `moe_quantise`."""
    small, scales = quantise_operator(x, ids, smooth, form, dtype, by_slot)
    return small, scales


first_operator = register_op("flydsl_moe::moe_gemm1", _first, fake=_fake_first)
second_operator = register_op("flydsl_moe::moe_gemm2", _second, fake=_fake_second)
permute_operator = register_op(
    "flydsl_moe::moe_permute",
    _permute,
    fake=lambda x, order, _: x.new_empty((order[0].shape[0], x.shape[1])),
)
unpermute_operator = register_op(
    "flydsl_moe::moe_unpermute",
    _unpermute,
    fake=lambda rows, _, __, numbers: rows.new_empty((numbers[0], rows.shape[1])),
)
quantise_operator = register_op("flydsl_moe::moe_quantise", _quantise, fake=_fake_quantise)
