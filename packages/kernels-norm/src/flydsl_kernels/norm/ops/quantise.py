"""The quantising operations from arrays to a launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flydsl.errors import UserValueError
from flydsl.ext.arguments import check_results_apart
from flydsl.ext.arrays import (
    as_bytes,
    check_dtype,
    check_same_library,
    check_shape,
    empty,
)
from flydsl_kernels.norm.arrays import (
    allocate_like,
    apart_rows,
    as_vector,
    partial_of,
    problem_of,
    rows_of,
)
from flydsl_kernels.norm.formats import QuantFormat
from flydsl_kernels.norm.ops.normalise import Norm, vectors_of
from flydsl_kernels.norm.selection import norm_plan, quant_plan

__all__ = ["Inputs", "fake_quantised", "run_quantised"]

__flydsl_internal__ = True  # errors are at the line of the caller


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """What is normalised and quantised.

    Attributes:
        x: Rows.
        residual: What is added first, or None.
        weight: Factor per column, or None.
        bias: Summand per column, or None.
        smooth: Factor per column after the bias, or None.
    """

    x: Any
    residual: Any = None
    weight: Any = None
    bias: Any = None
    smooth: Any = None


def shapes_of(x: Any, form: QuantFormat) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of a quantised result and its scales."""
    columns = int(x.shape[-1])
    lead = tuple(int(extent) for extent in x.shape[:-1])
    return (*lead, columns), (*lead, form.scales_of(columns)) if form.group else lead


def fake_quantised(x: Any, form: QuantFormat) -> tuple[Any, Any]:
    """Return new arrays for a result and its scales; `form` is resolved."""
    shape, scales = shapes_of(x, form)
    return empty(shape, form.dtype, x), empty(scales, form.scale_dtype, x)


def _results(x: Any, form: QuantFormat, out: Any) -> tuple[Any, Any]:
    """Return where the result and its scales go, checked.

    Raises:
        UserTypeError: They are of another library or device.
        UserValueError: There are not two, or they do not fit.
    """
    if out is None:
        return fake_quantised(x, form)
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise UserValueError(
            "out is a pair: for the result and for its scales",
            code="FLY-U907",
            value=type(out).__name__,
        )
    kinds = (form.dtype, form.scale_dtype)
    for array, shape, dtype, what in zip(
        out, shapes_of(x, form), kinds, ("out[0]", "out[1]"), strict=True
    ):
        check_same_library(array, x, what)
        check_shape(array, shape, what)
        check_dtype(array, (dtype,), what)
    check_results_apart(**{"out[0]": out[0], "out[1]": out[1]})
    return out[0], out[1]


def _as_rows(scales: Any, rows: int, form: QuantFormat, columns: int) -> Any:
    """Return scales as the matrix that kernels write to: of bytes, if they are powers of two."""
    flat = scales.reshape(rows, form.scales_of(columns)) if not form.group else scales
    matrix = rows_of(flat, written=True, what="out[1]")
    return as_bytes(matrix) if form.power else matrix


def run_quantised(
    given: Inputs, norm: Norm, form: QuantFormat, out: Any = None, stream: Any = None
) -> tuple[Any, ...]:
    """Normalise and quantise rows; returns result, scales and, if a residual is added, the sum."""
    from flydsl_kernels.norm.device.operands import Operands
    from flydsl_kernels.norm.device.quantised import launch_quantised

    problem = problem_of(given.x)
    form = form.resolved(given.x)
    result, scales = _results(given.x, form, out)
    if out is not None:
        g = given
        given = Inputs(*apart_rows((result, scales), g.x, g.residual, g.weight, g.bias, g.smooth))
    x = given.x
    w, b = vectors_of(x, given.weight, given.bias)
    f = None if given.smooth is None else as_vector(given.smooth, problem.columns, x, "smooth")
    added = given.residual is not None
    other = rows_of(given.residual, like=x, what="residual") if added else None
    rows = rows_of(result, written=True, what="out[0]")
    total = allocate_like(x) if added else None
    if problem.rows:
        source = rows_of(x)
        plain = norm_plan(problem, norm.mean, w is not None, b is not None, norm.eps)
        plan = quant_plan(plain, form.limit, form.group, form.power, f is not None, added)
        # An absent tensor needs some other one in its place; the kernel does not touch it.
        operands = Operands(
            x=source, residual=source if other is None else other,
            weight=source if w is None else w, bias=source if b is None else b,
            smooth=source if f is None else f, out=rows,
            scales=_as_rows(scales, problem.rows, form, problem.columns),
            sums=source if total is None else rows_of(total),
            partial=partial_of(source, plain.row, 5),
        )  # fmt: skip
        launch_quantised(operands, plan, stream)
    return (result, scales, total) if added else (result, scales)
