"""`softmax` and `log_softmax`."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.errors import UserValueError
from flydsl.ext.arguments import as_integer, through_pytorch
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.norm.ops.softmax_rows import run_softmax

__all__ = ["log_softmax", "softmax"]

__flydsl_internal__ = True  # errors are at the line of the caller


def _run(x: Any, axis: int, logarithm: bool, out: Any, stream: Any) -> Any:
    traced = through_pytorch(out is None and stream is None, {"x": x}, out=out)
    if as_integer(axis, "axis") not in (-1, len(x.shape) - 1):
        raise UserValueError(
            "rows are along the last axis",
            code="FLY-U905",
            value=axis,
            allowed="-1",
            hint="move the axis to the end first",
        )
    if traced:
        from flydsl_kernels.norm.ops.operators import softmax_operator

        return softmax_operator(x, logarithm)
    return run_softmax(x, logarithm, out, stream)


@at_user_line()
@outputs_in_graphs("out")
def softmax(x: Any, axis: int = -1, *, out: Any = None, stream: Any = None) -> Any:
    """Return e^x / Σ e^x for every row.

    Differences from the row's maximum are taken first. A row with NaN or +inf, or with nothing
    but -inf, becomes NaN.

    Args:
        x: As for `rmsnorm`.
        axis: The last one.
        out: As for `rmsnorm`.
        stream: Where to launch; default: the current stream.

    Returns:
        `out`, or a new array of `x`'s shape and type.

    Raises:
        ConfigError: Rows too long, or an element type that is not supported.
        UserTypeError: Arguments of other libraries or of different devices.
        UserValueError: Another axis than the last, or an `out` that does not fit.
    """
    return _run(x, axis, False, out, stream)


@at_user_line()
@outputs_in_graphs("out")
def log_softmax(x: Any, axis: int = -1, *, out: Any = None, stream: Any = None) -> Any:
    """Return x - log Σ e^x for every row; arguments, result and errors are those of `softmax`."""
    return _run(x, axis, True, out, stream)
