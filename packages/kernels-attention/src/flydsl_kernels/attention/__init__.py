"""Attention: public functions on NumPy arrays and PyTorch tensors.

Modules: `rotary` states rotations and divides them among threads, `device` has the kernel bodies,
`ops` the public functions, `registry` announces them to FlyDSL. Parts that other families need too
are in `flydsl_rocdl.kernels`.
"""

from __future__ import annotations

from flydsl_kernels.attention.ops import (
    flash_attention,
    fused_rope_kv_cache,
    mla_decode,
    paged_attention_decode,
    qk_norm_rope_quant,
    rope,
)

__all__ = [
    "flash_attention",
    "fused_rope_kv_cache",
    "mla_decode",
    "paged_attention_decode",
    "qk_norm_rope_quant",
    "rope",
]
