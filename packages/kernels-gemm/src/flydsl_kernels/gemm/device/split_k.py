"""Adds the sums of the parts of K, always in the same order, and finishes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.vector import vector_alias
from flydsl_kernels.gemm.device.epilogue import Extras, Finish, corner, corner_offset, deliver
from flydsl_kernels.gemm.plan import EpiloguePlan

__all__ = ["SplitPlan", "launch_sum"]

_ROWS, _LANES = 4, 64


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """What the sum is compiled for.

    Attributes:
        parts: How many sums there are of every element.
        integer: Whether they are i32.
        epilogue: How results are finished.
    """

    parts: int
    integer: bool
    epilogue: EpiloguePlan

    @property
    def columns(self) -> int:
        """Columns of a workgroup."""
        return _LANES * self.epilogue.vector


@flyc.kernel
def sum_kernel(W: fx.Tensor, C: fx.Tensor, extras: Extras, plan: fx.Constexpr[SplitPlan]) -> None:
    """C = finished(sum of W over its parts); W is (parts * batch, M, N)."""
    rows, columns = fx.Int32(C.shape[1]), fx.Int32(C.shape[2])
    batches = fx.Int32(C.shape[0])
    across = (columns + (plan.columns - 1)) // plan.columns
    down = (rows + (_ROWS - 1)) // _ROWS
    layer, within = fx.block_idx.x // (across * down), fx.block_idx.x % (across * down)
    row, column = within // across * _ROWS, within % across * plan.columns
    finish = Finish(plan.epilogue, extras, layer, row, column, rows, columns)
    own_row = fx.thread_idx.x // _LANES
    own_column = fx.thread_idx.x % _LANES * plan.epilogue.vector
    kind = vector_alias(fx.Int32 if plan.integer else fx.Float32, (plan.epilogue.vector,))
    total = load_part(W, layer, (own_row, own_column), finish, kind)
    for part in range(1, plan.parts):
        total = total + load_part(W, layer + part * batches, (own_row, own_column), finish, kind)
    deliver(total, own_row, own_column, finish, (C, corner(C, layer, finish)))


def load_part(tensor: Any, layer: Any, place: tuple[Any, Any], finish: Finish, kind: Any) -> Any:
    """Load a lane's sums of one part."""
    source = corner(tensor, layer, finish)
    return (source + corner_offset(tensor, *place)).load(kind)


@flyc.jit
def launch_sum(
    W: fx.Tensor, C: fx.Tensor, extras: Extras, plan: fx.Constexpr[SplitPlan], stream: fx.Stream
) -> None:
    """Launch one workgroup for every four rows and 64 vectors of columns."""
    across = (C.shape[2] + (plan.columns - 1)) // plan.columns
    groups = across * ((C.shape[1] + (_ROWS - 1)) // _ROWS) * C.shape[0]
    sum_kernel(W, C, extras, plan).launch(grid=(groups,), block=(_ROWS * _LANES,), stream=stream)
