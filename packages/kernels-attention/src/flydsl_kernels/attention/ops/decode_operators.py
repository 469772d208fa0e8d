"""Decoding as an operator of PyTorch; registered by this module's import."""

from __future__ import annotations

from typing import Any

import torch

from flydsl.ext.arguments import as_number, is_number
from flydsl.ext.torch_ops import register_op
from flydsl_kernels.attention.decoding import LATENT
from flydsl_kernels.attention.ops.decode import DecodeOptions, run_decode
from flydsl_kernels.attention.ops.latent import run_latent

__all__ = [
    "decode_operator",
    "decode_through_pytorch",
    "latent_operator",
    "latent_through_pytorch",
]

__flydsl_internal__ = True  # errors are at the line of the caller

Tensor = torch.Tensor


def _options(values: dict[str, Any]) -> DecodeOptions:
    """Return the options of an operator's call: zeros and -1 stand for None."""
    return DecodeOptions(
        values["softmax_scale"] or None,
        None if values["window"] < 0 else values["window"],
        values["cache_layout"],
        values["partitions"] or None,
        values["return_lse"],
    )


def _decode(
    q: Tensor,
    cache: list[Tensor],
    where: list[Tensor],
    scales: list[Tensor | None],
    *,
    softmax_scale: float,
    window: int,
    cache_layout: str,
    partitions: int,
    return_lse: bool,
) -> tuple[Tensor, Tensor]:
    """Decode; `cache` are both caches, `where` block_table and seqlens."""
    options = _options(
        {
            "softmax_scale": softmax_scale,
            "window": window,
            "cache_layout": cache_layout,
            "partitions": partitions,
            "return_lse": return_lse,
        }
    )
    result, lse = run_decode(
        q, (cache[0], cache[1]), (where[0], where[1]), (scales[0], scales[1]), options
    )
    return result, q.new_empty(0) if lse is None else lse


def _fake(q: Tensor, cache: list[Tensor], *_: Any, **options: Any) -> tuple[Tensor, Tensor]:
    layout, values = options["cache_layout"], cache[1]
    width = values.shape[{"linear": -1, "vectorised": 3, "transposed": 2}[layout]]
    result = q.new_empty((*q.shape[:-1], width))
    if not options["return_lse"]:
        return result, q.new_empty(0)
    queries = q.shape[1] if q.ndim == 4 else 1
    return result, q.new_empty((q.shape[0], q.shape[-2], queries), dtype=torch.float32)


decode_operator = register_op("flydsl_attention::paged_attention_decode", _decode, fake=_fake)


def decode_through_pytorch(
    q: Tensor,
    cache: tuple[Tensor, Tensor],
    where: tuple[Tensor, Tensor],
    scales: tuple[Any, Any],
    options: DecodeOptions,
) -> tuple[Tensor, Tensor | None]:
    """Decode by the operator; arguments and result as of `run_decode`."""
    units = [
        q.new_full((1,), scale, dtype=torch.float32) if is_number(scale) else scale
        for scale in scales
    ]
    result, lse = decode_operator(
        q,
        list(cache),
        list(where),
        units,
        softmax_scale=options.softmax_scale or 0.0,
        window=-1 if options.window is None else options.window,
        cache_layout=options.cache_layout,
        partitions=options.partitions or 0,
        return_lse=options.return_lse,
    )
    return result, lse if options.return_lse else None


def _latent(
    q: Tensor,
    cache: Tensor,
    where: list[Tensor],
    unit: Tensor | None,
    *,
    softmax_scale: float,
    q_scale: float,
    partitions: int,
    return_lse: bool,
) -> tuple[Tensor, Tensor]:
    """Decode latent attention; `where` is block_table and seqlens."""
    options = DecodeOptions(softmax_scale or None, None, "linear", partitions or None, return_lse)
    scales = (q_scale, unit)
    result, lse = run_latent(q, cache, (where[0], where[1]), scales, options)
    return result, q.new_empty(0, dtype=torch.float32) if lse is None else lse


def _fake_latent(q: Tensor, *_: Any, **options: Any) -> tuple[Tensor, Tensor]:
    kind = q.dtype if q.dtype.itemsize == 2 else torch.bfloat16
    result = q.new_empty((*q.shape[:-1], LATENT), dtype=kind)
    if not options["return_lse"]:
        return result, q.new_empty(0, dtype=torch.float32)
    queries = q.shape[1] if q.ndim == 4 else 1
    return result, q.new_empty((q.shape[0], q.shape[-2], queries), dtype=torch.float32)


latent_operator = register_op("flydsl_attention::mla_decode", _latent, fake=_fake_latent)


def latent_through_pytorch(
    q: Tensor,
    cache: Tensor,
    where: tuple[Tensor, Tensor],
    scales: tuple[Any, Any],
    options: DecodeOptions,
) -> tuple[Tensor, Tensor | None]:
    """Decode latent attention by the operator; arguments and result as of `run_latent`."""
    unit = scales[1]
    if is_number(unit):
        unit = torch.full((1,), as_number(unit, "kv_scale"), dtype=torch.float32, device=q.device)
    result, lse = latent_operator(
        q,
        cache,
        list(where),
        unit,
        softmax_scale=options.softmax_scale or 0.0,
        q_scale=1.0 if scales[0] is None else float(scales[0]),
        partitions=options.partitions or 0,
        return_lse=options.return_lse,
    )
    return result, lse if options.return_lse else None
