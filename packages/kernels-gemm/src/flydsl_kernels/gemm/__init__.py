"""Matrix products: public functions on NumPy arrays and PyTorch tensors.

Modules: `problem` states an operation and checks it, `planning` lists configurations and chooses
one, `rules` says which are legal, `device` has the kernel bodies, `ops` the public functions,
`registry` announces them to FlyDSL. Parts that other families need too are in
`flydsl_rocdl.kernels`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flydsl_kernels.gemm.ops import gemm, grouped_gemm
from flydsl_kernels.gemm.plan import GemmConfig
from flydsl_kernels.gemm.planning import Candidate, GemmChoice, plan_gemm
from flydsl_kernels.gemm.problem import GemmProblem, Operand, Scaling
from flydsl_rocdl.kernels.preshuffle import PreshuffledWeight, preshuffle_b

__all__ = [
    "Candidate",
    "GemmChoice",
    "GemmConfig",
    "GemmProblem",
    "Operand",
    "PreshuffledWeight",
    "Scaling",
    "compile_fp8_gemm",
    "compile_mx_gemm",
    "compile_preshuffle_gemm",
    "gemm",
    "grouped_gemm",
    "launch_gemm",
    "plan_gemm",
    "preshuffle_b",
]

if TYPE_CHECKING:
    from flydsl_kernels.gemm.device.preshuffle.launch import (
        compile_mx_gemm,
        compile_preshuffle_gemm,
        launch_gemm,
    )
    from flydsl_kernels.gemm.device.rdna4.launch import compile_fp8_gemm


def __getattr__(name: str) -> Any:
    """Return a builder of a kernel, whose module imports the compiler."""
    if name in ("compile_mx_gemm", "compile_preshuffle_gemm", "launch_gemm"):
        from flydsl_kernels.gemm.device.preshuffle import launch

        return getattr(launch, name)
    if name == "compile_fp8_gemm":
        from flydsl_kernels.gemm.device.rdna4.launch import compile_fp8_gemm

        return compile_fp8_gemm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
