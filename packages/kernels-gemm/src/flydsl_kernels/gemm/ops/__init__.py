"""The public functions; to add one, see a neighbour and `registry`."""

from __future__ import annotations

from flydsl_kernels.gemm.ops.gemm import gemm

__all__ = ["gemm"]
