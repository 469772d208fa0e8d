"""Decoding as an operator of PyTorch; registered by this module's import."""

from __future__ import annotations

from typing import Any

import torch

from flydsl.ext.torch_ops import register_op
from flydsl_kernels.attention.ops.decode import DecodeOptions, run_decode

__all__ = ["decode_operator", "decode_through_pytorch"]

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
        q.new_full((1,), scale, dtype=torch.float32) if isinstance(scale, (int, float)) else scale
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
