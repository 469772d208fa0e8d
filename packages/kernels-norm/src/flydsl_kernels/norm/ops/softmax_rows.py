"""Softmax from arrays to a launch."""

from __future__ import annotations

from typing import Any

from flydsl_kernels.norm.arrays import allocate_like, apart_rows, partial_of, problem_of, rows_of
from flydsl_kernels.norm.selection import SOFTMAX_CHUNKS, row_plan, softmax_plan

__all__ = ["run_softmax"]

__flydsl_internal__ = True  # errors are at the line of the caller


def run_softmax(x: Any, logarithm: bool, out: Any = None, stream: Any = None) -> Any:
    """Compute softmax or its logarithm; see `softmax` for the arguments."""
    from flydsl_kernels.norm.device.softmax import launch_softmax

    problem = problem_of(x)
    if out is not None:
        (x,) = apart_rows((out,), x, in_place=True)
    result = allocate_like(x) if out is None else out
    rows = rows_of(result, written=True, like=x, what="out")
    if problem.rows:
        row, source = row_plan(problem, SOFTMAX_CHUNKS), rows_of(x)
        partial = partial_of(source, row, 2)
        launch_softmax(source, rows, partial, softmax_plan(row, logarithm), stream)
    return result
