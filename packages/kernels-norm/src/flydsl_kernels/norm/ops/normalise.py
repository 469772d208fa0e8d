"""What the normalising operations share: from arrays to a launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flydsl.errors import UserValueError
from flydsl.ext.arguments import is_finite
from flydsl_kernels.norm.arrays import (
    allocate_like,
    apart_rows,
    as_vector,
    partial_of,
    problem_of,
    rows_of,
)
from flydsl_kernels.norm.selection import norm_plan

__flydsl_internal__ = True  # errors are at the line of the caller

__all__ = ["Norm", "run_add_norm", "run_norm", "vectors_of"]


@dataclass(frozen=True, slots=True)
class Norm:
    """Which normalisation.

    Attributes:
        mean: Subtract the mean: LayerNorm, else RMSNorm.
        eps: Added to the variance or mean square.

    Raises:
        UserValueError: `eps` is negative, infinite or NaN.
    """

    mean: bool
    eps: float

    def __post_init__(self) -> None:
        if not (is_finite(self.eps) and self.eps >= 0):
            raise UserValueError(
                "an epsilon is a finite number of at least 0",
                code="FLY-U906",
                value=self.eps,
                allowed="0 to the largest float",
            )
        object.__setattr__(self, "eps", float(self.eps))


def vectors_of(x: Any, weight: Any, bias: Any) -> tuple[Any, Any]:
    """Return weight and bias as contiguous vectors that fit the columns of `x`, or None."""
    count = int(x.shape[-1])
    w = None if weight is None else as_vector(weight, count, x, "weight")
    b = None if bias is None else as_vector(bias, count, x, "bias")
    return w, b


def run_norm(
    x: Any, weight: Any, bias: Any, norm: Norm, out: Any = None, stream: Any = None
) -> Any:
    """Normalise the rows of `x`; see `flydsl_kernels.norm.rmsnorm` for the arguments."""
    from flydsl_kernels.norm.device.forward import launch_norm

    problem = problem_of(x)
    if out is None:
        w, b = vectors_of(x, weight, bias)
        result = allocate_like(x)
    else:
        (x,) = apart_rows((out,), x, in_place=True)
        w, b = apart_rows((out,), *vectors_of(x, weight, bias))
        result = out
    rows = rows_of(result, written=True, like=x, what="out")
    if problem.rows:
        plan = norm_plan(problem, norm.mean, w is not None, b is not None, norm.eps)
        source = rows_of(x)
        # An absent weight or bias needs some tensor in its place; the kernel does not touch it.
        launch_norm(
            source, source if w is None else w, source if b is None else b, rows,
            partial_of(source, plan.row, 4), plan, stream,
        )  # fmt: skip
    return result


def run_add_norm(
    arrays: tuple[Any, Any, Any, Any], norm: Norm, out: Any, sums: Any, stream: Any
) -> tuple[Any, Any]:
    """Add two matrices and normalise the rows of the sum.

    Args:
        arrays: x, residual, weight or None, bias or None.
        norm: Which normalisation.
        out: Where to put the result, or None.
        sums: Where to put the sum, or None.
        stream: Where to launch.

    Returns:
        Result and sum.
    """
    from flydsl_kernels.norm.device.fused_add import launch_add_norm
    from flydsl_kernels.norm.device.operands import Operands

    x, residual, weight, bias = arrays
    problem = problem_of(x)
    if out is None and sums is None:
        w, b = vectors_of(x, weight, bias)
    else:
        x, residual = apart_rows((out, sums), x, residual, in_place=True)
        w, b = apart_rows((out, sums), *vectors_of(x, weight, bias))
    other = rows_of(residual, like=x, what="residual")
    result = allocate_like(x) if out is None else out
    total = allocate_like(x) if sums is None else sums
    rows = rows_of(result, written=True, like=x, what="out")
    kept = rows_of(total, written=True, like=x, what="residual_out")
    if problem.rows:
        plan = norm_plan(problem, norm.mean, w is not None, b is not None, norm.eps)
        source = rows_of(x)
        operands = Operands(
            x=source, residual=other, weight=source if w is None else w,
            bias=source if b is None else b, smooth=source, out=rows, scales=source, sums=kept,
            partial=partial_of(source, plan.row, 4),
        )  # fmt: skip
        launch_add_norm(operands, plan, stream)
    return result, total
