"""Flash attention as an operator of PyTorch, with gradients; registered by this module's import.

``torch.compile`` and ``torch.export`` see one call, ``torch.ops.flydsl_attention.flash_attention``.
"""

from __future__ import annotations

from typing import Any

import torch

from flydsl.errors import ConfigError
from flydsl.ext.arguments import check_no_gradient
from flydsl.ext.torch_ops import register_op
from flydsl_kernels.attention.ops.backward import run_backward
from flydsl_kernels.attention.ops.flash_arguments import Extras, Keys, Sequences
from flydsl_kernels.attention.ops.forward import run_forward

__all__ = ["differentiable_attention", "flash_attention_operator", "gradient_operator"]

__flydsl_internal__ = True  # errors are at the line of the caller

Tensor = torch.Tensor
Tensors = list[Tensor | None]
_OPTIONAL = ("cu_seqlens_q", "cu_seqlens_k", "block_table", "seqlens_k", "bias", "alibi_slopes",
             "sink", "q_descale", "k_descale", "v_descale")  # fmt: skip


def _unpacked(
    others: list[Tensor | None], sizes: list[int], layout: str, scale: float
) -> tuple[Sequences, Keys, Extras]:
    """Return the arguments in the form of `run_forward`; see `_packed`."""
    starts_q, starts_k, table, lengths, bias, slopes, sink, unit_q, unit_k, unit_v = others
    most_q, most_k, splits, causal, left, right = sizes
    bounds = (None if most_q < 0 else most_q, None if most_k < 0 else most_k)
    return (
        Sequences(starts_q, starts_k, *bounds),
        Keys(table, lengths, layout, splits),
        Extras(
            bool(causal), (left, right), scale or None, bias, slopes, sink, (unit_q, unit_k, unit_v)
        ),
    )


def _packed(
    sequences: Sequences, keys: Keys, extras: Extras, device: Any
) -> tuple[list[Tensor | None], list[int], str, float]:
    """Return arguments as lists of tensors, of numbers with -1 for None, and what is left."""
    units = [
        value if value is None or isinstance(value, torch.Tensor)
        else torch.full((1,), float(value), dtype=torch.float32, device=device)
        for value in extras.descale
    ]  # fmt: skip
    others = [
        sequences.cu_seqlens_q, sequences.cu_seqlens_k, keys.block_table, keys.seqlens_k,
        extras.bias, extras.alibi_slopes, extras.sink, *units,
    ]  # fmt: skip
    sizes = [
        -1 if n is None else int(n)
        for n in (sequences.max_seqlen_q, sequences.max_seqlen_k, keys.num_splits, extras.causal,
                  *extras.window)
    ]  # fmt: skip
    return others, sizes, keys.kv_layout, extras.softmax_scale or 0.0


def _forward(
    q: Tensor, k: Tensor, v: Tensor, others: list[Tensor | None], sizes: list[int], layout: str,
    scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    result, lse = run_forward((q, k, v), *_unpacked(others, sizes, layout, scale), True)
    return result, lse


def _fake(q: Tensor, k: Tensor, v: Tensor, others: Any, sizes: Any, layout: str, scale: float
          ) -> tuple[Tensor, Tensor]:  # fmt: skip
    del k, others, sizes, scale
    width = v.shape[3] if layout == "vectorised" else v.shape[-1]
    kind = torch.bfloat16 if q.dtype.itemsize == 1 else q.dtype
    result = q.new_empty((*q.shape[:-1], width), dtype=kind)
    rows = (q.shape[1], q.shape[0]) if q.dim() == 3 else (q.shape[0], q.shape[2], q.shape[1])
    return result, q.new_empty(rows, dtype=torch.float32)


def _gradients(
    arrays: list[Tensor], results: list[Tensor], gradients: list[Tensor],
    others: list[Tensor | None], sizes: list[int], scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    sequences, _, extras = _unpacked(others, sizes, "linear", scale)
    q, k, v = arrays
    return run_backward((q, k, v), (results[0], results[1]), (gradients[0], gradients[1]),
                        sequences, extras)  # fmt: skip


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    q, k, v, others, ctx.sizes, ctx.layout, ctx.scale = inputs
    ctx.given = tuple(
        name for name, value in zip(_OPTIONAL, others, strict=True) if value is not None
    )
    ctx.save_for_backward(q, k, v, *output, *others[:2])


def _backward(ctx: Any, gradient: Tensor, of_lse: Tensor) -> Any:
    q, k, v, result, lse, *starts = ctx.saved_tensors
    extra = [name for name in ctx.given if not name.startswith("cu_seqlens")]
    if extra or q.dtype.itemsize == 1:
        raise ConfigError(
            "flash attention with these arguments has no gradient",
            code="FLY-C948",
            value=", ".join(extra) or str(q.dtype),
            allowed="bfloat16 and float16, dense or packed, with causal, window, softmax_scale",
        )
    others = [*starts, *[None] * (len(_OPTIONAL) - 2)]
    found = gradient_operator(
        [q, k, v], [result, lse], [gradient, of_lse], others, ctx.sizes, ctx.scale
    )
    return (*found, None, None, None, None)


gradient_operator = register_op(
    "flydsl_attention::flash_attention_gradients",
    _gradients,
    fake=lambda arrays, *_: tuple(torch.empty_like(x) for x in arrays),
)
flash_attention_operator = register_op(
    "flydsl_attention::flash_attention", _forward, fake=_fake, save=_save, backward=_backward
)


def differentiable_attention(
    arrays: tuple[Tensor, Tensor, Tensor], sequences: Sequences, keys: Keys, extras: Extras
) -> tuple[Tensor, Tensor]:
    """Return the result and the logarithms of the sums, as PyTorch differentiates them.

    Raises:
        UserValueError: A gradient is wanted of an argument that is not q, k or v.
    """
    units = dict(zip(_OPTIONAL[-3:], extras.descale, strict=True))
    check_no_gradient(
        "these arguments of flash attention", "FLY-U968", bias=extras.bias,
        alibi_slopes=extras.alibi_slopes, sink=extras.sink, **units,
    )  # fmt: skip
    packed = _packed(sequences, keys, extras, arrays[0].device)
    result, lse = flash_attention_operator(*arrays, *packed)
    return result, lse
