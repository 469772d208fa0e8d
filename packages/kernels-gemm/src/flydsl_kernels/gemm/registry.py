"""Announces the operations; imported by the plugin manager, so it stays light."""

from __future__ import annotations

from collections.abc import Sequence

from flydsl.plugins import hookimpl
from flydsl.plugins.payloads import KernelEntry

__all__ = ["flydsl_kernels"]

_SUMMARIES = {
    "gemm": "products of matrices or batches, with scales, bias, activation and residual",
}


@hookimpl
def flydsl_kernels() -> Sequence[KernelEntry]:
    """Announce every operation."""
    return tuple(
        KernelEntry(name, "gemm", f"flydsl_kernels.gemm:{name}", (), summary)
        for name, summary in _SUMMARIES.items()
    )
