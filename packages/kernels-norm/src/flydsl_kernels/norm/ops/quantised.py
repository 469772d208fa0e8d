"""The normalising operations with quantised results."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.ext.arguments import through_pytorch
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.norm.formats import QuantFormat
from flydsl_kernels.norm.ops.normalise import Norm
from flydsl_kernels.norm.ops.quantise import Inputs, run_quantised

__all__ = [
    "fused_add_layernorm_quantised",
    "fused_add_rmsnorm_quantised",
    "layernorm_quantised",
    "rmsnorm_quantised",
]

__flydsl_internal__ = True  # errors are at the line of the caller


def _run(
    given: Inputs, norm: Norm, dtype: Any, out: Any, stream: Any, added: bool = False
) -> tuple[Any, ...]:
    form = dtype if isinstance(dtype, QuantFormat) else QuantFormat(dtype)
    g = given
    needed = {"x": g.x, "residual": g.residual} if added else {"x": g.x}
    if through_pytorch(
        out is None and stream is None, needed, weight=g.weight, bias=g.bias,
        smooth=g.smooth,
    ):  # fmt: skip
        from flydsl_kernels.norm.ops.quantised_operators import call_operator

        return call_operator(given, norm, form)
    return run_quantised(given, norm, form, out, stream)


@at_user_line()
@outputs_in_graphs("out")
def rmsnorm_quantised(
    x: Any,
    weight: Any = None,
    eps: float = 1e-6,
    *,
    dtype: str | QuantFormat = "int8",
    smooth: Any = None,
    out: Any = None,
    stream: Any = None,
) -> tuple[Any, Any]:
    """Normalise rows as `rmsnorm` does, with 8-bit results and scales.

    Args:
        x: As for `rmsnorm`; gradients do not pass through.
        weight: One factor per column.
        eps: Added to the mean square; compiled in.
        dtype: The 8-bit type, with one f32 scale per row; or a `QuantFormat`, for scales of groups
            of 128 elements or of other types.
        smooth: One more factor per column, for smooth quantisation: of what is quantised, so that
            the next product has to divide its weights by it.
        out: Two arrays to write to, as this function would return.
        stream: Where to launch; default: the current stream.

    Returns:
        The 8-bit array, of `x`'s shape, and the scales, of its shape without the last axis, or with
        the number of groups in its place: the result is about the first times the second. In f32 a
        scale is the largest magnitude divided by 127, 448 or 240, which becomes that number; as
        power of two it is the least that is not smaller. A row or group with NaN has scale NaN;
        with infinity an f32 scale is infinite, a power of two NaN.

    Raises:
        ConfigError: Rows too long, or a type that is not supported.
        UserTypeError: Arguments of other libraries or of different devices.
        UserValueError: Shapes that do not fit, or a negative or infinite `eps`.
    """
    given = Inputs(x, weight=weight, smooth=smooth)
    small, scales = _run(given, Norm(False, eps), dtype, out, stream)
    return small, scales


@at_user_line()
@outputs_in_graphs("out")
def layernorm_quantised(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    dtype: str | QuantFormat = "int8",
    smooth: Any = None,
    out: Any = None,
    stream: Any = None,
) -> tuple[Any, Any]:
    """Normalise rows as `layernorm` does, with 8-bit results and scales.

    Arguments, results and errors are those of `rmsnorm_quantised`; `bias` is one summand per
    column, added before `smooth` multiplies.
    """
    given = Inputs(x, weight=weight, bias=bias, smooth=smooth)
    small, scales = _run(given, Norm(True, eps), dtype, out, stream)
    return small, scales


@at_user_line()
@outputs_in_graphs("out")
def fused_add_rmsnorm_quantised(
    x: Any,
    residual: Any,
    weight: Any = None,
    eps: float = 1e-6,
    *,
    dtype: str | QuantFormat = "int8",
    smooth: Any = None,
    out: Any = None,
    stream: Any = None,
) -> tuple[Any, Any, Any]:
    """Add a residual, and normalise and quantise the rows of the sum.

    The sum is rounded to the element type first, as by `fused_add_rmsnorm`; the rest is as for
    `rmsnorm_quantised`.

    Returns:
        The 8-bit array, the scales, and the sum, through which alone gradients pass.
    """
    given = Inputs(x, residual, weight, smooth=smooth)
    small, scales, total = _run(given, Norm(False, eps), dtype, out, stream, True)
    return small, scales, total


@at_user_line()
@outputs_in_graphs("out")
def fused_add_layernorm_quantised(
    x: Any,
    residual: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    dtype: str | QuantFormat = "int8",
    smooth: Any = None,
    out: Any = None,
) -> tuple[Any, Any, Any]:
    """Add a residual, and normalise and quantise the rows of the sum.

    As `fused_add_rmsnorm_quantised`, with the mean and `bias` of `layernorm`, on the current
    stream.
    """
    given = Inputs(x, residual, weight, bias, smooth)
    small, scales, total = _run(given, Norm(True, eps), dtype, out, None, True)
    return small, scales, total
