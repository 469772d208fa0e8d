"""Products with weights that were rearranged once (`flydsl_rocdl.kernels.preshuffle`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

from flydsl.errors import ConfigError, UserValueError
from flydsl.ext import arrays
from flydsl_kernels.gemm.arrays import address, as_output, broadcast
from flydsl_kernels.gemm.device_figures import figures_of
from flydsl_kernels.gemm.formats import FORMATS, PACKED
from flydsl_kernels.gemm.ops.arguments import bias_of, residual_of, scales_of
from flydsl_kernels.gemm.ops.product import (
    Request,
    apart,
    output_type,
    replaced,
    run_gemm,
    sum_plan,
)
from flydsl_kernels.gemm.plan import WEIGHTS
from flydsl_kernels.gemm.planning import facts_of
from flydsl_kernels.gemm.problem import (
    SCALE_BLOCK,
    GemmProblem,
    operand_of,
    problem_of,
    with_result,
)
from flydsl_rocdl.kernels.preshuffle import LAYOUTS

__all__ = [
    "by_rows",
    "check_layout",
    "flat_of",
    "order_of",
    "result_of",
    "run_preshuffled",
    "separately",
]

__flydsl_internal__ = True  # errors are at the line of the caller

_INPUTS = {
    ("bfloat16", "bfloat16"): "bf16",
    ("float16", "float16"): "fp16",
    ("int8", "int8"): "int8",
    ("int8", "int4"): "int4",
    ("bfloat16", "int4"): "bf16_int4",
    ("float16", "int4"): "fp16_int4",
}
_OUTPUTS = {"bfloat16": "bf16", "float16": "fp16", "float32": "f32"}
_RDNA_OUTPUTS = ("bfloat16", "float32")
_PASS_BYTES = 4096
_OWN = ("cdna3", "cdna4")
_RDNA_STEP = 32


def run_preshuffled(a: Any, weight: Any, request: Request) -> Any:
    """Multiply by preshuffled weights; see `flydsl_kernels.gemm.gemm`.

    On gfx942 and gfx950, and by weights in layout ``rdna4_fp8``, a kernel of its own multiplies;
    everywhere else, and by parts of K, in a configuration of one's own, for batches of weights,
    i32 results and scales of blocks it is the kernel of plain products, which reads weights
    straight into registers.

    Args:
        a: (…, M, K) of bfloat16, float16, int8 or an 8-bit float.
        weight: A `PreshuffledWeight` of `a`'s type, or int4: (N, K), or (batch, N, K).
        request: The optional arguments.

    Raises:
        ConfigError: The weights are in another order or of another type than the kernels read, or
            an option that they do not have was given.
    """
    check_layout(request)
    request, a, weight = apart(request, a, weight)
    facts = facts_of(arrays.target_of(a))
    dtype = arrays.dtype_name(a)
    weight.require(layout=order_of(weight, facts), arch=facts.name)
    if a.ndim < 2 or int(a.shape[-1]) != weight.k:
        raise UserValueError(
            "a does not fit the weights", code="FLY-U911", value=tuple(a.shape),
            allowed=f"(M, {weight.k}), or a batch of these",
        )  # fmt: skip
    arrays.check_same_library(weight.data, a, "b")
    if request.scale_b is None:
        request = replaced(request, scale_b=weight.scales)
    if request.out is None:
        name = output_type(a, request)
        asked = request.out_dtype is not None
        name = "bfloat16" if name == "int32" and not asked else name
        request = replaced(request, out_dtype=name)
    kind = _own_kernel(dtype, weight, request, facts)
    if weight.batch is not None or (a.ndim == 2 and not kind):
        return run_gemm(a, weight, request)

    def multiply(rows: Any, flat: Request) -> Any:
        return _one(rows, weight, flat, (kind, facts)) if kind else run_gemm(rows, weight, flat)

    return by_rows(a, weight.n, request, multiply)


def order_of(weight: Any, facts: Any) -> str:
    """Return the layout of weights that is needed: theirs, if the architecture reads it."""
    if weight.dtype in PACKED:
        return PACKED[weight.dtype].order
    known = weight.layout in WEIGHTS and facts.family in LAYOUTS[weight.layout].families
    return str(weight.layout) if known else "16x16"


def _own_kernel(dtype: str, weight: Any, request: Request, facts: Any) -> str:
    """Return the types' name in the kernels for weights only; empty: that of plain products.

    Raises:
        ConfigError: Nothing multiplies weights of four bits by numbers of this type.
    """
    kind = _INPUTS.get((dtype, weight.dtype), "")
    if dtype == weight.dtype and dtype.startswith("float8_e4m3"):
        kind = "fp8"
    blocks = request.scale_a is not None and request.scale_a.shape[-1:] == (
        weight.k // SCALE_BLOCK,
    )
    options = (request.config, request.split_k, weight.batch)
    more = any(option is not None for option in options) or request.out_dtype == "int32"
    more = more or (blocks and request.scale_a.ndim > 1)
    if weight.dtype in PACKED and dtype not in PACKED[weight.dtype].becoming:
        raise ConfigError(
            "no kernel multiplies these types by preshuffled weights", code="FLY-C917",
            value=f"{dtype} x {weight.dtype}",
            allowed=f"{', '.join(PACKED[weight.dtype].becoming)} x {weight.dtype}",
        )  # fmt: skip
    own = facts.family in _OWN or (weight.layout == "rdna4_fp8" and weight.k % _RDNA_STEP == 0)
    return kind if own and not more else ""


def by_rows(a: Any, n: int, request: Request, multiply: Callable[[Any, Request], Any]) -> Any:
    """Multiply all rows of a batch by the same weights.

    Args:
        a: (…, M, columns).
        n: Columns of the result.
        request: The optional arguments, those with a row for each of `a` in its shape.
        multiply: Called with `a` and these as matrices; returns the result of all rows.
    """
    lead = tuple(int(extent) for extent in a.shape[:-1])
    m = prod(lead)
    found = request.out
    if found is not None:
        arrays.check_same_library(found, a, "out")
        arrays.check_shape(found, (*lead, n), "out")
        arrays.check_writable(found, "out")
        found = found if len(lead) == 1 else found.reshape(m, n)
        if not arrays.shares_memory(found, request.out):
            found = arrays.empty((m, n), arrays.dtype_name(request.out), a)

    def whole(array: Any) -> Any:
        if array is None or len(lead) == 1:
            return array
        same = tuple(array.shape[: len(lead)]) == lead
        return array.reshape(m, *array.shape[len(lead) :]) if same else array

    flat = replaced(
        request, out=found, residual=whole(request.residual), scale_a=whole(request.scale_a),
        scale_out=whole(request.scale_out),
    )  # fmt: skip
    result = multiply(a.reshape(m, a.shape[-1]), flat)
    if request.out is None:
        return result.reshape(*lead, n)
    if not arrays.shares_memory(result, request.out):
        request.out[...] = result.reshape(*lead, n)
    return request.out


def _one(a: Any, weight: Any, request: Request, how: tuple[str, Any]) -> Any:
    """Multiply a matrix by the kernels for weights only."""
    m, n, k = int(a.shape[0]), weight.n, weight.k
    name = output_type(a, request)
    scaling, scales = scales_of(a, request, (1, m, n, k))
    problem = problem_of(
        m, n, k, arrays.dtype_name(a), "", name, 1, *(operand_of(),) * 3, scaling,
        request.activation or "", request.bias is not None, request.residual is not None,
    )  # fmt: skip
    result = result_of(a, n, name, request)
    if m:
        _run((a, weight, result), problem, request, scales, how)
    return result


def result_of(a: Any, n: int, dtype: str, request: Request) -> Any:
    """Return the array of the result: `out`, or a new one."""
    shape = (*a.shape[:-1], n)
    if request.out is None:
        return arrays.empty(shape, dtype, a)
    arrays.check_same_library(request.out, a, "out")
    arrays.check_shape(request.out, shape, "out")
    arrays.check_writable(request.out, "out")
    return request.out


def check_layout(request: Request) -> None:
    """Check that the operands are (M, K) and (N, K).

    Raises:
        ConfigError: Another layout was asked for.
    """
    if request.layout != "nt":
        raise ConfigError(
            "products with preshuffled weights have no layout", code="FLY-C917",
            value=request.layout, allowed="nt", hint="a is (M, K), a view of any strides",
        )  # fmt: skip


def _tile(problem: GemmProblem, units: int, paired: bool) -> tuple[int, int, int]:
    """Return (tile_m, tile_n, tile_k): small ones where there are few, so that all units work."""
    size = FORMATS[problem.dtype].bytes
    tile_m = 16 if problem.m <= 16 else 32 if problem.m <= 32 else 64 if problem.m <= 512 else 128
    row = max(128, _PASS_BYTES // tile_m)
    tile_n = 256 if tile_m >= 64 else 128
    while tile_n > 64 and -(-problem.m // tile_m) * -(-problem.n // tile_n) < units:
        tile_n //= 2
    return tile_m, tile_n, row // size * (2 if paired and row == 64 else 1)


def _run(
    given: tuple[Any, Any, Any], problem: GemmProblem, request: Request,
    scales: tuple[Any, Any, Any], how: tuple[str, Any],
) -> None:  # fmt: skip
    from flydsl_rocdl.kernels.epilogue import ACTIVATIONS

    a, weight, result = given
    kind, facts = how
    m, n = problem.m, problem.n
    rows = arrays.contiguous(a).reshape(m, problem.k)
    rows = arrays.as_bytes(rows) if rows.itemsize == 1 else rows
    flat = flat_of(result, m, n)
    simple = problem.activation in ("", *ACTIVATIONS) and flat is not None
    rdna = weight.layout == "rdna4_fp8"
    outputs = _RDNA_OUTPUTS if rdna else _OUTPUTS
    native = simple and problem.out_dtype in outputs and not problem.residual
    scaled = bool(problem.scaling.a or problem.scaling.b) and native
    bias = None if request.bias is None else bias_of(request.bias, a, 1, n)
    more = (scaled, bias is not None, problem.activation or "none") if native else ()
    out = _OUTPUTS[problem.out_dtype] if native else "f32"
    target = flat if native else arrays.empty((m, n), "float32", result)
    data = arrays.as_bytes(weight.data) if weight.data.itemsize == 1 else weight.data
    row_scales = _vector(scales[0], m, a) if scaled else target
    column_scales = _vector(scales[1], n, a) if scaled else target
    plain_bias = target if bias is None else bias.reshape(n)
    operands = target, rows, data, row_scales, column_scales, plain_bias
    run = _run_rdna4 if rdna else _run_cdna
    run(operands, problem, (kind, out, _epilogue(*more)), facts, request.stream)
    if not native:
        separately(target, (a, result), problem, request, scales)


@lru_cache(maxsize=64)
def _epilogue(*steps: Any) -> Any:
    from flydsl_rocdl.kernels.epilogue import Epilogue

    return Epilogue(*steps)


def _run_cdna(
    operands: tuple[Any, ...], problem: GemmProblem, how: tuple[str, str, Any], facts: Any,
    stream: Any,
) -> None:  # fmt: skip
    kind, out, steps = how
    tiles = _tile(problem, figures_of(facts.family).units, kind.endswith("int4"))
    launcher = _cdna_launcher(kind, out, problem.n, problem.k, *tiles, steps, 8)
    launcher(*operands, problem.m, problem.n, stream)


@lru_cache(maxsize=256)
def _cdna_launcher(*values: Any) -> Any:
    """Return the launcher of `PreshufflePlan(*values)`, which is checked in the first call."""
    from flydsl_kernels.gemm.device.preshuffle.launch import preshuffle_launcher
    from flydsl_kernels.gemm.device.preshuffle.plan import PreshufflePlan

    return preshuffle_launcher(PreshufflePlan(*values))


def _run_rdna4(
    operands: tuple[Any, ...], problem: GemmProblem, how: tuple[str, str, Any], facts: Any,
    stream: Any,
) -> None:  # fmt: skip
    _, out, steps = how
    m, n, units = problem.m, problem.n, figures_of(facts.family).units
    tile_m = 16 if m <= 16 else 32 if m <= 256 else 64
    tile_n = 128
    while tile_n > _RDNA_STEP and -(-m // tile_m) * -(-n // tile_n) < units:
        tile_n //= 2
    _rdna4_launcher(n, problem.k, tile_m, tile_n, out, steps)(*operands, m, stream)


@lru_cache(maxsize=256)
def _rdna4_launcher(n: int, k: int, tile_m: int, tile_n: int, out: str, steps: Any) -> Any:
    from flydsl_kernels.gemm.device.rdna4.kernel import rdna4_launcher
    from flydsl_kernels.gemm.device.rdna4.plan import Rdna4Plan

    return rdna4_launcher(Rdna4Plan(n, k, tile_m, tile_n, out_dtype=out, epilogue=steps))


def separately(
    sums: Any, arrays_: tuple[Any, Any], problem: GemmProblem, request: Request,
    scales: tuple[Any, Any, Any],
) -> None:  # fmt: skip
    """Finish sums in a launch of their own: what the kernel itself has no epilogue for.

    Args:
        sums: f32 (M, N), or (parts, M, N) of the parts of K.
        arrays_: An array of the call, and the result.
        problem: The problem.
        request: Bias and residual.
        scales: Of A, B and the result, or None each.
    """
    from flydsl_kernels.gemm.device.epilogue import Extras
    from flydsl_kernels.gemm.device.split_k import launch_sum

    like, result = arrays_
    m, n = problem.m, problem.n
    flat = flat_of(result, m, n)
    c, where = as_output(result if flat is None else flat, (1, m, n), "out")
    residual = c
    if request.residual is not None:
        residual, where = residual_of(request.residual, like, (1, m, n), where)
    bias = None if request.bias is None else bias_of(request.bias, like, 1, n)
    extras = [c if item is None else item for item in (bias, residual, *scales)]
    parts = int(sums.shape[0]) if sums.ndim == 3 else 1
    summing = sum_plan(with_result(problem, where), parts)
    launch_sum(sums.reshape(parts, m, n), c, Extras(*extras), summing, request.stream)


def flat_of(result: Any, m: int, n: int) -> Any:
    """Return the result as an (M, N) matrix without gaps at a multiple of 4 bytes, or None."""
    flat = result.reshape(m, n)
    whole = arrays.strides(flat) == (n, 1) or m == 1
    if not (whole and arrays.shares_memory(flat, result)) or address(flat) % 4:
        return None
    return flat


def _vector(scale: Any, count: int, like: Any) -> Any:
    """Return a scale as one number for each row or column."""
    if scale is None:
        ones = arrays.zeros((count,), "float32", like)
        ones += 1
        return ones
    return arrays.contiguous(broadcast(scale, (1, count, 1))).reshape(count)
