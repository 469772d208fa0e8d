"""Mixture of experts: public functions on NumPy arrays and PyTorch tensors.

Modules: `problem` states an operation and checks it, `selection` chooses a configuration, `device`
has the kernel bodies, `ops` the public functions, `registry` announces them to FlyDSL. Parts that
other families need too are in `flydsl_rocdl.kernels`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flydsl.deferred import imported_from

__all__ = [
    "Activation",
    "ExpertWeights",
    "Sorting",
    "fused_moe",
    "moe_gemm1",
    "moe_gemm2",
    "moe_permute",
    "moe_quantise",
    "moe_reduce",
    "moe_sort",
    "moe_unpermute",
    "prepare_experts",
    "topk_gating",
]

if TYPE_CHECKING:
    from flydsl_kernels.moe.experts import (
        ExpertWeights,
        prepare_experts,
    )
    from flydsl_kernels.moe.ops import (
        Sorting,
        fused_moe,
        moe_gemm1,
        moe_gemm2,
        moe_permute,
        moe_quantise,
        moe_reduce,
        moe_sort,
        moe_unpermute,
        topk_gating,
    )
    from flydsl_kernels.moe.plans import (
        Activation,
    )

# Where each name is: the plugin manager imports this package to list its operations, and nothing
# else is needed for that.
_PLACES = {
    "ExpertWeights": "flydsl_kernels.moe.experts",
    "prepare_experts": "flydsl_kernels.moe.experts",
    "Sorting": "flydsl_kernels.moe.ops",
    "fused_moe": "flydsl_kernels.moe.ops",
    "moe_gemm1": "flydsl_kernels.moe.ops",
    "moe_gemm2": "flydsl_kernels.moe.ops",
    "moe_permute": "flydsl_kernels.moe.ops",
    "moe_quantise": "flydsl_kernels.moe.ops",
    "moe_reduce": "flydsl_kernels.moe.ops",
    "moe_sort": "flydsl_kernels.moe.ops",
    "moe_unpermute": "flydsl_kernels.moe.ops",
    "topk_gating": "flydsl_kernels.moe.ops",
    "Activation": "flydsl_kernels.moe.plans",
}

__getattr__ = imported_from(globals(), _PLACES)
