"""Products of floats of 8, 6 and 4 bits where 32 columns of A share an E8M0 scale (MX formats)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flydsl.errors import ConfigError, UserValueError
from flydsl.ext import arrays
from flydsl_kernels.gemm.formats import SHARED
from flydsl_kernels.gemm.ops.arguments import scales_of
from flydsl_kernels.gemm.ops.preshuffled import (
    by_rows,
    check_layout,
    flat_of,
    result_of,
    separately,
)
from flydsl_kernels.gemm.ops.product import Request, apart, output_type, planned
from flydsl_kernels.gemm.planning import facts_of
from flydsl_kernels.gemm.problem import SHARED_K, GemmProblem, operand_of, problem_of, scaling_of
from flydsl_rocdl.arch import ArchFacts
from flydsl_rocdl.kernels.preshuffle import pack_fp4, preshuffle_scales

__all__ = ["run_scaled"]

__flydsl_internal__ = True  # errors are at the line of the caller

_OUTPUTS = {"bfloat16": "bf16", "float16": "fp16", "float32": "f32"}
_WEIGHTS = {name: kind.order for name, kind in SHARED.items() if kind.order}


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
    check_layout(request)
    request, a, weight = apart(request, a, weight)
    facts = facts_of(arrays.target_of(a))
    weight.require(
        layout=_WEIGHTS.get(weight.dtype, "16x16"), arch=facts.name, dtypes=tuple(_WEIGHTS)
    )
    arrays.check_same_library(weight.data, a, "b")
    if request.scale_b is not None:
        raise ConfigError(
            "the weights have scales of their own", code="FLY-C917", value="scale_b",
            allowed="scale_a",
        )  # fmt: skip
    if weight.batch is not None:
        raise UserValueError(
            "products with E8M0 scales take one matrix of weights", code="FLY-U911",
            value=weight.shape, allowed="(N, K)", hint="launch_gemm(…, batch=…) multiplies batches",
        )  # fmt: skip
    if request.out is None and request.out_dtype is None:
        request = replace(request, out_dtype="bfloat16")
    _check_scales(request.scale_a, a, weight.k)
    kind, codes = _codes(a, weight.k)

    def multiply(rows: Any, flat: Request) -> Any:
        return _one((rows, kind), weight, flat, facts)

    return by_rows(codes, weight.n, request, multiply)


def _one(operand: tuple[Any, str], weight: Any, request: Request, facts: ArchFacts) -> Any:
    """Multiply codes (M, bytes) of a type."""
    codes, kind = operand
    m, n, k = int(codes.shape[0]), weight.n, weight.k
    scaling, scales = scales_of(codes, Request(scale_out=request.scale_out), (1, m, n, k))
    problem = problem_of(
        m, n, k, kind, weight.dtype, output_type(codes, request), 1, operand_of(),
        operand_of(order=weight.layout), operand_of(), scaling_of("shared", "shared", scaling.out),
        request.activation or "", request.bias is not None, request.residual is not None,
    )  # fmt: skip
    result = result_of(codes, n, problem.out_dtype, request)
    if m:
        plan = planned(problem, facts, request)
        row_scales = _row_scales(request.scale_a, k)
        _launch((codes, row_scales, weight, result), plan, problem, request, scales)
    return result


def _codes(a: Any, k: int) -> tuple[str, Any]:
    """Return A's element type, and its codes as bytes (…, M, bytes)."""
    name, columns = arrays.dtype_name(a), int(a.shape[-1])
    plain = arrays.contiguous(a)
    if name == "float8_e4m3fn" and columns == k:
        return name, arrays.as_bytes(plain)
    if name == "float4_e2m1fn" and columns == k:
        return name, pack_fp4(plain)
    if name in ("uint8", "float4_e2m1fn_x2") and 2 * columns == k:
        return "float4_e2m1fn", arrays.as_bytes(plain)
    if name == "uint8" and columns == k:
        return "float6_e2m3fn", plain
    raise UserValueError(
        "a does not fit weights with scales of 32 columns", code="FLY-U911",
        value=f"{name} {tuple(a.shape)}",
        allowed=f"float8_e4m3fn or float4_e2m1fn (M, {k}), bytes (M, {k // 2}) of 4-bit codes, or "
        f"bytes (M, {k}) of 6-bit ones",
    )  # fmt: skip


def _check_scales(scale: Any, a: Any, k: int) -> None:
    if scale is None:
        raise UserValueError(
            "a has no scales", code="FLY-U911", value=None,
            allowed=f"scale_a of uint8 or float8_e8m0fnu, (M, {k // SHARED_K})",
        )  # fmt: skip
    arrays.check_same_library(scale, a, "scale_a")
    arrays.check_dtype(scale, ("uint8", "float8_e8m0fnu"), "scale_a")
    arrays.check_shape(scale, (*a.shape[:-1], k // SHARED_K), "scale_a")


def _row_scales(scale: Any, k: int) -> Any:
    """Return A's scales (M, K / 32) in the kernel's order, with rows up to a multiple of 32."""
    flat = arrays.as_bytes(arrays.contiguous(scale))
    rows = -(-int(flat.shape[0]) // SHARED_K) * SHARED_K
    whole = arrays.zeros((rows, k // SHARED_K), "uint8", flat)
    whole[: flat.shape[0]] = flat
    return preshuffle_scales(whole)


def _launch(
    given: tuple[Any, Any, Any, Any], plan: Any, problem: GemmProblem, request: Request,
    scales: tuple[Any, Any, Any],
) -> None:  # fmt: skip
    from flydsl_kernels.gemm.device.preshuffle.batches import batched_launcher, parts_apart
    from flydsl_kernels.gemm.device.preshuffle.launch import preshuffle_launcher

    codes, scale_a, weight, result = given
    m, n, parts = problem.m, problem.n, problem.k // plan.k
    flat = flat_of(result, m, n)
    native = flat is not None and plan.out_dtype == _OUTPUTS.get(problem.out_dtype) and parts == 1
    native = native and not (problem.activation or problem.bias or problem.residual)
    own = plan if native else replace(plan, out_dtype="f32")
    shape = (parts, m, n) if parts > 1 else (m, n)
    target = flat if native else arrays.empty(shape, "float32", result)
    operands = (target, codes, arrays.as_bytes(weight.data), scale_a,
                arrays.as_bytes(weight.scales))  # fmt: skip
    if parts > 1:
        batched_launcher(own)(*operands, m, parts_apart(own, m), request.stream)
    else:
        preshuffle_launcher(own)(*operands, target, m, n, request.stream)
    if not native:
        separately(target, (codes, result), problem, request, scales)
