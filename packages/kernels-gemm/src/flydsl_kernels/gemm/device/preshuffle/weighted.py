"""The same launchers where a wave has 32 lanes: by the kernel of plain products.

That kernel reads weights from memory straight to registers too (`device.weights`), and has the
matrix instructions of gfx11, gfx12 and gfx1250.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType, SimpleNamespace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import ConfigError, TargetError
from flydsl_kernels.gemm.device.dense import compute, operands
from flydsl_kernels.gemm.device.epilogue import Finish
from flydsl_kernels.gemm.device.order import spot
from flydsl_kernels.gemm.device.preshuffle.plan import PreshufflePlan
from flydsl_kernels.gemm.plan import GemmConfig, GemmPlan
from flydsl_kernels.gemm.problem import GemmProblem, Operand, Scaling
from flydsl_kernels.gemm.rules import derive
from flydsl_rocdl.arch import KNOWN, lookup

__all__ = ["WeightedPlan", "weighted_kernel", "weighted_plan"]

__flydsl_internal__ = True  # errors are at the line of the caller

_TYPES: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "bf16": ("bfloat16", "bfloat16", "16x16"),
        "fp16": ("float16", "float16", "16x16"),
        "fp8": ("float8_e4m3fn", "float8_e4m3fn", "16x16"),
        "int8": ("int8", "int8", "16x16"),
        "int4": ("int8", "int4", "int4_packed"),
        "bf16_int4": ("bfloat16", "int4", "int4_packed"),
        "fp16_int4": ("float16", "int4", "int4_packed"),
    }
)
_KINDS = {"bf16": fx.BFloat16, "fp16": fx.Float16, "f32": fx.Float32}
_OUTPUTS = {"bf16": "bfloat16", "fp16": "float16", "f32": "float32"}
_WAVES = ((1, 4), (1, 8), (2, 4), (4, 4))


@dataclass(frozen=True, slots=True)
class WeightedPlan:
    """What the kernel is compiled for.

    Attributes:
        gemm: How tiles are made.
        n: Columns of C.
        k: Columns of A.
        out_dtype: Type of C, a key of the builders' output types.
    """

    gemm: GemmPlan
    n: int
    k: int
    out_dtype: str


@lru_cache(maxsize=256)
def weighted_plan(plan: PreshufflePlan, arch: str) -> WeightedPlan:
    """Return how the kernel of plain products makes the tiles of a plan.

    Args:
        plan: The numbers that the builder was given.
        arch: The architecture being compiled for.

    Raises:
        ConfigError: The tile breaks a rule there, whatever the number of waves.
        TargetError: The architecture multiplies no such types.
    """
    if plan.in_dtype not in _TYPES:
        raise TargetError(
            f"{arch} does not read weights with E8M0 scales", code="FLY-T910", value=arch,
            allowed=", ".join(f.name for f in KNOWN.values() if f.family == "cdna4"),
            hint="gemm multiplies plain matrices with E8M0 scales by WMMAScale instructions",
        )  # fmt: skip
    a, b, order = _TYPES[plan.in_dtype]
    steps, broken = plan.epilogue, None
    scaling = Scaling("row", "row") if steps.scaled else Scaling()
    problem = GemmProblem(
        plan.tile_m, plan.n, plan.k, a, b, _OUTPUTS[plan.out_dtype], b=Operand(order=order),
        scaling=scaling, activation="" if steps.activation == "none" else steps.activation,
        bias=steps.bias,
    )  # fmt: skip
    for waves in _WAVES:
        config = GemmConfig(
            plan.tile_m, plan.tile_n, plan.tile_k, *waves, group_m=max(1, plan.group_m),
            direct=plan.direct,
        )  # fmt: skip
        try:
            gemm = derive(problem, lookup(arch), config)
            return WeightedPlan(gemm, plan.n, plan.k, plan.out_dtype)
        except ConfigError as error:
            broken = broken or error
    assert broken is not None
    raise broken


@dataclass(frozen=True, slots=True)
class _Matrices:
    """Matrices that begin at a pointer: as much of a tensor as the kernel looks at."""

    iter: Any
    dtype: Any
    shape: tuple[Any, ...]
    stride: tuple[Any, ...]

    @classmethod
    def of(cls, tensor: Any, rows: Any, columns: int, dtype: Any = None) -> _Matrices:
        """Return one matrix without gaps between its rows, of the tensor's or another type."""
        return cls(tensor.iter, dtype or tensor.dtype, (1, rows, columns), (0, columns, 1))


@flyc.kernel
def weighted_kernel(
    C: fx.Tensor, A: fx.Tensor, B: fx.Tensor, ScaleA: fx.Tensor, ScaleB: fx.Tensor,
    Bias: fx.Tensor, M: fx.Int32, plan: fx.Constexpr[WeightedPlan],
) -> None:  # fmt: skip
    """Make one tile of C = epilogue(A B)."""
    _make_tile((C, A, B, ScaleA, ScaleB, Bias), M, plan)


def _make_tile(tensors: tuple[Any, ...], rows: Any, weighted: WeightedPlan) -> None:
    """Emit what a workgroup does."""
    c, a, b, scale_a, scale_b, bias = tensors
    plan, n, k, out = weighted.gemm, weighted.n, weighted.k, weighted.out_dtype
    config = plan.config
    columns = fx.Int32(n)
    result = _Matrices.of(c, rows, n, _KINDS[out])
    extras = SimpleNamespace(
        bias=_Matrices.of(bias, n, 1), scale_a=_Matrices.of(scale_a, rows, 1, fx.Float32),
        scale_b=_Matrices.of(scale_b, n, 1, fx.Float32),
    )  # fmt: skip
    tiles = (rows + (config.tile_m - 1)) // config.tile_m, -(-n // config.tile_n)
    own = spot(tiles, fx.Int32(1), config.group_m, plan.dies)
    row, column = own.tile_m * config.tile_m, own.tile_n * config.tile_n
    zero = fx.Int32(0)
    first, second = operands(
        plan, _Matrices.of(a, rows, k), _Matrices.of(b, n, k), (zero, zero), (row, column),
        fx.Int32(k),
    )  # fmt: skip
    finish = Finish(plan.epilogue, extras, zero, row, column, rows, columns)
    compute(plan, first, second, (zero, result, zero), finish)
