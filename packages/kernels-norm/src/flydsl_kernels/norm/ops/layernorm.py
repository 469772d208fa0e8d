"""`layernorm`."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.ext.arguments import through_pytorch
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.norm.ops.normalise import Norm, run_norm

__all__ = ["layernorm"]

__flydsl_internal__ = True  # errors are at the line of the caller


@at_user_line()
@outputs_in_graphs("out")
def layernorm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    out: Any = None,
    stream: Any = None,
) -> Any:
    """Return (x - mean) · (var + eps)^(-1/2) · weight + bias for every row.

    The variance is the mean of squared differences from the mean, in f32: a large common offset
    of a row costs no accuracy.

    Args:
        x: As for `rmsnorm`.
        weight: One factor per column.
        bias: One summand per column.
        eps: Added to the variance; compiled in.
        out: As for `rmsnorm`.
        stream: Where to launch; default: the current stream.

    Returns:
        `out`, or a new array of `x`'s shape and type.

    Raises:
        ConfigError: Rows too long, or an element type that is not supported.
        UserTypeError: Arguments of other libraries or of different devices.
        UserValueError: Shapes that do not fit, or a negative or infinite `eps`.
    """
    norm = Norm(True, eps)
    if through_pytorch(out is None and stream is None, {"x": x}, weight=weight, bias=bias, out=out):
        from flydsl_kernels.norm.ops.operators import layernorm_operator

        return layernorm_operator(x, weight, bias, norm.eps)
    return run_norm(x, weight, bias, norm, out, stream)
