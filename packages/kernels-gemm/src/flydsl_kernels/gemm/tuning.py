"""A product whose configuration is searched for: `tuned_gemm`.

``flydsl tune flydsl_kernels.gemm.tuning:tuned_gemm --problems module:function`` searches on many
workers. The candidates are what the hook ``flydsl_tuning_space`` answers for ``"gemm"``; this
family answers with what `plan_gemm` predicts to be best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from flydsl_kernels.gemm.plan import GemmConfig
from flydsl_kernels.gemm.problem import GemmProblem, Operand

__all__ = ["problem_of", "space", "tuned_gemm"]


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
    target = arrays.target_of(arguments["a"])
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
    plan = plan_of(choice)
    rows = (c.shape[1] + (plan.config.tile_m - 1)) // plan.config.tile_m
    columns = (c.shape[2] + (plan.config.tile_n - 1)) // plan.config.tile_n
    dense_kernel(a, b, c, Extras(c, c, c, c, c), plan).launch(
        grid=(rows * columns * c.shape[0],), block=(plan.threads,), stream=stream
    )
