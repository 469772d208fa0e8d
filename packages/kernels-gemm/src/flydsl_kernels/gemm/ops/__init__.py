"""The public functions; to add one, see a neighbour and `registry`."""

from __future__ import annotations

from flydsl_kernels.gemm.ops.gemm import gemm
from flydsl_kernels.gemm.ops.grouped import grouped_gemm

__all__ = ["gemm", "grouped_gemm"]
