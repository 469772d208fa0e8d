"""Announces the operations; imported by the plugin manager, so it stays light."""

from __future__ import annotations

from collections.abc import Sequence

from flydsl.plugins import hookimpl
from flydsl.plugins.payloads import KernelEntry

__all__ = ["flydsl_kernels"]

_SUMMARIES = {
    "flash_attention": "attention of queries to keys and values, dense, packed or paged",
    "fused_rope_kv_cache": "queries and keys rotated, keys and values put into a paged cache",
    "mla_decode": "attention of a few queries per sequence to a paged cache of latent tokens",
    "paged_attention_decode": "attention of a few queries per sequence to a paged cache",
    "qk_norm_rope_quant": "heads normalised, rotated and perhaps quantised",
    "rope": "heads with pairs of elements turned by the angles of their positions",
}


@hookimpl
def flydsl_kernels() -> Sequence[KernelEntry]:
    """Announce every operation."""
    return tuple(
        KernelEntry(name, "attention", f"flydsl_kernels.attention:{name}", (), summary)
        for name, summary in _SUMMARIES.items()
    )
