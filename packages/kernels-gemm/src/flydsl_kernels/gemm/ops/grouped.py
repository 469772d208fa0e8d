"""`grouped_gemm`."""

from __future__ import annotations

from typing import Any, TypedDict, Unpack

from flydsl.diagnostics import at_user_line
from flydsl.ext.arguments import check_arrays, check_no_gradient, through_pytorch
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.gemm.ops.groups import run_grouped
from flydsl_kernels.gemm.ops.product import Request
from flydsl_kernels.gemm.plan import GemmConfig
from flydsl_rocdl.kernels.preshuffle import PreshuffledWeight

__all__ = ["GroupedOptions", "grouped_gemm"]

__flydsl_internal__ = True  # errors are at the line of the caller


class GroupedOptions(TypedDict, total=False):
    """Optional arguments of `grouped_gemm`, as those of `gemm`."""

    out: Any
    bias: Any
    activation: str | None
    residual: Any
    scale_a: Any
    scale_b: Any
    out_dtype: Any
    layout: str
    config: GemmConfig | None
    stream: Any


@at_user_line()
@outputs_in_graphs("out", kind="out_dtype")
def grouped_gemm(a: Any, b: Any, ends: Any, **options: Unpack[GroupedOptions]) -> Any:
    """Multiply groups of rows by a matrix each, in one launch: row r by the matrix of its group.

    Group g has the rows from ``ends[g - 1]`` (0 for the first) to ``ends[g]``, or none. The ends
    are read on the device, so they may be the result of an earlier launch.

    Args:
        a: (rows, K), as for `gemm`, k contiguous in memory.
        b: (groups, N, K), or with ``layout="nn"`` (groups, K, N). Or weights that `preshuffle_b`
            made of a batch (groups, N, K), as for `gemm`.
        ends: int32 (groups,), ascending, at most `a`'s rows; what is beyond either is taken as
            the nearest number that is not.
        **options: As for `gemm`, with these differences: `bias` is (groups, N); `scale_b` one
            number per column of every group, (groups, N), or one for all; `scale_a` one per row of
            `a`, or one for all; `residual` and `out` are (rows, N); ``layout`` is ``"nt"`` or
            ``"nn"``.

    Returns:
        `out`, or a new (rows, N). Rows from ``ends[-1]`` on are not written.

    Raises:
        ConfigError: As for `gemm`, and for scales of blocks.
        UserTypeError: Arguments of other libraries or of different devices.
        UserValueError: Shapes or element types that do not fit.
    """
    check_arrays({"a": a})
    request = Request(**options).with_scales_like(a)
    second, scales = (b.data, b.scales) if isinstance(b, PreshuffledWeight) else (b, None)
    fits = request.out is None and request.stream is None
    needed = {"a": a, "b": second, "ends": ends}
    traced = through_pytorch(fits or None, needed, scales=scales, **request.optional_arrays)
    check_no_gradient(
        "grouped products", "FLY-U914", a=a, b=second, scales=scales, **request.optional_arrays
    )
    if traced:
        from flydsl_kernels.gemm.ops.weight_operators import grouped_through_pytorch

        return grouped_through_pytorch(a, b, ends, request)
    return run_grouped(a, b, ends, request)
