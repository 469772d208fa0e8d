"""Grouped products, from arrays to a launch."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from flydsl.errors import ConfigError, UserValueError
from flydsl.ext import arrays
from flydsl_kernels.gemm.arrays import as_matrix, as_output, as_weights, broadcast
from flydsl_kernels.gemm.ops.arguments import bias_of, residual_of, scales_of
from flydsl_kernels.gemm.ops.preshuffled import check_layout, order_of
from flydsl_kernels.gemm.ops.product import Request, apart, output_type, replaced
from flydsl_kernels.gemm.plan import GemmConfig, GemmPlan
from flydsl_kernels.gemm.planning import facts_of, plan_gemm
from flydsl_kernels.gemm.problem import (
    GemmProblem,
    Operand,
    operand_of,
    problem_of,
    scaling_of,
    with_result,
)
from flydsl_kernels.gemm.rules import derive
from flydsl_rocdl.arch import lookup
from flydsl_rocdl.kernels.preshuffle import PreshuffledWeight

__all__ = ["run_grouped"]

__flydsl_internal__ = True  # errors are at the line of the caller


def run_grouped(a: Any, b: Any, ends: Any, request: Request) -> Any:
    """Multiply groups of rows without PyTorch's knowledge; see `grouped_gemm`."""
    if request.layout not in ("nt", "nn"):
        raise UserValueError(
            "no such layout of grouped products", code="FLY-C912", value=request.layout,
            allowed="nt, nn",
        )  # fmt: skip
    for what, given in (("scale_out", request.scale_out), ("split_k", request.split_k)):
        if given is not None:
            raise ConfigError(
                f"grouped products have no {what}", code="FLY-C918", value=given, allowed="None"
            )
    request, a, b, ends = apart(request, a, b, ends)
    weight = b if isinstance(b, PreshuffledWeight) else None
    if weight is not None:
        _check_weight(weight, a, request)
    arrays.check_dtype(ends, ("int32",), "ends")
    shape = tuple(b.shape) if weight is None else weight.shape
    if a.ndim != 2 or len(shape) != 3:
        raise UserValueError(
            "grouped products have one matrix a and a batch b", code="FLY-U911",
            value=(tuple(a.shape), shape), allowed="(rows, K), (groups, N, K)",
        )  # fmt: skip
    arrays.check_shape(ends, shape[:1], "ends")
    first = as_matrix(a, False, "a")
    if weight is None:
        second, b_dtype = as_matrix(b, request.layout[1] == "n", "b"), arrays.dtype_name(b)
    else:
        second, b_dtype = as_weights(weight), weight.dtype
        given = weight.scales if request.scale_b is None else request.scale_b
        request = replaced(request, scale_b=given)
    if not first.where.k_major:
        first = as_matrix(arrays.contiguous(a), False, "a")
    groups, m, n, k = int(shape[0]), first.rows, second.rows, first.k
    if k != second.k:
        raise UserValueError(
            "a and b have different numbers of k", code="FLY-U911", value=second.k, allowed=str(k)
        )
    scaling, scales = _scales(a, request, (groups, m, n))
    problem = problem_of(
        m, n, k, arrays.dtype_name(a), b_dtype, output_type(a, request), 1,
        first.where, second.where, operand_of(), scaling, request.activation or "",
        request.bias is not None, request.residual is not None,
    )  # fmt: skip
    result = request.out
    if result is None:
        result = arrays.empty((m, n), problem.out_dtype, a)
    else:
        arrays.check_same_library(result, a, "out")
        arrays.check_shape(result, (m, n), "out")
        arrays.check_writable(result, "out")
    if not (m and n and groups):
        return result
    c, where = as_output(result, (1, m, n), "out")
    bias = c if request.bias is None else bias_of(request.bias, a, groups, n)
    residual = c
    if request.residual is not None:
        residual, where = residual_of(request.residual, a, (1, m, n), where)
    extras = (bias, broadcast(residual, (groups, m, n)), *scales)
    b_stack = broadcast(second.array, (groups, *second.array.shape[1:]))
    _launch((first.array, b_stack, c, arrays.contiguous(ends)), problem, where, extras, request)
    return result


def _check_weight(weight: PreshuffledWeight, a: Any, request: Request) -> None:
    """Check that weights are what the kernel reads; without scales of blocks."""
    check_layout(request)
    facts = facts_of(arrays.target_of(a))
    if weight.scale_layout:
        raise ConfigError(
            "grouped products have no E8M0 scales", code="FLY-C918", value=weight.scale_layout,
            allowed="f32 scales",
        )  # fmt: skip
    weight.require(layout=order_of(weight, facts), arch=facts.name)


def _scales(like: Any, request: Request, extents: tuple[int, int, int]) -> Any:
    if request.scale_a is None and request.scale_b is None:
        return scaling_of(), (None, None, None)
    groups, m, n = extents
    rows = Request(scale_a=request.scale_a)
    columns = Request(scale_b=request.scale_b)
    of_a, (scale_a, _, _) = scales_of(like, rows, (1, m, n, 0))
    of_b, (_, scale_b, _) = scales_of(like, columns, (groups, m, n, 0))
    if scale_a is not None:
        scale_a = broadcast(scale_a, (groups, *scale_a.shape[1:]))
    return scaling_of(of_a.a, of_b.b), (scale_a, scale_b, None)


def _launch(
    given: tuple[Any, Any, Any, Any], problem: GemmProblem, where: Operand, extras: Any,
    request: Request,
) -> None:  # fmt: skip
    from flydsl_kernels.gemm.device.epilogue import Extras
    from flydsl_kernels.gemm.device.grouped import launch_grouped

    a, b, c, ends = given
    facts = facts_of(arrays.target_of(c))
    whole = with_result(problem, where)
    plan = _planned(whole, facts.name, int(b.shape[0]), request.config)
    absent = [c if item is None else item for item in extras]
    launch_grouped(a, b, c, ends, Extras(*absent), plan, request.stream)


@lru_cache(maxsize=4096)
def _planned(problem: GemmProblem, arch: str, groups: int, config: GemmConfig | None) -> GemmPlan:
    if config is None:
        # About as many rows as a group has on average decide the tile.
        typical = replace(problem, m=-(-problem.m // groups), batch=groups)
        config = plan_gemm(typical, arch, split_k=1).best.config
    if config.split_k > 1 or config.streams:
        raise ConfigError(
            "grouped products are not split along K", code="FLY-C918", value=config,
            allowed="split_k=1, streams=0",
        )  # fmt: skip
    return derive(problem, lookup(arch), config)
