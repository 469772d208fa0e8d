"""The rotary embedding of a tensor of heads."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.attention.device.rotary import (
    copied_column,
    rotated_unit,
    store_unit,
    table_row,
    token_position,
)
from flydsl_kernels.attention.rotary import BLOCK, RotationPlan

__all__ = ["launch_rope"]


@flyc.kernel
def rope_kernel(
    X: fx.Tensor, C: fx.Tensor, S: fx.Tensor, P: fx.Tensor, Y: fx.Tensor,
    plan: fx.Constexpr[RotationPlan],
) -> None:  # fmt: skip
    """Y[token, head, :] = X[token, head, :] rotated by the angles of the token's position."""
    token = fx.block_idx.x
    work = fx.block_idx.y * BLOCK + fx.thread_idx.x
    head, unit = work // plan.units, work % plan.units
    if head < fx.Int32(X.shape[1]):
        source = X.iter + token.to(fx.Int64) * X.stride[0] + head.to(fx.Int64) * X.stride[1]
        result = Y.iter + token.to(fx.Int64) * Y.stride[0] + head.to(fx.Int64) * Y.stride[1]
        if unit < plan.rotated_units:
            position = token_position(P, token, plan)
            cosines, there = table_row(C, position)
            sines, _ = table_row(S, position)
            pairs = rotated_unit(source + plan.first, unit, (cosines, sines, there), plan)
            store_unit(result + plan.first, unit, pairs, plan)
        else:
            column = copied_column(unit, plan)
            kind = vector_alias(source.element, (plan.vector,))
            (result + column).store((source + column).load(kind))


@flyc.jit
def launch_rope(
    X: fx.Tensor, C: fx.Tensor, S: fx.Tensor, P: fx.Tensor, Y: fx.Tensor,
    plan: fx.Constexpr[RotationPlan], stream: fx.Stream,
) -> None:  # fmt: skip
    """Launch one thread for each unit of each head of each token."""
    parts = (X.shape[1] * plan.units + (BLOCK - 1)) // BLOCK
    rope_kernel(X, C, S, P, Y, plan).launch(grid=(X.shape[0], parts), block=(BLOCK,), stream=stream)
