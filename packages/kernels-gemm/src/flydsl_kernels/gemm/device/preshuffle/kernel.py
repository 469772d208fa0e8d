"""The kernel of products with preshuffled weights, and the launcher of a plan."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.gemm.device.preshuffle.checked import CheckedLauncher, check_call
from flydsl_kernels.gemm.device.preshuffle.operands import WAVE
from flydsl_kernels.gemm.device.preshuffle.plan import THREADS, PreshufflePlan
from flydsl_kernels.gemm.device.preshuffle.results import finish
from flydsl_kernels.gemm.device.preshuffle.setup import PLAIN, body_of, place_of, steps_of
from flydsl_kernels.gemm.device.preshuffle.weighted import weighted_kernel, weighted_plan
from flydsl_rocdl.expr.access import amd_facts
from flydsl_rocdl.kernels.pipelining import pipelined

__all__ = ["preshuffle_kernel", "preshuffle_launcher"]


@flyc.kernel
def preshuffle_kernel(  # noqa: PLR0913, PLR0917
    C: fx.Tensor, A: fx.Tensor, B: fx.Tensor, ScaleA: fx.Tensor, ScaleB: fx.Tensor,
    Bias: fx.Tensor, M: fx.Int32, N: fx.Int32, plan: fx.Constexpr[PreshufflePlan],
) -> None:  # fmt: skip
    """Make one tile of C = epilogue(A B)."""
    place = place_of(plan, M, N)
    body = body_of(plan, (A.iter, B.iter, ScaleA.iter, ScaleB.iter), (M, N), place)
    acc = steps_of(plan, body, pipelined)
    extras = ScaleA, ScaleB, Bias
    finish(plan, acc, C.iter, extras, (M, N), place, body.stage.base, PLAIN)


@lru_cache(maxsize=256)
def preshuffle_launcher(plan: PreshufflePlan, waves_per_eu: Any = None) -> Any:
    """Return the launcher of a plan, the same one for the same arguments."""

    def launch(  # noqa: PLR0913, PLR0917
        C: fx.Tensor, A: fx.Tensor, B: fx.Tensor, scale_a: fx.Tensor, scale_b: fx.Tensor,
        bias: fx.Tensor, M: fx.Int32, N: fx.Int32, stream: fx.Stream,
    ) -> None:  # fmt: skip
        facts = amd_facts("preshuffle_kernel")
        rows, columns = (M + (plan.tile_m - 1)) // plan.tile_m, -(-plan.n // plan.tile_n)
        if fx.const_expr(facts.wave_size == WAVE):
            preshuffle_kernel(C, A, B, scale_a, scale_b, bias, M, N, plan).launch(
                grid=(rows, columns), block=(THREADS, 1, 1), stream=stream
            )
        else:
            weighted = weighted_plan(plan, facts.name)
            weighted_kernel(C, A, B, scale_a, scale_b, bias, M, weighted).launch(
                grid=(rows * columns,), block=(weighted.gemm.threads,), stream=stream
            )

    launcher = CheckedLauncher(launch, partial(check_call, plan))
    if waves_per_eu is not None:
        return flyc.compile[{"waves_per_eu": waves_per_eu}](launcher)
    return launcher
