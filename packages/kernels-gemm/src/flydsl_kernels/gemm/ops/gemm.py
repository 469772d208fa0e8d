"""`gemm`."""

from __future__ import annotations

from typing import Any, TypedDict, Unpack

from flydsl.diagnostics import at_user_line
from flydsl.ext.arguments import check_arrays, check_no_gradient, through_pytorch
from flydsl.ext.graph_outputs import outputs_in_graphs
from flydsl_kernels.gemm.ops.mx import has_shared_exponents, run_mx
from flydsl_kernels.gemm.ops.product import Request, output_type, run_gemm
from flydsl_kernels.gemm.ops.weights import run_weights
from flydsl_kernels.gemm.plan import GemmConfig
from flydsl_rocdl.kernels.preshuffle import PreshuffledWeight

__all__ = ["GemmOptions", "gemm"]

__flydsl_internal__ = True  # errors are at the line of the caller


class GemmOptions(TypedDict, total=False):
    """Optional arguments of `gemm`, which describes them."""

    out: Any
    bias: Any
    activation: str | None
    residual: Any
    scale_a: Any
    scale_b: Any
    scale_out: Any
    out_dtype: Any
    layout: str
    split_k: int | None
    config: GemmConfig | None
    stream: Any


@at_user_line()
@outputs_in_graphs("out", kind="out_dtype")
def gemm(a: Any, b: Any, **options: Unpack[GemmOptions]) -> Any:
    """Return the matrix product of two arrays, or of two batches of them, with what follows it.

    The result is ``round(act(scale_a * scale_b * (A B) + bias) + residual)``, from sums in f32 (for
    int8 in i32). Every extent may be any number, 0 and 1 included.

    With ``layout="nt"``, the default, `a` is A, (M, K), and `b` is the transpose of B, (N, K), as
    weights are usually kept. The letters say this for each operand: ``"n"`` that the array is the
    matrix, with shape (M, K) or (K, N), ``"t"`` that it is its transpose, (K, M) or (N, K). How
    arrays lie in memory is another matter: one of the last two axes has to be contiguous, and the
    other may have any stride; what is neither is copied first.

    Args:
        a: NumPy array or PyTorch tensor of two axes, or more: then the axes before the last two
            number the matrices of a batch. Elements are bfloat16, float16, int8, or 8-bit floats:
            ``float8_e4m3fnuz`` and ``float8_e5m2fnuz`` on gfx942, ``float8_e4m3fn`` and
            ``float8_e5m2`` on gfx950, gfx12 and gfx1250.
        b: Of `a`'s library, device and element type (8-bit floats mix); a batch as long as `a`'s,
            or one matrix for all. One of `a` may serve a batch of `b`, too. Or weights (N, K) in
            the order that a kernel reads, made by `preshuffle_b`, or (batch, N, K): of `a`'s type,
            or of int4 (K a multiple of 64); N is a multiple of 16, K of 64 bytes of `a`;
            on gfx12 also of 8-bit floats in layout ``rdna4_fp8``, K a multiple of 16. On gfx950
            also with E8M0 scales of 32 columns, of fp4 for an `a` of fp8, fp6 or fp4, or of fp8 for
            one of fp8 (N a multiple of 32, K of 256): `run_scaled` of `ops.scaled` has the codes;
            `scale_a` are then E8M0 scales (M, K / 32). On gfx1250 plain matrices have them too, and
            weights in layout ``cdna5_16x16``: see `ops.mx`.
        **options: All optional:

            out: Where to put the result: shape (batch, M, N), contiguous rows any distance apart.
            bias: (N,) or (batch, N) of float32, bfloat16 or float16, added to every row.
            activation: ``"relu"``, ``"silu"``, ``"gelu"`` (tanh form) or ``"gelu_erf"``.
            residual: (M, N) or the result's shape, of float32, bfloat16 or float16, added last;
                may be `out`.
            scale_a: f32 factors of A: a number, or as () or (1,); one per row, (M,) or (M, 1); or
                one per row and 128 columns, (M, K / 128). Or E8M0, (M, K / 32); B's (N, K / 32).
            scale_b: f32 factors of B: one number; one per column, (N,) or (N, 1); or one per 128 x
                128 block, (ceil(N / 128), K / 128), which goes with blocks of A. Scales of
                batches have one more axis before these.
            scale_out: f32 divisors of 8-bit results, which are then saturated (int8 to ±127) and
                rounded to nearest even: one number, or one per row.
            out_dtype: The result's element type, by name or as NumPy or PyTorch have it: float32,
                bfloat16, float16, int32 (of int8 alone), int8, or an 8-bit float. Default: `a`'s if
                it has 16 bits; int32 for int8 without scales, bias and activation; else bfloat16.
            layout: ``"nn"``, ``"nt"``, ``"tn"`` or ``"tt"``, for `a` and `b`.
            split_k: How many workgroups share a tile, each with a part of K. Their sums are added
                in a fixed order, so results are the same in every run. Default: as predicted best.
            config: How to divide the work; default: the best of `plan_gemm`.
            stream: Where to launch; default: the current stream. PyTorch does not differentiate
                through a call that has `out`, `config` or `stream`; gradients are products of
                the result's gradient in the operands' type.

    Returns:
        `out`, or a new array of shape (batch, M, N), (M, N) for two matrices.

    Raises:
        ConfigError: Element types, scales or options that do not go together, K that is no
            multiple of the block of scales, or a configuration that breaks a rule.
        TargetError: The architecture multiplies no such types.
        UserTypeError: Arguments of other libraries or of different devices.
        UserValueError: Shapes or element types that do not fit, or an output whose rows overlap.
    """
    check_arrays({"a": a})
    request = Request(**options).with_scales_like(a)
    if isinstance(b, PreshuffledWeight):
        return _preshuffled(a, b, request)
    shared = has_shared_exponents(request)
    fits = None if shared else request.plain
    if through_pytorch(fits, {"a": a, "b": b}, **request.optional_arrays):
        from flydsl_kernels.gemm.ops.operators import differentiable_gemm

        return differentiable_gemm(a, b, request, output_type(a, request))
    return run_mx(a, b, request) if shared else run_gemm(a, b, request)


def _preshuffled(a: Any, b: PreshuffledWeight, request: Request) -> Any:
    needed = {"a": a, "b": b.data}
    fits = request.out is None and request.stream is None
    traced = through_pytorch(fits or None, needed, scales=b.scales, **request.optional_arrays)
    check_no_gradient(
        "products with preshuffled weights", "FLY-U914", a=a, scales=b.scales,
        **request.optional_arrays,
    )  # fmt: skip
    if traced:
        from flydsl_kernels.gemm.ops.weight_operators import weights_through_pytorch

        return weights_through_pytorch(a, b, request)
    return run_weights(a, b, request)
