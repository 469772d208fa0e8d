"""Gradients of the operations, as functions of arrays; the operators of PyTorch call them."""

from __future__ import annotations

from typing import Any

from flydsl_kernels.norm.arrays import (
    allocate_like,
    allocate_rows,
    as_vector,
    partial_of,
    problem_of,
    rows_of,
)
from flydsl_kernels.norm.ops.normalise import Norm
from flydsl_kernels.norm.selection import norm_plan, row_plan, select_columns, softmax_plan

__all__ = ["norm_gradients", "softmax_gradient"]

__flydsl_internal__ = True  # errors are at the line of the caller


def norm_gradients(
    x: Any, weight: Any, bias: Any, gradient: Any, norm: Norm
) -> tuple[Any, Any, Any]:
    """Return the gradients of x, weight and bias; None for a weight or bias that is None.

    The gradients of weights are summed over the rows in a fixed order, in f32.

    Args:
        x: What was normalised.
        weight: Factor per column, or None.
        bias: Summand per column, or None; only its type matters.
        gradient: Gradient of the result, of `x`'s shape and type.
        norm: Which normalisation.
    """
    from flydsl_kernels.norm.device.backward import launch_norm_backward
    from flydsl_kernels.norm.device.columns import launch_columns

    problem = problem_of(x, operands=2)
    out = allocate_like(x)
    d_weight, d_bias = (None if v is None else allocate_like(v) for v in (weight, bias))
    if not problem.rows:
        for vector in (d_weight, d_bias):
            if vector is not None:
                vector[:] = 0
        return out, d_weight, d_bias
    w = None if weight is None else as_vector(weight, problem.columns, x, "weight")
    source, incoming = rows_of(x), rows_of(gradient, like=x, what="the gradient")
    moments = allocate_rows(x, 3, problem.rows)
    plan = norm_plan(problem, norm.mean, w is not None, False, norm.eps)
    launch_norm_backward(
        source, source if w is None else w, incoming, rows_of(out), moments,
        partial_of(source, plan.row, 6), plan, None,
    )  # fmt: skip
    if weight is not None or bias is not None:
        columns = select_columns(problem, weight is not None, bias is not None)
        partial = allocate_rows(x, 2 * columns.slabs, problem.columns)
        unused = partial
        launch_columns(
            source, incoming, moments, partial, unused if d_weight is None else d_weight,
            unused if d_bias is None else d_bias, columns, None,
        )  # fmt: skip
    return out, d_weight, d_bias


def softmax_gradient(result: Any, gradient: Any, logarithm: bool) -> Any:
    """Return the gradient of the argument of a softmax, or of its logarithm.

    Args:
        result: What it returned.
        gradient: Gradient of the result.
        logarithm: Which one.
    """
    from flydsl_kernels.norm.device.softmax_backward import launch_softmax_backward

    problem = problem_of(result, operands=2)
    out = allocate_like(result)
    if problem.rows:
        row, rows = row_plan(problem), rows_of(result)
        launch_softmax_backward(
            rows, rows_of(gradient, like=result, what="the gradient"), rows_of(out),
            partial_of(rows, row, 1), softmax_plan(row, logarithm), None,
        )  # fmt: skip
    return out
