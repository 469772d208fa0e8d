"""Matrix products: public functions on NumPy arrays and PyTorch tensors.

Modules: `problem` states an operation and checks it, `planning` lists configurations and chooses
one, `rules` says which are legal, `device` has the kernel bodies, `ops` the public functions,
`registry` announces them to FlyDSL. Parts that other families need too are in
`flydsl_rocdl.kernels`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flydsl.deferred import imported_from

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
    from flydsl_kernels.gemm.device.rdna4.launch import (
        compile_fp8_gemm,
    )
    from flydsl_kernels.gemm.ops import (
        gemm,
        grouped_gemm,
    )
    from flydsl_kernels.gemm.plan import (
        GemmConfig,
    )
    from flydsl_kernels.gemm.planning import (
        Candidate,
        GemmChoice,
        plan_gemm,
    )
    from flydsl_kernels.gemm.problem import (
        GemmProblem,
        Operand,
        Scaling,
    )
    from flydsl_rocdl.kernels.preshuffle import (
        PreshuffledWeight,
        preshuffle_b,
    )

# Where each name is: the plugin manager imports this package to list its operations, and nothing
# else is needed for that.
_PLACES = {
    "gemm": "flydsl_kernels.gemm.ops",
    "grouped_gemm": "flydsl_kernels.gemm.ops",
    "GemmConfig": "flydsl_kernels.gemm.plan",
    "Candidate": "flydsl_kernels.gemm.planning",
    "GemmChoice": "flydsl_kernels.gemm.planning",
    "plan_gemm": "flydsl_kernels.gemm.planning",
    "GemmProblem": "flydsl_kernels.gemm.problem",
    "Operand": "flydsl_kernels.gemm.problem",
    "Scaling": "flydsl_kernels.gemm.problem",
    "PreshuffledWeight": "flydsl_rocdl.kernels.preshuffle",
    "preshuffle_b": "flydsl_rocdl.kernels.preshuffle",
    "compile_mx_gemm": "flydsl_kernels.gemm.device.preshuffle.launch",
    "compile_preshuffle_gemm": "flydsl_kernels.gemm.device.preshuffle.launch",
    "launch_gemm": "flydsl_kernels.gemm.device.preshuffle.launch",
    "compile_fp8_gemm": "flydsl_kernels.gemm.device.rdna4.launch",
}

__getattr__ = imported_from(globals(), _PLACES)
