"""`rmsnorm_quantised` and `layernorm_quantised`."""

from __future__ import annotations

from typing import Any

from flydsl.errors import ConfigError
from flydsl_kernels.norm.arrays import allocate_rows, allocate_small, problem_of, rows_of
from flydsl_kernels.norm.ops.normalise import Norm, vectors_of
from flydsl_kernels.norm.selection import NormPlan, QuantPlan, select_rows

__all__ = ["layernorm_quantised", "rmsnorm_quantised"]

LIMITS = {"int8": 127.0, "float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0}


def _run(x: Any, weight: Any, bias: Any, norm: Norm, dtype: str) -> tuple[Any, Any]:
    from flydsl_kernels.norm.device.quantised import launch_quantised

    if dtype not in LIMITS:
        raise ConfigError(
            "rows are not quantised to this element type",
            code="FLY-C903",
            value=dtype,
            allowed=", ".join(LIMITS),
        )
    problem = problem_of(x)
    w, b = vectors_of(x, weight, bias)
    result = allocate_small(x, dtype)
    scales = allocate_rows(x, 1, problem.rows)
    if problem.rows:
        row = select_rows(problem)
        plan = NormPlan(row, norm.mean, w is not None, b is not None, float(norm.eps))
        source = rows_of(x)
        launch_quantised(
            source, source if w is None else w, source if b is None else b,
            result.reshape(problem.rows, problem.columns), scales, QuantPlan(plan, LIMITS[dtype]),
            None,
        )  # fmt: skip
    return result, scales.reshape(tuple(x.shape[:-1]))


def rmsnorm_quantised(
    x: Any, weight: Any = None, eps: float = 1e-6, *, dtype: str = "int8"
) -> tuple[Any, Any]:
    """Normalise rows as `rmsnorm` does, with 8-bit results and one scale per row.

    For smooth quantisation multiply the weight by the smoothing factors first.

    Args:
        x: As for `rmsnorm`; gradients do not pass through.
        weight: One factor per column.
        eps: Added to the mean square; compiled in.
        dtype: ``int8``, ``float8_e4m3fn`` or ``float8_e4m3fnuz``; every target converts to both
            8-bit floats, to its own one with an instruction.

    Returns:
        The 8-bit array, of `x`'s shape, and the scales, of its shape without the last axis, in
        f32: the result is about the first times the second. The largest magnitude of a row
        becomes 127, 448 or 240.

    Raises:
        ConfigError: Rows too long, or an element type that is not supported.
        UserTypeError: Arguments of other libraries or of different devices.
        UserValueError: Shapes that do not fit, or a negative or infinite `eps`.
    """
    return _run(x, weight, None, Norm(False, eps), dtype)


def layernorm_quantised(
    x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *, dtype: str = "int8"
) -> tuple[Any, Any]:
    """Normalise rows as `layernorm` does, with 8-bit results and one scale per row.

    Arguments, results and errors are those of `rmsnorm_quantised`; `bias` is one summand per
    column.
    """
    return _run(x, weight, bias, Norm(True, eps), dtype)
