"""Products of floats of 8, 6 and 4 bits where 32 columns of A share an E8M0 scale (MX formats)."""

from __future__ import annotations

from math import prod
from typing import Any

from flydsl.errors import ConfigError, UserValueError
from flydsl.ext import arrays
from flydsl_kernels.gemm.ops.arguments import scales_of
from flydsl_kernels.gemm.ops.preshuffled import check_options, flat_of, result_of, separately
from flydsl_kernels.gemm.ops.product import Request, apart, output_type
from flydsl_kernels.gemm.planning import facts_of
from flydsl_kernels.gemm.problem import GemmProblem, Operand
from flydsl_rocdl.kernels.preshuffle import pack_fp4, preshuffle_scales

__all__ = ["run_scaled"]

__flydsl_internal__ = True  # errors are at the line of the caller

_SHARED = 32
_OUTPUTS = {"bfloat16": "bf16", "float16": "fp16", "float32": "f32"}
_WEIGHTS = {"float4_e2m1fn": ("fp4", "fp4_16lane"), "float8_e4m3fn": ("fp8", "16x16")}


def run_scaled(a: Any, weight: Any, request: Request) -> Any:
    """Multiply by preshuffled weights with E8M0 scales; see `flydsl_kernels.gemm.gemm`.

    Args:
        a: Codes: ``float8_e4m3fn`` (…, M, K); ``float4_e2m1fn`` with one code per byte (…, M, K);
            bytes of two 4-bit codes (…, M, K / 2); or bytes of 6-bit codes as `pack_fp6` makes them
            (…, M, K).
        weight: The weights, with scales.
        request: The optional arguments; `scale_a` are E8M0 scales (…, M, K / 32).

    Raises:
        ConfigError: The types do not go together, or the weights are for another kernel.
        UserValueError: Shapes that do not fit.
        TargetError: The architecture has no instructions with scales.
    """
    check_options(request)
    request, a = apart(request, a)
    facts = facts_of(arrays.target_of(a))
    b_kind, order = _WEIGHTS.get(weight.dtype, ("", "16x16"))
    weight.require(layout=order, arch=facts.name, dtypes=tuple(_WEIGHTS))
    kind, codes = _codes(a, weight.k)
    arrays.check_same_library(weight.data, a, "b")
    m, n, k = prod(int(extent) for extent in a.shape[:-1]), weight.n, weight.k
    scale_a = _row_scales(request.scale_a, a, k)
    if request.scale_b is not None:
        raise ConfigError(
            "the weights have scales of their own", code="FLY-C917", value="scale_b",
            allowed="scale_a",
        )  # fmt: skip
    name = "bfloat16" if request.out is None and request.out_dtype is None else ""
    name = name or output_type(a, request)
    own = Request(scale_out=request.scale_out)
    scaling, scales = scales_of(a, own, (1, m, n, k))
    problem = GemmProblem(
        m, n, k, "bfloat16", "", name, 1, Operand(), Operand(), Operand(), scaling,
        request.activation or "", request.bias is not None, request.residual is not None,
    )  # fmt: skip
    result = result_of(a, n, name, request)
    if m:
        _launch((codes, scale_a, weight, result), (kind, b_kind), problem, request, scales)
    return result


def _codes(a: Any, k: int) -> tuple[str, Any]:
    """Return A's format, and its codes as bytes (M, …)."""
    name, columns = arrays.dtype_name(a), int(a.shape[-1])
    plain = arrays.contiguous(a)
    flat = plain.reshape(-1, columns)
    if name == "float8_e4m3fn" and columns == k:
        return "fp8", arrays.as_bytes(flat)
    if name == "float4_e2m1fn" and columns == k:
        return "fp4", pack_fp4(flat)
    if name in ("uint8", "float4_e2m1fn_x2") and 2 * columns == k:
        return "fp4", arrays.as_bytes(flat)
    if name == "uint8" and columns == k:
        return "fp6", flat
    raise UserValueError(
        "a does not fit weights with scales of 32 columns", code="FLY-U911",
        value=f"{name} {tuple(a.shape)}",
        allowed=f"float8_e4m3fn or float4_e2m1fn (M, {k}), bytes (M, {k // 2}) of 4-bit codes, or "
        f"bytes (M, {k}) of 6-bit ones",
    )  # fmt: skip


def _row_scales(scale: Any, a: Any, k: int) -> Any:
    """Return A's scales in the kernel's order, with rows up to a multiple of 32."""
    if scale is None:
        raise UserValueError(
            "a has no scales", code="FLY-U911", value=None,
            allowed=f"scale_a of uint8 or float8_e8m0fnu, (M, {k // _SHARED})",
        )  # fmt: skip
    arrays.check_same_library(scale, a, "scale_a")
    arrays.check_dtype(scale, ("uint8", "float8_e8m0fnu"), "scale_a")
    arrays.check_shape(scale, (*a.shape[:-1], k // _SHARED), "scale_a")
    flat = arrays.as_bytes(arrays.contiguous(scale)).reshape(-1, k // _SHARED)
    rows = -(-int(flat.shape[0]) // _SHARED) * _SHARED
    whole = arrays.zeros((rows, k // _SHARED), "uint8", flat)
    whole[: flat.shape[0]] = flat
    return preshuffle_scales(whole) if rows else whole


def _launch(
    given: tuple[Any, Any, Any, Any], kinds: tuple[str, str], problem: GemmProblem,
    request: Request, scales: tuple[Any, Any, Any],
) -> None:  # fmt: skip
    from flydsl_kernels.gemm.device.preshuffle.launch import launch_gemm

    codes, scale_a, weight, result = given
    m, n = problem.m, problem.n
    flat = flat_of(result, m, n)
    more = problem.activation or problem.bias or problem.residual or problem.scaling.out
    native = flat is not None and problem.out_dtype in _OUTPUTS and not more
    target = flat if native else arrays.empty((m, n), "float32", result)
    launch_gemm(
        target, codes, arrays.as_bytes(weight.data), scale_a, arrays.as_bytes(weight.scales), m, n,
        request.stream, K=problem.k, tile_m=32 if m <= 32 else 64, tile_n=128, tile_k=256,
        a_dtype=kinds[0], b_dtype=kinds[1],
        out_dtype=_OUTPUTS[problem.out_dtype] if native else "f32", xcd_swizzle=8,
    )  # fmt: skip
    if not native:
        separately(target, (codes, result), problem, request, scales)
