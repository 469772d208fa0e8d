"""Announces the operations; imported by the plugin manager, so it stays light."""

from __future__ import annotations

from collections.abc import Sequence

from flydsl.plugins import hookimpl
from flydsl.plugins.payloads import KernelEntry

__all__ = ["flydsl_kernels"]

_SUMMARIES = {
    "fused_add_layernorm": "sum of two matrices, and its rows normalised to mean 0, variance 1",
    "fused_add_layernorm_quantised": "sum of two matrices, and its rows normalised, in 8 bits",
    "fused_add_rmsnorm_quantised": "sum of two matrices, and its rows over their norm, in 8 bits",
    "fused_add_rmsnorm": "sum of two matrices, and its rows divided by their root mean square",
    "layernorm": "rows normalised to mean 0 and variance 1",
    "layernorm_quantised": "rows normalised to mean 0 and variance 1, in 8 bits with scales",
    "log_softmax": "logarithm of the softmax of rows",
    "rmsnorm": "rows divided by their root mean square",
    "rmsnorm_quantised": "rows divided by their root mean square, in 8 bits with scales",
    "softmax": "softmax of rows",
}


@hookimpl
def flydsl_kernels() -> Sequence[KernelEntry]:
    """Announce every operation; the bodies are neutral, so every target may run them."""
    return tuple(
        KernelEntry(name, "norm", f"flydsl_kernels.norm:{name}", (), summary)
        for name, summary in _SUMMARIES.items()
    )
