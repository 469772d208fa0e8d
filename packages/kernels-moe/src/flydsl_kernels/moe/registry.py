"""Announces the operations; imported by the plugin manager, so it stays light."""

from __future__ import annotations

from collections.abc import Sequence

from flydsl.plugins import hookimpl
from flydsl.plugins.payloads import KernelEntry

__all__ = ["flydsl_kernels"]

_SUMMARIES = {
    "moe_permute": "rows of tokens copied to the order of their experts",
    "moe_reduce": "sum of the rows of a token's experts",
    "moe_sort": "pairs of token and expert in the order of experts, padded to blocks",
    "moe_unpermute": "weighted sum of rows in the order of experts, per token",
    "topk_gating": "the best experts of every token and their weights",
}


@hookimpl
def flydsl_kernels() -> Sequence[KernelEntry]:
    """Announce every operation."""
    return tuple(
        KernelEntry(name, "moe", f"flydsl_kernels.moe:{name}", (), summary)
        for name, summary in _SUMMARIES.items()
    )
