"""From arrays to launches: what the public functions share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.ext import arrays
from flydsl.ext.arguments import as_number, check_fields, element_type, is_number
from flydsl_kernels.gemm.arrays import Matrix, as_matrix, as_output, as_weights, stacked
from flydsl_kernels.gemm.ops.arguments import bias_of, residual_of, scales_of
from flydsl_kernels.gemm.plan import GemmConfig
from flydsl_kernels.gemm.planning import facts_of, plan_gemm
from flydsl_kernels.gemm.problem import (
    LAYOUTS,
    GemmProblem,
    default_output,
    operand_of,
    problem_of,
    with_result,
)
from flydsl_kernels.gemm.rules import derive, sum_epilogue
from flydsl_kernels.gemm.shared import derive_shared
from flydsl_rocdl.arch import ArchFacts, lookup
from flydsl_rocdl.kernels.preshuffle import PreshuffledWeight

__all__ = ["Request", "apart", "output_type", "planned", "replaced", "run_gemm", "sum_plan"]

__flydsl_internal__ = True  # errors are at the line of the caller


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
    out_dtype: Any = None
    layout: str = "nt"
    split_k: int | None = None
    config: Any = None
    stream: Any = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.out_dtype is not None:
            object.__setattr__(self, "out_dtype", element_type(self.out_dtype, "out_dtype"))
        if self.config is not None and not isinstance(self.config, GemmConfig):
            raise UserTypeError(
                "config is no configuration of a product", code="FLY-U910", value=self.config,
                allowed="a GemmConfig, or None",
            )  # fmt: skip

    def with_scales_like(self, a: Any) -> Request:
        """Return the same with scales that are numbers as arrays beside `a`."""
        names = ("scale_a", "scale_b", "scale_out")
        given = {n: getattr(self, n) for n in names if getattr(self, n) is not None}
        numbers = {n: value for n, value in given.items() if is_number(value)}
        units = {n: arrays.zeros((1,), "float32", a) + as_number(v, n) for n, v in numbers.items()}
        return replace(self, **units) if units else self

    @property
    def plain(self) -> bool:
        """Whether nothing is given that PyTorch's operator does not take."""
        return self.out is None and self.stream is None and self.config is None

    @property
    def optional_arrays(self) -> dict[str, Any]:
        """The optional arguments that are arrays, by their names."""
        names = ("bias", "residual", "scale_a", "scale_b", "scale_out", "out")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class _Given:
    """Arguments in the form that kernels take."""

    problem: GemmProblem
    a: Matrix
    b: Matrix
    result: Any
    c: Any
    extras: dict[str, Any]


def run_gemm(a: Any, b: Any, request: Request) -> Any:
    """Multiply by a matrix or by preshuffled weights; see `flydsl_kernels.gemm.gemm`."""
    request, a, b = apart(request, a, b)
    given = _given(a, b, request)
    if 0 in given.result.shape:
        return given.result
    plan = planned(given.problem, facts_of(arrays.target_of(a)), request)
    _launch(given, plan, request.stream)
    return given.result


def planned(problem: GemmProblem, facts: ArchFacts, request: Request) -> Any:
    """Return what to compile: for the configuration asked for, or the best one that is planned.

    Returns:
        What `derive` returns, or `derive_shared` for E8M0 scales.
    """
    return _planned(problem, facts.name, request.config, request.split_k)


@lru_cache(maxsize=4096)
def _planned(
    problem: GemmProblem, arch: str, config: GemmConfig | None, split_k: int | None
) -> Any:
    if config is None:
        config = plan_gemm(problem, arch, split_k=split_k).best.config
    elif split_k is not None:
        config = replace(config, split_k=split_k)
    return (derive_shared if problem.shared else derive)(problem, lookup(arch), config)


@lru_cache(maxsize=4096)
def sum_plan(problem: GemmProblem, parts: int, integer: bool = False) -> Any:
    """Return what adding the parts of K, and finishing the sums, is compiled for."""
    from flydsl_kernels.gemm.device.split_k import SplitPlan

    return SplitPlan(parts, integer, sum_epilogue(problem))


@lru_cache(maxsize=4096)
def _stream_plan(problem: GemmProblem, plan: Any, integer: bool) -> Any:
    from flydsl_kernels.gemm.device.stream_k import StreamPlan

    return StreamPlan(plan, integer, sum_epilogue(problem))


def apart(request: Request, *operands: Any) -> tuple[Any, ...]:
    """Return the optional arguments and the operands, those copied that lie where `out` does.

    Args:
        request: The optional arguments; a residual may be `out` itself.
        operands: The others; none of them may have been checked yet.
    """
    out = request.out
    if out is None:
        return request, *operands
    torch = arrays.is_torch(out)

    def one(array: Any, in_place: bool = False) -> Any:
        if isinstance(array, PreshuffledWeight):
            return replaced(array, data=one(array.data), scales=one(array.scales))
        if array is None or arrays.is_torch(array) != torch:
            return array  # what is wrong about it is said where it is checked
        return arrays.apart(array, out, in_place=in_place)

    others = replaced(
        request, bias=one(request.bias), residual=one(request.residual, in_place=True),
        scale_a=one(request.scale_a), scale_b=one(request.scale_b),
        scale_out=one(request.scale_out),
    )  # fmt: skip
    return others, *(one(array) for array in operands)


