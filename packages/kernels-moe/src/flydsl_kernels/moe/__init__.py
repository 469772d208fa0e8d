"""Mixture of experts: public functions on NumPy arrays and PyTorch tensors.

Modules: `problem` states an operation and checks it, `selection` chooses a configuration, `device`
has the kernel bodies, `ops` the public functions, `registry` announces them to FlyDSL. Parts that
other families need too are in `flydsl_rocdl.kernels`.
"""

from __future__ import annotations

from flydsl_kernels.moe.experts import ExpertWeights, prepare_experts
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
from flydsl_kernels.moe.plans import Activation

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
