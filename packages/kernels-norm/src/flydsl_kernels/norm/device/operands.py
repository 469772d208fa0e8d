"""`Operands`: the tensors of the fused operations, together."""

from __future__ import annotations

import flydsl.expr as fx

__all__ = ["Operands"]


@fx.struct
class Operands(fx.Struct):
    """Tensors of a fused addition, normalisation and quantisation.

    Those that the plan does not ask for are some other tensor, and not touched.

    Attributes:
        x: Matrix of rows.
        residual: What is added to it.
        weight: Factor per column.
        bias: Summand per column.
        smooth: Factor per column of the result, for quantisation.
        out: The result.
        scales: Scales of a quantised result: of every row, or a matrix of those of groups.
        sums: The sum of `x` and `residual`.
        partial: What parts of split rows leave for each other.
    """

    x: fx.Tensor
    residual: fx.Tensor
    weight: fx.Tensor
    bias: fx.Tensor
    smooth: fx.Tensor
    out: fx.Tensor
    scales: fx.Tensor
    sums: fx.Tensor
    partial: fx.Tensor
