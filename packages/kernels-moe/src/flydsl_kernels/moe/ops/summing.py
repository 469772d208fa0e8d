"""Sums of the rows of every token, from arrays to a launch."""

from __future__ import annotations

from typing import Any

from flydsl.ext import arrays
from flydsl_kernels.moe.arguments import check_array, written
from flydsl_kernels.moe.selection import rows_plan

__all__ = ["ROW_TYPES", "VECTOR_BYTES", "run_reduce", "sum_rows", "summed"]

__flydsl_internal__ = True  # errors are at the line of the caller

ROW_TYPES = ("float32", "float16", "bfloat16")
VECTOR_BYTES = 16


def sum_rows(
    x: Any, places: Any, weights: Any, out: Any, gathered: bool, stream: Any = None
) -> None:
    """Sum the rows of every token.

    Args:
        x: (R, C) rows.
        places: (T, k) int32 or None; -1 where there is no row.
        weights: (T, k) float32 or None.
        out: (T, C).
        gathered: Whether `places` numbers the rows; else rows are in the order of the pairs.
        stream: Where to launch.
    """
    from flydsl_kernels.moe.device.rows import launch_combine

    tokens, columns = (int(extent) for extent in out.shape)
    if not tokens or not columns:
        return
    slots = int(x.shape[0]) // tokens if places is None else int(places.shape[1])
    plan = rows_plan(
        VECTOR_BYTES // x.itemsize, places is not None, gathered, weights is not None
    )  # fmt: skip
    some = x if places is None else places
    launch_combine(x, some, some if weights is None else weights, out, slots, plan, stream)


def summed(
    rows: Any, places: Any, weights: Any, out: Any, gathered: bool, stream: Any,
    pairs: tuple[int, int] | None = None,
) -> Any:  # fmt: skip
    """Return the sums of rows; see `sum_rows`. `pairs` are tokens and slots, else as `places`."""
    if pairs is None:
        pairs = tuple(int(extent) for extent in places.shape)  # type: ignore[assignment]
    assert pairs is not None
    rows, places, weights = arrays.apart_from((out,), rows, places, weights)
    if weights is not None:
        weights = check_array(weights, pairs, ("float32",), rows, "weights")
    shape = (pairs[0], int(rows.shape[1]))
    result = written(out, shape, arrays.dtype_name(rows), rows, dtypes=ROW_TYPES)
    sum_rows(rows, places, weights, result, gathered, stream)
    return result


def run_reduce(rows: Any, places: Any, weights: Any, out: Any = None, stream: Any = None) -> Any:
    """Sum without PyTorch's knowledge; see `moe_reduce`."""
    tokens, slots, columns = (int(extent) for extent in rows.shape)
    rows = check_array(rows, (tokens, slots, columns), ROW_TYPES, rows, "rows")
    if places is not None:
        places = check_array(places, (tokens, slots), ("int32",), rows, "places")
    flat = rows.reshape(tokens * slots, columns)
    if places is None and weights is None and not tokens:
        return arrays.empty((0, columns), arrays.dtype_name(rows), rows) if out is None else out
    return summed(flat, places, weights, out, False, stream, (tokens, slots))
