"""From arrays to launches: what the public functions share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flydsl.errors import UserValueError
from flydsl.ext import arrays
from flydsl_kernels.gemm.arrays import Matrix, aligned, as_matrix, as_output, broadcast, stacked
from flydsl_kernels.gemm.plan import GemmConfig
from flydsl_kernels.gemm.planning import facts_of, plan_gemm
from flydsl_kernels.gemm.problem import LAYOUTS, SCALE_BLOCK, GemmProblem, Operand, Scaling
from flydsl_kernels.gemm.rules import derive, sum_epilogue

__all__ = ["Request", "run_gemm"]


@dataclass(frozen=True, slots=True)
class Request:
    """The optional arguments of a product; see `flydsl_kernels.gemm.gemm`."""

    out: Any = None
    bias: Any = None
    activation: str | None = None
    residual: Any = None
    scale_a: Any = None
    scale_b: Any = None
    scale_out: Any = None
    out_dtype: str | None = None
    layout: str = "nt"
    split_k: int | None = None
    config: GemmConfig | None = None
    stream: Any = None


@dataclass(frozen=True, slots=True)
class _Given:
    """Arguments in the form that kernels take."""

    problem: GemmProblem
    a: Matrix
    b: Matrix
    result: Any
    c: Any
    extras: tuple[Any, Any, Any, Any, Any]


def run_gemm(a: Any, b: Any, request: Request) -> Any:
    """Multiply; see `flydsl_kernels.gemm.gemm`."""
    given = _given(a, b, request)
    if 0 in given.result.shape:
        return given.result
    facts = facts_of(arrays.target_of(a))
    config = request.config
    if config is None:
        config = plan_gemm(given.problem, facts.name, split_k=request.split_k).best.config
    elif request.split_k is not None:
        config = replace(config, split_k=request.split_k)
    _launch(given, derive(given.problem, facts, config), request.stream)
    return given.result


def _launch(given: _Given, plan: Any, stream: Any) -> None:
    from flydsl_kernels.gemm.device.dense import launch_dense
    from flydsl_kernels.gemm.device.epilogue import Extras
    from flydsl_kernels.gemm.device.split_k import SplitPlan, launch_sum

    problem = given.problem
    batch = problem.batch
    a, b = stacked(given.a.array, batch), stacked(given.b.array, batch)
    extras = Extras(*given.extras)
    parts = plan.config.split_k
    if parts == 1:
        launch_dense(a, b, given.c, extras, plan, stream)
        return
    kind = "int32" if plan.core.integer else "float32"
    work = arrays.empty((parts * batch, problem.m, problem.n), kind, given.result)
    launch_dense(a, b, work, Extras(work, work, work, work, work), plan, stream)
    summing = SplitPlan(parts, plan.core.integer, sum_epilogue(problem))
    launch_sum(work, given.c, extras, summing, stream)


def _given(a: Any, b: Any, request: Request) -> _Given:
    if request.layout not in LAYOUTS:
        raise UserValueError(
            "no such layout", code="FLY-C912", value=request.layout, allowed=", ".join(LAYOUTS)
        )
    arrays.check_same_library(b, a, "b")
    first = as_matrix(a, request.layout[0] == "t", "a")
    second = as_matrix(b, request.layout[1] == "n", "b")
    if first.k != second.k:
        raise UserValueError(
            "a and b have different numbers of k", code="FLY-U911", value=second.k,
            allowed=str(first.k), hint=f'layout="{request.layout}": "n" is a matrix as written, '
            '"t" its transpose',
        )  # fmt: skip
    batch = max(first.batch, second.batch) if 0 not in (first.batch, second.batch) else 0
    if {first.batch, second.batch} - {1, batch}:
        raise UserValueError(
            "a and b are batches of different lengths", code="FLY-U911", value=second.batch,
            allowed=f"1, {first.batch}",
        )  # fmt: skip
    m, n = first.rows, second.rows
    scaling, scales = _scales(a, request, (batch, m, n, first.k))
    problem = GemmProblem(
        m, n, first.k, arrays.dtype_name(a), arrays.dtype_name(b),
        _output_type(request), batch, first.where, second.where, Operand(), scaling,
        request.activation or "", request.bias is not None, request.residual is not None,
    )  # fmt: skip
    return _with_results(a, b, problem, (first, second), request, scales)


def _output_type(request: Request) -> str:
    given = "" if request.out_dtype is None else str(request.out_dtype).rpartition(".")[2]
    if request.out is None:
        return given
    found = arrays.dtype_name(request.out)
    if given and given != found:
        raise UserValueError(
            "out has another element type than out_dtype", code="FLY-U913", value=found,
            allowed=given,
        )  # fmt: skip
    return found


def _with_results(
    a: Any, b: Any, problem: GemmProblem, operands: tuple[Matrix, Matrix], request: Request,
    scales: tuple[Any, Any, Any],
) -> _Given:  # fmt: skip
    longer = operands[0].batch > operands[1].batch or (
        operands[0].batch == operands[1].batch and a.ndim >= b.ndim
    )
    outer = tuple((a if longer else b).shape[:-2])
    shape = (*outer, problem.m, problem.n)
    whole = (problem.batch, problem.m, problem.n)
    if request.out is None:
        result = arrays.empty(shape, problem.out_dtype, a)
    else:
        result = request.out
        arrays.check_same_library(result, a, "out")
        arrays.check_shape(result, shape, "out")
    c, where = as_output(result, whole, "out")
    residual = c
    if request.residual is not None:
        residual, where = _residual(request.residual, a, whole, where)
    bias = c
    if request.bias is not None:
        bias = _bias(request.bias, a, problem)
    absent = [c if scale is None else scale for scale in scales]
    return _Given(replace(problem, c=where), *operands, result, c, (bias, residual, *absent))


def _residual(
    array: Any, like: Any, shape: tuple[int, int, int], c: Operand
) -> tuple[Any, Operand]:
    """Return the residual as a stack, and how wide accesses to it and to C may be."""
    arrays.check_same_library(array, like, "residual")
    arrays.check_dtype(array, ("float32", "bfloat16", "float16"), "residual")
    if tuple(array.shape[-2:]) != shape[1:]:
        arrays.check_shape(array, shape[1:], "residual")
    plain = broadcast(array, (*array.shape[:-2], *shape[1:]))
    strides = arrays.strides(plain)
    if shape[2] > 1 and strides[-1] != 1:
        plain = arrays.contiguous(plain)
    batch = 1
    for extent in plain.shape[:-2]:
        batch *= int(extent)
    if batch not in (1, shape[0]):
        arrays.check_shape(array, shape, "residual")
    stack, where = as_output(plain, (batch, *shape[1:]), "residual")
    step = where.leading * stack.itemsize
    least = min(c.alignment, where.alignment, step & -step if step else 16)
    return stacked(stack, shape[0]), replace(c, alignment=least)


def _bias(array: Any, like: Any, problem: GemmProblem) -> Any:
    """Return the bias as (batch, N, 1)."""
    arrays.check_same_library(array, like, "bias")
    arrays.check_dtype(array, ("float32", "bfloat16", "float16"), "bias")
    if array.ndim == 2:
        arrays.check_shape(array, (problem.batch, problem.n), "bias")
    else:
        arrays.check_shape(array, (problem.n,), "bias")
    found = aligned(array).reshape(-1, problem.n, 1)
    return broadcast(found, (problem.batch, problem.n, 1))


def _scales(
    like: Any, request: Request, extents: tuple[int, int, int, int]
) -> tuple[Scaling, tuple[Any, Any, Any]]:
    """Return which scales there are, and each as (batch, rows or 1, blocks or 1)."""
    batch, m, n, k = extents
    blocks = k // SCALE_BLOCK
    grid = (-(-n // SCALE_BLOCK), blocks)
    last = () if request.scale_b is None else tuple(request.scale_b.shape[-2:])
    blocked = k > 0 and last == grid and grid != (n, 1)
    kinds, found = [], []
    for name, array, rows, block in (
        ("scale_a", request.scale_a, m, (m, blocks)),
        ("scale_b", request.scale_b, n, grid),
        ("scale_out", request.scale_out, m, None),
    ):
        kind, scale = _scale(array, like, name, (batch, rows, block if blocked else None))
        kinds.append(kind)
        found.append(scale)
    return Scaling(*kinds), (found[0], found[1], found[2])


def _scale(
    array: Any, like: Any, what: str, wanted: tuple[int, int, tuple[int, int] | None]
) -> tuple[str, Any]:
    """Return the kind of a scale, and the scale as (batch, rows or 1, blocks or 1)."""
    if array is None:
        return "", None
    batch, rows, block = wanted
    arrays.check_same_library(array, like, what)
    arrays.check_dtype(array, ("float32",), what)
    shape = tuple(int(extent) for extent in array.shape)
    plain = aligned(array)
    if plain.ndim == 0 or shape == (1,):
        return "tensor", broadcast(plain.reshape(1, 1, 1), (batch, 1, 1))
    for lead in ((), (batch,)):
        count = batch if lead else 1
        if block is not None and shape == (*lead, *block):
            return "block", broadcast(plain.reshape(count, *block), (batch, *block))
        if block is None and shape in ((*lead, rows), (*lead, rows, 1)):
            return "row", broadcast(plain.reshape(count, rows, 1), (batch, rows, 1))
    allowed = f"(), (1,), ({rows},)" if block is None else str(block)
    raise UserValueError(
        f"{what} has a shape that no kind of scale has", code="FLY-U911", value=shape,
        allowed=allowed + ", also with the batch before it",
    )  # fmt: skip
