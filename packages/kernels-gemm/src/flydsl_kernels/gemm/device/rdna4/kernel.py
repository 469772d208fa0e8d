"""The kernel of products of 8-bit floats on RDNA4, and the launchers of a plan."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_kernels.gemm.device.preshuffle.checked import CheckedLauncher
from flydsl_kernels.gemm.device.rdna4.plan import THREADS, Rdna4Plan
from flydsl_kernels.gemm.device.rdna4.sizes import check_fixed, require_rdna4
from flydsl_kernels.gemm.device.rdna4.tile import RdnaTile, corner_of, store
from flydsl_rocdl.kernels.pipelining import pipelined

__all__ = ["fixed_launcher", "rdna4_kernel", "rdna4_launcher"]


@flyc.kernel
def rdna4_kernel(
    C: fx.Tensor, A: fx.Tensor, B: fx.Tensor, ScaleA: fx.Tensor, ScaleB: fx.Tensor,
    Bias: fx.Tensor, M: fx.Int32, plan: fx.Constexpr[Rdna4Plan],
) -> None:  # fmt: skip
    """Make one tile of C = epilogue(A B)."""
    require_rdna4()
    corner = corner_of(plan, M)
    tile = RdnaTile(plan, A.iter, B.iter, M, corner)
    state = pipelined(
        plan.k // plan.tile_k, tile.run, tile.start(), stages=max(2, plan.k_unroll), ahead=1
    )
    store(plan, state[0], C.iter, (ScaleA, ScaleB, Bias), M, corner)


@lru_cache(maxsize=256)
def rdna4_launcher(plan: Rdna4Plan) -> Any:
    """Return the launcher of a plan for any M: (C, A, B, scale_a, scale_b, bias, M, stream)."""

    @flyc.jit
    def launch(
        C: fx.Tensor, A: fx.Tensor, B: fx.Tensor, scale_a: fx.Tensor, scale_b: fx.Tensor,
        bias: fx.Tensor, M: fx.Int32, stream: fx.Stream,
    ) -> None:  # fmt: skip
        groups = (M + (plan.tile_m - 1)) // plan.tile_m * plan.tiles_n
        rdna4_kernel(C, A, B, scale_a, scale_b, bias, M, plan).launch(
            grid=(groups, 1, 1), block=(THREADS, 1, 1), stream=stream
        )

    return launch


@lru_cache(maxsize=256)
def fixed_launcher(plan: Rdna4Plan, rows: int) -> Any:
    """Return the launcher of a plan for one M: (c, a, b_shuf, sa, sb, stream)."""

    def launch(
        c: fx.Tensor, a: fx.Tensor, b_shuf: fx.Tensor, sa: fx.Tensor, sb: fx.Tensor,
        stream: fx.Stream,
    ) -> None:  # fmt: skip
        groups = -(-rows // plan.tile_m) * plan.tiles_n
        rdna4_kernel(c, a, b_shuf, sa, sb, sb, rows, plan).launch(
            grid=(groups, 1, 1), block=(THREADS, 1, 1), stream=stream
        )

    return CheckedLauncher(launch, partial(check_fixed, plan, rows))
