"""Announces the operations; imported by the plugin manager, so it stays light."""

from __future__ import annotations

from collections.abc import Sequence

from flydsl.plugins import hookimpl
from flydsl.plugins.payloads import KernelEntry

__all__ = ["flydsl_kernels"]

_SUMMARIES = {
    "fused_moe": "the experts of a layer from end to end",
    "moe_gemm1": "grouped product with gate and gated weights, and the activation",
    "moe_gemm2": "grouped product and weighted sum per token",
    "moe_permute": "rows of tokens copied to the order of their experts",
    "moe_quantise": "activations in the numbers of a format, with scales",
    "moe_reduce": "sum of the rows of a token's experts",
    "moe_sort": "pairs of token and expert in the order of experts, padded to blocks",
    "moe_unpermute": "weighted sum of rows in the order of experts, per token",
    "prepare_experts": "weights of experts in the order of the grouped products",
    "topk_gating": "the best experts of every token and their weights",
}


@hookimpl
def flydsl_kernels() -> Sequence[KernelEntry]:
    """Announce every operation."""
    return tuple(
        KernelEntry(name, "moe", f"flydsl_kernels.moe:{name}", (), summary)
        for name, summary in _SUMMARIES.items()
    )
