"""Normalisation of rows that fit in registers, with an optional addition before it."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.norm.device.long_forward import long_add_norm_kernel, long_norm_kernel
from flydsl_kernels.norm.device.moments import centred
from flydsl_kernels.norm.device.rows import (
    Share,
    affine,
    column_count,
    load_share,
    own_share,
    store_share,
    widened,
)
from flydsl_kernels.norm.selection import NormPlan

__all__ = ["launch_add_norm", "launch_norm"]


def load_columns(tensor: Any, share: Share, present: bool) -> list[Any]:
    """Load a thread's share of a vector of weights, or as many times None."""
    count = share.plan.chunks + share.plan.tail
    return load_share(tensor.iter, share) if present else [None] * count


def normalise(values: list[Any], share: Share, tensors: tuple[Any, Any, Any], plan: Any) -> None:
    """Normalise f32 values of a row and store them.

    Args:
        values: The thread's share.
        share: Its place.
        tensors: Weight, bias and result.
        plan: What to do.
    """
    weight, bias, result = tensors
    # Loaded before the values are combined, so that the latencies overlap.
    weights = load_columns(weight, share, plan.weight)
    columns = column_count(result).to(fx.Float32)
    values, _, scale, shift = centred(values, share, columns, plan.eps, plan.mean)
    biases = load_columns(bias, share, plan.bias)
    out = []
    for value, w, b in zip(values, weights, biases, strict=True):
        unit = fx.math.fma(value, scale, shift) if plan.mean else value * scale
        out.append(affine(unit, w, b))
    store_share(share.start(result), share, out)


@flyc.kernel
def norm_kernel(
    X: fx.Tensor, W: fx.Tensor, B: fx.Tensor, Y: fx.Tensor, plan: fx.Constexpr[NormPlan]
) -> None:
    """Y = normalised rows of X, times W, plus B."""
    share = own_share(plan.row, X)
    values = widened(load_share(share.start(X), share))
    normalise(values, share, (W, B, Y), plan)


@flyc.kernel
def add_norm_kernel(
    X: fx.Tensor, R: fx.Tensor, W: fx.Tensor, B: fx.Tensor, Y: fx.Tensor, S: fx.Tensor,
    plan: fx.Constexpr[NormPlan],
) -> None:  # fmt: skip
    """S = X + R, rounded to its type; Y = normalised rows of S, times W, plus B."""
    share = own_share(plan.row, X)
    first = widened(load_share(share.start(X), share))
    second = widened(load_share(share.start(R), share))
    values = widened([(a + b).to(S.dtype) for a, b in zip(first, second, strict=True)])
    store_share(share.start(S), share, values)
    normalise(values, share, (W, B, Y), plan)


@flyc.jit
def launch_norm(
    X: fx.Tensor, W: fx.Tensor, B: fx.Tensor, Y: fx.Tensor,
    plan: fx.Constexpr[NormPlan], stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch the kernel for rows in registers, or the one for long rows."""
    groups = (X.shape[0] + (plan.row.rows - 1)) // plan.row.rows
    kernel = long_norm_kernel if plan.row.looped else norm_kernel
    kernel(X, W, B, Y, plan).launch(grid=(groups,), block=(plan.row.block,), stream=stream)


@flyc.jit
def launch_add_norm(
    X: fx.Tensor, R: fx.Tensor, W: fx.Tensor, B: fx.Tensor, Y: fx.Tensor, S: fx.Tensor,
    plan: fx.Constexpr[NormPlan], stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch the fused addition and normalisation."""
    groups = (X.shape[0] + (plan.row.rows - 1)) // plan.row.rows
    kernel = long_add_norm_kernel if plan.row.looped else add_norm_kernel
    kernel(X, R, W, B, Y, S, plan).launch(grid=(groups,), block=(plan.row.block,), stream=stream)
