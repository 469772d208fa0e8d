"""Products of plain matrices of 8-, 6- and 4-bit floats where 32 columns share an E8M0 scale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flydsl.errors import ConfigError, TargetError, UserValueError
from flydsl.ext import arrays
from flydsl.ext.arguments import check_no_gradient
from flydsl_kernels.gemm.arrays import aligned, as_output, as_stack, stacked
from flydsl_kernels.gemm.device_figures import figures_of
from flydsl_kernels.gemm.ops.arguments import bias_of, residual_of, scales_of
from flydsl_kernels.gemm.ops.product import Request, apart, output_type
from flydsl_kernels.gemm.planning import facts_of
from flydsl_kernels.gemm.problem import GemmProblem, Operand
from flydsl_kernels.gemm.rules import sum_epilogue
from flydsl_rocdl.arch import ArchFacts
from flydsl_rocdl.kernels.preshuffle import pack_fp4, pack_fp6

__all__ = ["has_shared_exponents", "run_mx"]

_SHARED = 32
_STEP = 128
_LARGEST_TILE = 128
_REACH = 0x7FFFFFF0
_SCALES = ("uint8", "float8_e8m0fnu")
# Formats of the element types that have one code in each byte.
_WHOLE = {
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "bf8",
    "float6_e2m3fn": "fp6",
    "float6_e3m2fn": "bf6",
    "float4_e2m1fn": "fp4",
}


@dataclass(frozen=True, slots=True)
class _Codes:
    """An operand: format, codes and scales as stacks (batch, rows, bytes), and columns."""

    kind: str
    codes: Any
    scales: Any
    k: int


def has_shared_exponents(request: Request) -> bool:
    """Return whether scales are powers of two, as E8M0."""
    given = (request.scale_a, request.scale_b)
    return any(hasattr(s, "dtype") and arrays.dtype_name(s) in _SCALES for s in given)


def run_mx(a: Any, b: Any, request: Request) -> Any:
    """Multiply plain matrices with E8M0 scales; see `flydsl_kernels.gemm.gemm`.

    Args:
        a: Codes: ``float8_e4m3fn``, ``float8_e5m2``; ``float6_e2m3fn``, ``float6_e3m2fn`` or
            ``float4_e2m1fn`` with one code per byte, all (…, M, K); bytes of two 4-bit codes
            (…, M, K / 2); or bytes of E2M3 codes as `pack_fp6` makes them (…, M, K).
        b: The same, (…, N, K). The two formats may differ.
        request: The optional arguments; scales are (…, M, K / 32) and (…, N, K / 32).

    Raises:
        ConfigError: K is no multiple of 32, or an option that these products do not have.
        UserValueError: Shapes or types that do not fit.
        TargetError: The architecture has no such instruction for plain matrices.
    """
    _check_options(request)
    check_no_gradient(
        "products with E8M0 scales", "FLY-U914", a=a, b=b, bias=request.bias,
        residual=request.residual,
    )  # fmt: skip
    request, a, b = apart(request, a, b)
    facts = facts_of(arrays.target_of(a))
    _check_target(facts)
    arrays.check_same_library(b, a, "b")
    first = _codes(a, request.scale_a, "a")
    second = _codes(b, request.scale_b, "b")
    if first.k != second.k:
        raise UserValueError(
            "a and b have different numbers of k", code="FLY-U911", value=second.k,
            allowed=str(first.k),
        )  # fmt: skip
    count_a, count_b = int(first.codes.shape[0]), int(second.codes.shape[0])
    batch = max(count_a, count_b) if 0 not in (count_a, count_b) else 0
    if {count_a, count_b} - {1, batch}:
        raise UserValueError(
            "a and b are batches of different lengths", code="FLY-U911", value=count_b,
            allowed=f"1, {count_a}",
        )  # fmt: skip
    longer = count_a > count_b or (count_a == count_b and a.ndim >= b.ndim)
    outer = tuple((a if longer else b).shape[:-2])
    return _run((first, second), (batch, outer), a, request, facts)


def _check_options(request: Request) -> None:
    for what, given in (
        ("config", request.config), ("split_k", request.split_k),
        ("layout", None if request.layout == "nt" else request.layout),
    ):  # fmt: skip
        if given is not None:
            raise ConfigError(
                f"products with E8M0 scales have no {what}", code="FLY-C927", value=given,
                hint="operands are (M, K) and (N, K)",
            )  # fmt: skip


def _check_target(facts: ArchFacts) -> None:
    if not any(shape.family == "wmma_scale" for shape in facts.matrix):
        raise TargetError(
            f"{facts.name} does not multiply plain matrices with E8M0 scales", code="FLY-T910",
            value=facts.name, allowed="architectures with WMMAScale instructions",
            hint="those with MFMA_Scale read rearranged weights: preshuffle_b(..., scales=...)",
        )  # fmt: skip


def _codes(array: Any, scale: Any, what: str) -> _Codes:
    """Return an operand with its scales."""
    if scale is None:
        raise UserValueError(
            f"{what} has no scales", code="FLY-U911", value=None,
            allowed=f"scale_{what} of uint8 or float8_e8m0fnu, (rows, K / {_SHARED})",
        )  # fmt: skip
    arrays.check_same_library(scale, array, f"scale_{what}")
    arrays.check_dtype(scale, _SCALES, f"scale_{what}")
    stack = as_stack(arrays.contiguous(array), what)
    name, columns = arrays.dtype_name(array), int(stack.shape[2])
    kind = _WHOLE.get(name, "")
    halved = name == "float4_e2m1fn_x2"
    if name == "uint8":
        halved = int(scale.shape[-1]) * _SHARED == 2 * columns
        kind = "fp4" if halved else "fp6"
    if not (kind or halved):
        raise ConfigError(
            "no product with E8M0 scales has operands of this type", code="FLY-C915", value=name,
            allowed=", ".join((*_WHOLE, "float4_e2m1fn_x2", "uint8")),
        )  # fmt: skip
    k = columns * (2 if halved else 1)
    if k % _SHARED:
        raise ConfigError(
            "K is no multiple of the block that shares a scale", code="FLY-C914", value=k,
            allowed=f"multiples of {_SHARED}", hint="pad both operands with zeros",
        )  # fmt: skip
    arrays.check_shape(scale, (*array.shape[:-1], k // _SHARED), f"scale_{what}")
    codes = arrays.as_bytes(stack)
    if name == "float4_e2m1fn":
        codes = pack_fp4(codes)
    elif name.startswith("float6"):
        codes = pack_fp6(codes)
    scales = arrays.as_bytes(as_stack(arrays.contiguous(scale), f"scale_{what}"))
    if _LARGEST_TILE * k >= _REACH:
        raise ConfigError(
            "a tile of a configuration spans more than 2 GiB", code="FLY-C925", value=f"K={k}",
            allowed=f"K below {_REACH // _LARGEST_TILE}",
        )  # fmt: skip
    return _Codes(kind or "fp4", aligned(codes), aligned(scales), k)


def _run(
    operands: tuple[_Codes, _Codes], layers: tuple[int, tuple[int, ...]], like: Any,
    request: Request, facts: ArchFacts,
) -> Any:  # fmt: skip
    """Prepare the result and what goes into it, and launch."""
    (first, second), (batch, outer) = operands, layers
    m, n, k = int(first.codes.shape[1]), int(second.codes.shape[1]), first.k
    given = request.out is not None or request.out_dtype is not None
    name = output_type(like, request) if given else "bfloat16"
    whole = (batch, m, n)
    scaling, scales = scales_of(like, Request(scale_out=request.scale_out), (*whole, k))
    problem = GemmProblem(
        m, n, k, "bfloat16", "", name, batch, Operand(), Operand(), Operand(), scaling,
        request.activation or "", request.bias is not None, request.residual is not None,
    )  # fmt: skip
    result = request.out
    if result is None:
        result = arrays.empty((*outer, m, n), name, like)
    else:
        arrays.check_same_library(result, like, "out")
        arrays.check_shape(result, (*outer, m, n), "out")
    c, where = as_output(result, whole, "out")
    residual = c
    if request.residual is not None:
        residual, where = residual_of(request.residual, like, whole, where)
    bias = c if request.bias is None else bias_of(request.bias, like, batch, n)
    if 0 not in whole:
        extras = (bias, residual, *(c if scale is None else scale for scale in scales))
        _launch(operands, c, extras, replace(problem, c=where), (request.stream, facts))
    return result


def _launch(
    operands: tuple[_Codes, _Codes], c: Any, extras: tuple[Any, ...], problem: GemmProblem,
    where: tuple[Any, ArchFacts],
) -> None:  # fmt: skip
    from flydsl_kernels.gemm.device.epilogue import Extras
    from flydsl_kernels.gemm.device.mx import MxPlan, launch_mx

    first, second = operands
    stream, facts = where
    finish = replace(sum_epilogue(problem), vector=min(8, problem.c_vector))
    tiles, waves = _division(problem, figures_of(facts.family).units)
    plan = MxPlan(first.kind, second.kind, tiles, waves, problem.k % _STEP != 0, finish)
    stacks = [
        stacked(array, problem.batch)
        for array in (first.codes, second.codes, first.scales, second.scales)
    ]
    launch_mx(*stacks, c, Extras(*extras), plan, stream)


def _division(problem: GemmProblem, units: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return instruction tiles of a wave and waves of a workgroup: few where there are few rows."""
    if problem.m <= 16:
        return (1, 1), (1, 4)
    if problem.m <= 32:
        return (2, 1), (1, 4)
    large = -(-problem.m // _LARGEST_TILE) * -(-problem.n // _LARGEST_TILE) * problem.batch
    return ((4, 4), (2, 2)) if large >= units else ((2, 2), (2, 2))
