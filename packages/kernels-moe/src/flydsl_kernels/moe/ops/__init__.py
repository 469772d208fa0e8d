"""The public functions; to add one, see a neighbour and `registry`."""

from __future__ import annotations

from flydsl_kernels.moe.ops.fused import fused_moe
from flydsl_kernels.moe.ops.gating import topk_gating
from flydsl_kernels.moe.ops.ordering import Sorting
from flydsl_kernels.moe.ops.products import moe_gemm1, moe_gemm2
from flydsl_kernels.moe.ops.quantised import moe_quantise
from flydsl_kernels.moe.ops.rows import moe_permute, moe_reduce, moe_unpermute
from flydsl_kernels.moe.ops.sorting import moe_sort

__all__ = [
    "Sorting",
    "fused_moe",
    "moe_gemm1",
    "moe_gemm2",
    "moe_permute",
    "moe_quantise",
    "moe_reduce",
    "moe_sort",
    "moe_unpermute",
    "topk_gating",
]
