"""Products whose configuration is searched for: `tuned_gemm`, and two for other operands.

``flydsl tune flydsl_kernels.gemm.tuning:tuned_gemm --problems module:function`` searches on many
workers. The candidates are what the hook ``flydsl_tuning_space`` answers for ``"gemm"``; this
family answers with what `plan_gemm` predicts to be best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.autotune import Config, autotune
from flydsl.ext import arrays
from flydsl.plugins.manager import plugin_manager
from flydsl_kernels.gemm.arrays import as_matrix, as_output
from flydsl_kernels.gemm.choices import plan_of, text_of
from flydsl_kernels.gemm.device.dense import dense_kernel
from flydsl_kernels.gemm.device.epilogue import Extras
from flydsl_kernels.gemm.device.mx import mx_kernel
from flydsl_kernels.gemm.device.preshuffle.kernel import preshuffle_kernel
from flydsl_kernels.gemm.device.preshuffle.plan import THREADS
from flydsl_kernels.gemm.formats import SHARED
from flydsl_kernels.gemm.plan import GemmConfig, GemmPlan, MxPlan
from flydsl_kernels.gemm.planning import facts_of
from flydsl_kernels.gemm.problem import SHARED_K, GemmProblem, Operand, Scaling
from flydsl_rocdl.arch import ArchFacts

__all__ = [
    "mx_problem_of",
    "mx_space",
    "problem_of",
    "space",
    "tuned_gemm",
    "tuned_mx_gemm",
    "tuned_weighted_gemm",
    "weighted_space",
]


def problem_of(a: Any, b: Any, c: Any) -> GemmProblem:
    """Return the problem of stacks (batch, M, K), (batch, N, K) and (batch, M, N)."""
    first, second = as_matrix(a, False, "a"), as_matrix(b, False, "b")
    b_dtype, where = arrays.dtype_name(b), second.where
    packed = b_dtype == "uint8" and 2 * second.k == first.k
    if packed and where.k_major and where.leading == second.k:
        b_dtype, where = "int4", Operand(alignment=where.alignment)
    batch, m, n = (int(extent) for extent in c.shape)
    _, result = as_output(c, (batch, m, n), "c")
    return GemmProblem(
        m, n, first.k, arrays.dtype_name(a), b_dtype, arrays.dtype_name(c), batch,
        first.where, where, result,
    )  # fmt: skip


def space(arguments: Mapping[str, Any]) -> Sequence[Config]:
    """Return the configurations worth trying for a call, best guess first, without split K."""
    problem = problem_of(arguments["a"], arguments["b"], arguments["c"])
    return _configs(problem, arrays.target_of(arguments["a"]))


def weighted_space(arguments: Mapping[str, Any]) -> Sequence[Config]:
    """Return the same for `tuned_weighted_gemm`."""
    plain = problem_of(arguments["a"], arguments["b"], arguments["c"])
    problem = replace(plain, b=Operand(order="16x16"))
    return _configs(problem, arrays.target_of(arguments["a"]))


def mx_space(arguments: Mapping[str, Any]) -> Sequence[Config]:
    """Return the same for `tuned_mx_gemm`."""
    target = arrays.target_of(arguments["a"])
    return _configs(mx_problem_of(arguments, facts_of(target)), target)


def mx_problem_of(arguments: Mapping[str, Any], facts: ArchFacts) -> GemmProblem:
    """Return the problem of the arguments of `tuned_mx_gemm`."""
    a, b, c = (arguments[name] for name in "abc")
    k = int(arguments["scale_b"].shape[2]) * SHARED_K
    types = []
    for array in (a, b):
        name, halved = arrays.dtype_name(array), 2 * int(array.shape[2]) == k
        packed = "float4_e2m1fn" if halved else "float6_e2m3fn"
        types.append(packed if name == "uint8" else name)
    batch, m, n = (int(extent) for extent in c.shape)
    _, where = as_output(c, (batch, m, n), "c")
    rearranged = any(shape.family == "mfma_scale" for shape in facts.matrix)
    order = SHARED[types[1]].order if rearranged else ""
    return GemmProblem(
        m, n, k, types[0], types[1], arrays.dtype_name(c), batch, Operand(),
        Operand(order=order), where, Scaling("shared", "shared"),
    )  # fmt: skip


def _configs(problem: GemmProblem, target: Any) -> Sequence[Config]:
    found = plugin_manager().hook.flydsl_tuning_space(kernel="gemm", problem=problem, target=target)
    configs = (GemmConfig(**dict(item.values)) for item in found or ())
    return [
        Config(choice=text_of(problem, target, c))
        for c in configs
        if c.split_k == 1 and not c.streams
    ]


@autotune(configs=space)
@flyc.jit
def tuned_gemm(
    a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, stream: fx.Stream, choice: fx.Constexpr[str]
) -> None:
    """Compute C = A Bᵀ for stacks with contiguous k, in the configuration that is fastest.

    Args:
        a: (batch, M, K), of bfloat16, float16 or int8.
        b: (batch, N, K); or the data of weights in layout ``int4_packed``, bytes (batch, N, K / 2).
        c: (batch, M, N).
        stream: Where to launch.
        choice: The configuration; the search supplies it.
    """
    _launch_dense(a, b, c, stream, plan_of(choice))


def _launch_dense(a: Any, b: Any, c: Any, stream: Any, plan: GemmPlan) -> None:
    rows = (c.shape[1] + (plan.config.tile_m - 1)) // plan.config.tile_m
    columns = (c.shape[2] + (plan.config.tile_n - 1)) // plan.config.tile_n
    dense_kernel(a, b, c, Extras(c, c, c, c, c), plan).launch(
        grid=(rows * columns * c.shape[0],), block=(plan.threads,), stream=stream
    )


@autotune(configs=weighted_space)
@flyc.jit
def tuned_weighted_gemm(
    a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, stream: fx.Stream, choice: fx.Constexpr[str]
) -> None:
    """Compute C = A Bᵀ for weights in layout ``16x16``, in the configuration that is fastest.

    Args:
        a: (batch, M, K), of bfloat16, float16 or int8.
        b: The data of the weights, of `a`'s type, (batch, N, K).
        c: (batch, M, N).
        stream: Where to launch.
        choice: The configuration; the search supplies it.
    """
    _launch_dense(a, b, c, stream, plan_of(choice))


@autotune(configs=mx_space)
@flyc.jit
def tuned_mx_gemm(
    a: fx.Tensor, b: fx.Tensor, scale_a: fx.Tensor, scale_b: fx.Tensor, c: fx.Tensor,
    stream: fx.Stream, choice: fx.Constexpr[str],
) -> None:  # fmt: skip
    """Compute C = A Bᵀ where 32 k share an E8M0 scale, in the configuration that is fastest.

    Args:
        a: (batch, M, bytes of a row): two 4-bit codes in a byte, 6-bit ones as `pack_fp6` packs
            them, or ``float8_e4m3fn``.
        b: (batch, N, bytes of a row); where weights are rearranged, their data.
        scale_a: (batch, M, K / 32) bytes; where weights are rearranged, in order ``e8m0`` with
            rows up to a multiple of 32.
        scale_b: (batch, N, K / 32) bytes, or in order ``e8m0``.
        c: (batch, M, N); the batch is 1 where weights are rearranged.
        stream: Where to launch.
        choice: The configuration; the search supplies it.
    """
    plan = plan_of(choice)
    if fx.const_expr(isinstance(plan, MxPlan)):
        tile_m, tile_n = plan.tile
        rows, columns = (c.shape[1] + (tile_m - 1)) // tile_m, (c.shape[2] + (tile_n - 1)) // tile_n
        mx_kernel(a, b, scale_a, scale_b, c, Extras(c, c, c, c, c), plan).launch(
            grid=(rows * columns * c.shape[0],), block=(plan.threads,), stream=stream
        )
    else:
        rows = (c.shape[1] + (plan.tile_m - 1)) // plan.tile_m
        grid = rows, -(-plan.n // plan.tile_n)
        preshuffle_kernel(c, a, b, scale_a, scale_b, c, c.shape[1], plan.n, plan).launch(
            grid=grid, block=(THREADS, 1, 1), stream=stream
        )