def replaced(instance: Any, **fields: Any) -> Any:
    """Return an instance with other fields: itself, unless one of them is another object."""
    same = all(getattr(instance, name) is value for name, value in fields.items())
    return instance if same else replace(instance, **fields)


def _launch(given: _Given, plan: Any, stream: Any) -> None:
    from flydsl_kernels.gemm.device.dense import launch_dense
    from flydsl_kernels.gemm.device.epilogue import Extras

    problem = given.problem
    batch = problem.batch
    a, b = stacked(given.a.array, batch), stacked(given.b.array, batch)
    extras = Extras(**given.extras)
    parts = plan.config.split_k
    if parts == 1 and not plan.config.streams:
        launch_dense(a, b, given.c, extras, plan, stream)
        return
    integer = plan.core.integer and not plan.block
    if plan.config.streams:
        _stream(given, plan, integer, stream)
        return
    from flydsl_kernels.gemm.device.split_k import launch_sum

    kind = "int32" if integer else "float32"
    work = arrays.empty((parts * batch, problem.m, problem.n), kind, given.result)
    launch_dense(a, b, work, extras, plan, stream)
    launch_sum(work, given.c, extras, sum_plan(problem, parts, integer), stream)


def _stream(given: _Given, plan: Any, integer: bool, stream: Any) -> None:
    from flydsl_kernels.gemm.device.epilogue import Extras
    from flydsl_kernels.gemm.device.stream_k import launch_stream, launch_stream_sum

    problem, config = given.problem, plan.config
    a, b = (stacked(matrix.array, problem.batch) for matrix in (given.a, given.b))
    shape = (2 * config.streams, config.tile_m, config.tile_n)
    work = arrays.empty(shape, "int32" if integer else "float32", given.result)
    extras = Extras(**given.extras)
    shared = _stream_plan(problem, plan, integer)
    launch_stream(a, b, given.c, work, extras, shared, stream)
    launch_stream_sum(work, given.c, problem.k, extras, shared, stream)


def _given(a: Any, b: Any, request: Request) -> _Given:
    if request.layout not in LAYOUTS:
        raise UserValueError(
            "no such layout", code="FLY-C912", value=request.layout, allowed=", ".join(LAYOUTS)
        )
    weight = b if isinstance(b, PreshuffledWeight) else None
    arrays.check_same_library(b if weight is None else weight.data, a, "b")
    first = as_matrix(a, request.layout[0] == "t", "a")
    second = as_matrix(b, request.layout[1] == "n", "b") if weight is None else as_weights(weight)
    b_dtype = arrays.dtype_name(b) if weight is None else weight.dtype
    if first.k != second.k:
        raise UserValueError(
            "a and b have different numbers of k", code="FLY-U911", value=second.k,
            allowed=str(first.k), hint=f'layout="{request.layout}": "n" is a matrix as written, '
            '"t" its transpose',
        )  # fmt: skip
    lengths = first.stacked, second.stacked
    batch = 0 if 0 in lengths else max(lengths)
    if set(lengths) - {1, batch}:
        raise UserValueError(
            "a and b are batches of different lengths", code="FLY-U911", value=lengths[1],
            allowed=f"1, {lengths[0]}",
        )  # fmt: skip
    m, n = first.rows, second.rows
    scaling, scales = scales_of(a, request, (batch, m, n, first.k))
    problem = problem_of(
        m, n, first.k, arrays.dtype_name(a), b_dtype,
        _output_type(request), batch, first.where, second.where, operand_of(), scaling,
        request.activation or "", request.bias is not None, request.residual is not None,
    )  # fmt: skip
    return _with_results(a, b, problem, (first, second), request, scales)


def output_type(a: Any, request: Request) -> str:
    """Return the element type of the result of a product."""
    plain = (
        request.scale_a is None
        and request.scale_b is None
        and request.bias is None
        and not request.activation
    )
    return _output_type(request) or default_output(arrays.dtype_name(a), plain)


def _output_type(request: Request) -> str:
    given: str = request.out_dtype or ""
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
    if isinstance(b, PreshuffledWeight):
        outer = tuple(a.shape[:-2])
        if operands[0].stacked != problem.batch or (a.ndim == 2 and b.batch is not None):
            outer = (problem.batch,)
    else:
        whole_a, whole_b = (matrix.stacked == problem.batch for matrix in operands)
        outer = tuple((a if (whole_a, a.ndim) >= (whole_b, b.ndim) else b).shape[:-2])
    shape = (*outer, problem.m, problem.n)
    whole = (problem.batch, problem.m, problem.n)
    if request.out is None:
        result = arrays.empty(shape, problem.out_dtype, a)
    else:
        result = request.out
        arrays.check_same_library(result, a, "out")
        arrays.check_shape(result, shape, "out")
        arrays.check_writable(result, "out")
    c, where = as_output(result, whole, "out")
    residual = c
    if request.residual is not None:
        residual, where = residual_of(request.residual, a, whole, where)
    bias = c
    if request.bias is not None:
        bias = bias_of(request.bias, a, problem.batch, problem.n)
    extras = {"bias": bias, "residual": residual}
    for name, scale in zip(("scale_a", "scale_b", "scale_out"), scales, strict=True):
        extras[name] = c if scale is None else scale
    return _Given(with_result(problem, where), *operands, result, c, extras)
