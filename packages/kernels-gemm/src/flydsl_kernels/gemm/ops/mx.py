"""Products of 8-, 6- and 4-bit floats where 32 columns share an E8M0 scale, by WMMA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flydsl.errors import ConfigError, TargetError, UserValueError
from flydsl.ext import arrays
from flydsl.ext.arguments import check_no_gradient
from flydsl_kernels.gemm.arrays import aligned, as_output, as_stack, stacked
from flydsl_kernels.gemm.formats import SHARED
from flydsl_kernels.gemm.ops.arguments import bias_of, residual_of, scales_of
from flydsl_kernels.gemm.ops.product import Request, apart, output_type, planned, sum_plan
from flydsl_kernels.gemm.planning import facts_of
from flydsl_kernels.gemm.problem import (
    SHARED_K,
    GemmProblem,
    operand_of,
    problem_of,
    scaling_of,
    with_result,
)
from flydsl_kernels.gemm.shared import WAVE_ORDER
from flydsl_rocdl.arch import ArchFacts
from flydsl_rocdl.kernels.preshuffle import PreshuffledWeight, pack_fp4, pack_fp6

__all__ = ["by_wmma", "has_shared_exponents", "run_mx"]

_SCALES = ("uint8", "float8_e8m0fnu")


@dataclass(frozen=True, slots=True)
class _Codes:
    """An operand: type, codes and scales as stacks (batch, rows, bytes), columns, and order."""

    kind: str
    codes: Any
    scales: Any
    k: int
    order: str = ""


def has_shared_exponents(request: Request) -> bool:
    """Return whether scales are powers of two, as E8M0."""
    given = (request.scale_a, request.scale_b)
    return any(hasattr(s, "dtype") and arrays.dtype_name(s) in _SCALES for s in given)


def run_mx(a: Any, b: Any, request: Request) -> Any:
    """Multiply matrices with E8M0 scales, or rearranged weights; see `flydsl_kernels.gemm.gemm`.

    Args:
        a: Codes: ``float8_e4m3fn``, ``float8_e5m2``; ``float6_e2m3fn``, ``float6_e3m2fn`` or
            ``float4_e2m1fn`` with one code per byte, all (…, M, K); bytes of two 4-bit codes
            (…, M, K / 2); or bytes of E2M3 codes as `pack_fp6` makes them (…, M, K).
        b: The same, (…, N, K). The two formats may differ. Or a `PreshuffledWeight` in layout
            ``cdna5_16x16`` with scales.
        request: The optional arguments; scales are (…, M, K / 32) and (…, N, K / 32).

    Raises:
        ConfigError: K is no multiple of 32, or a configuration that breaks a rule.
        UserValueError: Shapes or types that do not fit.
        TargetError: The architecture has no such instruction for plain matrices.
    """
    _check_layout(request)
    check_no_gradient(
        "products with E8M0 scales", "FLY-U914", a=a, b=b, bias=request.bias,
        residual=request.residual,
    )  # fmt: skip
    request, a, b = apart(request, a, b)
    facts = facts_of(arrays.target_of(a))
    _check_target(facts)
    weight = b if isinstance(b, PreshuffledWeight) else None
    arrays.check_same_library(b if weight is None else weight.data, a, "b")
    first = _codes(a, request.scale_a, "a")
    if weight is None:
        second = _codes(b, request.scale_b, "b")
    else:
        second = _weight_codes(weight, request, facts)
    if first.k != second.k:
        _check_scales_of_bytes((a, b), request, (first.k, second.k))
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
    longer = count_a > count_b or (count_a == count_b and a.ndim >= len(b.shape))
    outer = tuple((a if longer else b).shape[:-2])
    return _run((first, second), (batch, outer), a, request, facts)


def _check_layout(request: Request) -> None:
    if request.layout != "nt":
        raise ConfigError(
            "products with E8M0 scales have no layout", code="FLY-C927", value=request.layout,
            allowed="nt", hint="operands are (M, K) and (N, K)",
        )  # fmt: skip


def by_wmma(facts: ArchFacts) -> bool:
    """Return whether an architecture has WMMA instructions with scales."""
    return any(shape.family == "wmma_scale" for shape in facts.matrix)


def _check_target(facts: ArchFacts) -> None:
    if not by_wmma(facts):
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
            allowed=f"scale_{what} of uint8 or float8_e8m0fnu, (rows, K / {SHARED_K})",
        )  # fmt: skip
    arrays.check_same_library(scale, array, f"scale_{what}")
    arrays.check_dtype(scale, _SCALES, f"scale_{what}")
    stack = as_stack(arrays.contiguous(array), what)
    name, columns = arrays.dtype_name(array), int(stack.shape[2])
    halved = name == "float4_e2m1fn_x2"
    if name == "uint8":
        halved = int(scale.shape[-1]) * SHARED_K == 2 * columns
    kind = "float4_e2m1fn" if halved else "float6_e2m3fn" if name == "uint8" else name
    if kind not in SHARED:
        raise ConfigError(
            "no product with E8M0 scales has operands of this type", code="FLY-C915", value=name,
            allowed=", ".join((*SHARED, "float4_e2m1fn_x2", "uint8")),
        )  # fmt: skip
    k = columns * (2 if halved else 1)
    if k % SHARED_K:
        raise ConfigError(
            "K is no multiple of the block that shares a scale", code="FLY-C914", value=k,
            allowed=f"multiples of {SHARED_K}", hint="pad both operands with zeros",
        )  # fmt: skip
    arrays.check_shape(scale, (*array.shape[:-1], k // SHARED_K), f"scale_{what}")
    codes = arrays.as_bytes(stack)
    if name == "float4_e2m1fn":
        codes = pack_fp4(codes)
    elif name in ("float6_e2m3fn", "float6_e3m2fn"):
        codes = pack_fp6(codes)
    scales = arrays.as_bytes(as_stack(arrays.contiguous(scale), f"scale_{what}"))
    return _Codes(kind, aligned(codes), aligned(scales), k)


def _check_scales_of_bytes(
    operands: tuple[Any, Any], request: Request, ks: tuple[int, int]
) -> None:
    """Refuse scales that make bytes codes of 4 bits, or of 6, which do not fit the other operand.

    Only the number of scales says which of both bytes are; see `_codes`.

    Raises:
        UserValueError: With the other number of scales, an operand would have as many columns as
            the other one.
    """
    scales, wrong = (request.scale_a, request.scale_b), []
    for i, (array, scale) in enumerate(zip(operands, scales, strict=True)):
        if isinstance(array, PreshuffledWeight) or arrays.dtype_name(array) != "uint8":
            continue
        columns, k = int(array.shape[-1]), ks[1 - i]
        if k in (columns, 2 * columns):
            wanted = (*(int(n) for n in array.shape[:-1]), k // SHARED_K)
            wrong.append((f"scale_{'ab'[i]}", tuple(int(n) for n in scale.shape), wanted))
    if wrong:
        raise UserValueError(
            f"{' or '.join(name for name, *_ in wrong)} has another shape than the product needs",
            code="FLY-U542",
            value=wrong[0][1] if len(wrong) == 1 else {name: given for name, given, _ in wrong},
            allowed=" or ".join(f"{wanted} for {name}" for name, _, wanted in wrong),
            hint=f"a has {ks[0]} columns and b {ks[1]} by the numbers of their scales",
        )


def _weight_codes(weight: PreshuffledWeight, request: Request, facts: ArchFacts) -> _Codes:
    """Return rearranged weights as an operand."""
    weight.require(layout=WAVE_ORDER, arch=facts.name, dtypes=tuple(SHARED))
    if request.scale_b is not None:
        raise ConfigError(
            "the weights have scales of their own", code="FLY-C917", value="scale_b",
            allowed="scale_a",
        )  # fmt: skip
    codes, scales = arrays.as_bytes(weight.data), arrays.as_bytes(weight.scales)
    count = weight.batch or 1
    codes, scales = (aligned(x).reshape(count, weight.n, -1) for x in (codes, scales))
    return _Codes(weight.dtype, codes, scales, weight.k, weight.layout)


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
    scaling = scaling_of("shared", "shared", scaling.out)
    problem = problem_of(
        m, n, k, first.kind, second.kind, name, batch, operand_of(), operand_of(order=second.order),
        operand_of(), scaling,
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
    problem = with_result(problem, where)
    if 0 not in whole:
        plan = planned(problem, facts, request)
        extras = (bias, residual, *(c if scale is None else scale for scale in scales))
        _launch(operands, c, extras, problem, (plan, request.stream))
    return result


def _launch(
    operands: tuple[_Codes, _Codes], c: Any, extras: tuple[Any, ...], problem: GemmProblem,
    how: tuple[Any, Any],
) -> None:  # fmt: skip
    from flydsl_kernels.gemm.device.epilogue import Extras
    from flydsl_kernels.gemm.device.mx import launch_mx
    from flydsl_kernels.gemm.device.split_k import launch_sum

    (first, second), (plan, stream) = operands, how
    stacks = [
        stacked(array, problem.batch)
        for array in (first.codes, second.codes, first.scales, second.scales)
    ]
    more, parts = Extras(*extras), plan.split_k
    if parts == 1:
        launch_mx(*stacks, c, more, plan, stream)
        return
    work = arrays.empty((parts * problem.batch, problem.m, problem.n), "float32", c)
    launch_mx(*stacks, work, more, plan, stream)
    launch_sum(work, c, more, sum_plan(problem, parts), stream)
