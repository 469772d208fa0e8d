"""Products with preshuffled weights: which kernels multiply."""

from __future__ import annotations

from typing import Any

from flydsl.ext import arrays
from flydsl_kernels.gemm.ops.mx import by_wmma, run_mx
from flydsl_kernels.gemm.ops.product import Request
from flydsl_kernels.gemm.planning import facts_of
from flydsl_rocdl.kernels.preshuffle import PreshuffledWeight

__all__ = ["run_weights"]

__flydsl_internal__ = True  # errors are at the line of the caller


def run_weights(a: Any, weight: PreshuffledWeight, request: Request) -> Any:
    """Multiply by preshuffled weights without PyTorch's knowledge; see `gemm`."""
    if weight.scale_layout and by_wmma(facts_of(arrays.target_of(a))):
        return run_mx(a, weight, request)
    if weight.scale_layout:
        from flydsl_kernels.gemm.ops.scaled import run_scaled

        return run_scaled(a, weight, request)
    from flydsl_kernels.gemm.ops.preshuffled import run_preshuffled

    return run_preshuffled(a, weight, request)
