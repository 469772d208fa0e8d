"""Softmax from arrays to a launch."""

from __future__ import annotations

from typing import Any

from flydsl_kernels.norm.arrays import allocate_like, problem_of, rows_of
from flydsl_kernels.norm.selection import SoftmaxPlan, select_rows

__all__ = ["run_softmax"]


def run_softmax(x: Any, logarithm: bool, out: Any = None, stream: Any = None) -> Any:
    """Compute softmax or its logarithm; see `softmax` for the arguments."""
    from flydsl_kernels.norm.device.softmax import launch_softmax

    problem = problem_of(x)
    result = allocate_like(x) if out is None else out
    rows = rows_of(result, written=True, like=x, what="out")
    if problem.rows:
        launch_softmax(rows_of(x), rows, SoftmaxPlan(select_rows(problem), logarithm), stream)
    return result
