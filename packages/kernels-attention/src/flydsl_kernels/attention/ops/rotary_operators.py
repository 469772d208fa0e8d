"""Rotations as operators of PyTorch; registered by this module's import.

``torch.compile`` and ``torch.export`` see each as one call, ``torch.ops.flydsl_attention.<name>``.
"""

from __future__ import annotations

from typing import Any

import torch

from flydsl.ext.torch_ops import register_op
from flydsl_kernels.attention.ops import caching, head_norm
from flydsl_kernels.attention.ops.rotation import run_rope

__all__ = [
    "cache_through_pytorch",
    "fused_rope_kv_cache_operator",
    "qk_norm_rope_quant_operator",
    "rope_operator",
]

__flydsl_internal__ = True  # errors are at the line of the caller

Tensor = torch.Tensor


def _like(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def _rope(
    x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, style: str, rotary_dim: int
) -> Tensor:
    out: Tensor = run_rope(x, cos, sin, positions, style=style, rotary_dim=rotary_dim)
    return out


def _save_rope(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001
    _, cos, sin, positions, ctx.style, ctx.rotary_dim = inputs
    ctx.save_for_backward(cos, sin, positions)


def _rope_backward(ctx: Any, gradient: Tensor) -> Any:
    """Turn gradients back: the transpose of a rotation has the pairs' sines swapped and negated."""
    cos, sin, positions = ctx.saved_tensors
    if sin.shape[-1] == ctx.rotary_dim:
        if ctx.style == "neox":
            sin = sin.roll(ctx.rotary_dim // 2, -1)
        else:
            sin = sin.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    turned = rope_operator(gradient, cos, -sin, positions, ctx.style, ctx.rotary_dim)
    return turned, None, None, None, None, None


rope_operator = register_op(
    "flydsl_attention::rope",
    _rope,
    fake=lambda x, *_: _like(x),
    save=_save_rope,
    backward=_rope_backward,
)


def _fused(
    heads: list[Tensor],
    angles: list[Tensor | None],
    slots: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    scales: list[Tensor | None],
    k_out: Tensor | None,
    *,
    style: str,
    rotary_dim: int,
    cache_layout: str,
) -> Tensor:
    """Rotate and store; `heads` are q, k, v, `angles` cos, sin, positions (or None)."""
    q, k, v = heads
    cos, sin, positions = angles
    out: Tensor = caching.run_rope_cache(
        (q, k, v),
        (cos, sin, positions),
        (slots, key_cache, value_cache),
        (scales[0], scales[1]),
        caching.CacheOptions(style, rotary_dim, cache_layout, k_out=k_out),
    )
    return out


fused_rope_kv_cache_operator = register_op(
    "flydsl_attention::fused_rope_kv_cache",
    _fused,
    fake=lambda heads, *_, **__: _like(heads[0]),
    mutates=("key_cache", "value_cache", "k_out"),
)


def cache_through_pytorch(
    operands: tuple[Tensor, Tensor, Tensor],
    angles: tuple[Tensor, Tensor, Tensor | None],
    cache: tuple[Tensor, Tensor, Tensor],
    scales: tuple[Any, Any],
    options: caching.CacheOptions,
) -> Tensor:
    """Rotate and store by the operator; arguments as of `run_rope_cache`, without `q_out`."""
    keys = operands[1]
    heads = keys.shape[-2] if keys.ndim > 1 else 0
    out: Tensor = fused_rope_kv_cache_operator(
        list(operands),
        list(angles),
        *cache,
        list(caching.cache_scales(*scales, heads, cache[1:])),
        options.k_out,
        style=options.style,
        rotary_dim=options.rotary_dim,
        cache_layout=options.cache_layout,
    )
    return out


def _qk_norm(
    heads: list[Tensor],
    angles: list[Tensor | None],
    weights: list[Tensor | None],
    *,
    eps: float,
    rotary_dim: int,
    quant: str,
    group: int,
    scale_dtype: str,
) -> list[Tensor]:
    """Normalise and rotate; `heads` are q and kv, `quant` empty for unquantised results."""
    options = head_norm.NormOptions(eps, rotary_dim, quant or None, group, scale_dtype)
    cos, sin, positions = angles
    return list(
        head_norm.run_qk_norm(
            (heads[0], heads[1]), (cos, sin, positions), (weights[0], weights[1]), options
        )
    )


def _fake_qk_norm(heads: list[Tensor], *_: Any, **options: Any) -> list[Tensor]:
    kept = head_norm.NormOptions(
        options["eps"],
        options["rotary_dim"],
        options["quant"] or None,
        options["group"],
        options["scale_dtype"],
    )
    return list(head_norm.new_outputs((heads[0], heads[1]), kept))


qk_norm_rope_quant_operator = register_op(
    "flydsl_attention::qk_norm_rope_quant", _qk_norm, fake=_fake_qk_norm
)
