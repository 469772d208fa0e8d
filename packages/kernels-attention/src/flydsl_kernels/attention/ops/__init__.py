"""The public functions; to add one, see a neighbour and `registry`."""

from __future__ import annotations

from flydsl_kernels.attention.ops.flash_attention import flash_attention
from flydsl_kernels.attention.ops.mla import mla_decode
from flydsl_kernels.attention.ops.paged_decode import paged_attention_decode
from flydsl_kernels.attention.ops.qk_norm import qk_norm_rope_quant
from flydsl_kernels.attention.ops.rope import rope
from flydsl_kernels.attention.ops.rope_cache import fused_rope_kv_cache

__all__ = [
    "flash_attention",
    "fused_rope_kv_cache",
    "mla_decode",
    "paged_attention_decode",
    "qk_norm_rope_quant",
    "rope",
]
