"""`rmsnorm`."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.ext.arguments import through_pytorch
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.norm.ops.normalise import Norm, run_norm

__all__ = ["rmsnorm"]

__flydsl_internal__ = True  # errors are at the line of the caller


@at_user_line()
@outputs_in_graphs("out")
def rmsnorm(
    x: Any, weight: Any = None, eps: float = 1e-6, *, out: Any = None, stream: Any = None
) -> Any:
    """Return x · (mean(x²) + eps)^(-1/2) · weight for every row.

    Sums are kept in f32 and in a fixed order, so results are the same in every run. A row whose
    squares overflow f32 (elements from about 1e17 on) becomes zero, as in PyTorch.

    Args:
        x: NumPy array or PyTorch tensor of float32, float16 or bfloat16; rows are along the last
            axis, of 1 to 131,072 elements. Rows may be any distance apart; other arrays whose last
            axis is not contiguous are copied first.
        weight: One factor per column, of any of the three types.
        eps: Added to the mean square; compiled in.
        out: Array of `x`'s shape and type to write to, `x` itself included. PyTorch does not
            differentiate through a call that has it.
        stream: Where to launch; default: the current stream.

    Returns:
        `out`, or a new array of `x`'s shape and type.

    Raises:
        ConfigError: Rows too long, or an element type that is not supported.
        UserTypeError: Arguments of other libraries or of different devices.
        UserValueError: Shapes that do not fit, or a negative or infinite `eps`.
    """
    norm = Norm(False, eps)
    if through_pytorch(out is None and stream is None, {"x": x}, weight=weight, out=out):
        from flydsl_kernels.norm.ops.operators import rmsnorm_operator

        return rmsnorm_operator(x, weight, norm.eps)
    return run_norm(x, weight, None, norm, out, stream)
