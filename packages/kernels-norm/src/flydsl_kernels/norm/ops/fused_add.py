"""`fused_add_rmsnorm` and `fused_add_layernorm`."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.ext.arguments import check_results_apart, through_pytorch
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.norm.ops.normalise import Norm, run_add_norm

__all__ = ["fused_add_layernorm", "fused_add_rmsnorm"]

__flydsl_internal__ = True  # errors are at the line of the caller


@at_user_line()
@outputs_in_graphs("out", "residual_out")
def fused_add_rmsnorm(
    x: Any,
    residual: Any,
    weight: Any = None,
    eps: float = 1e-6,
    *,
    out: Any = None,
    residual_out: Any = None,
    stream: Any = None,
) -> tuple[Any, Any]:
    """Add a residual, and normalise the rows of the sum as `rmsnorm` does.

    The sum is rounded to the element type before it is normalised, so both results belong
    together. Use the second one as the next residual for pre-norm layers, the first one for
    post-norm layers.

    Args:
        x: As for `rmsnorm`.
        residual: Of `x`'s shape and type.
        weight: One factor per column.
        eps: Added to the mean square; compiled in.
        out: Where to put the normalised sum; may be `x`.
        residual_out: Where to put the sum; may be `residual`.
        stream: Where to launch; default: the current stream.

    Returns:
        The normalised sum and the sum.

    Raises:
        ConfigError: Rows too long, or an element type that is not supported.
        UserTypeError: Arguments of other libraries or of different devices.
        UserValueError: Shapes or types that do not fit, or a negative or infinite `eps`.
    """
    norm = Norm(False, eps)
    return _run((x, residual, weight, None), norm, out, residual_out, stream)


@at_user_line()
@outputs_in_graphs("out", "residual_out")
def fused_add_layernorm(
    x: Any,
    residual: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    out: Any = None,
    residual_out: Any = None,
) -> tuple[Any, Any]:
    """Add a residual, and normalise the rows of the sum as `layernorm` does.

    Arguments, results and errors are those of `fused_add_rmsnorm`; `bias` is one summand per
    column, and the launch goes to the current stream.
    """
    norm = Norm(True, eps)
    return _run((x, residual, weight, bias), norm, out, residual_out, None)


def _run(
    arrays: tuple[Any, Any, Any, Any], norm: Norm, out: Any, sums: Any, stream: Any
) -> tuple[Any, Any]:
    x, residual, weight, bias = arrays
    new = out is None and sums is None and stream is None
    if through_pytorch(
        new, {"x": x, "residual": residual}, weight=weight, bias=bias, out=out, residual_out=sums
    ):
        from flydsl_kernels.norm.ops.operators import add_norm_operator

        first, second = add_norm_operator(x, residual, weight, bias, norm.eps, norm.mean)
        return first, second
    check_results_apart(out=out, residual_out=sums)
    return run_add_norm(arrays, norm, out, sums, stream)
