"""Attention: public functions on NumPy arrays and PyTorch tensors.

Modules: `rotary` states rotations and divides them among threads, `device` has the kernel bodies,
`ops` the public functions, `registry` announces them to FlyDSL. Parts that other families need too
are in `flydsl_rocdl.kernels`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flydsl.deferred import imported_from

__all__ = [
    "flash_attention",
    "fused_rope_kv_cache",
    "mla_decode",
    "paged_attention_decode",
    "qk_norm_rope_quant",
    "rope",
]

if TYPE_CHECKING:
    from flydsl_kernels.attention.ops import (
        flash_attention,
        fused_rope_kv_cache,
        mla_decode,
        paged_attention_decode,
        qk_norm_rope_quant,
        rope,
    )

# Where each name is: the plugin manager imports this package to list its operations, and nothing
# else is needed for that.
_PLACES = {
    "flash_attention": "flydsl_kernels.attention.ops",
    "fused_rope_kv_cache": "flydsl_kernels.attention.ops",
    "mla_decode": "flydsl_kernels.attention.ops",
    "paged_attention_decode": "flydsl_kernels.attention.ops",
    "qk_norm_rope_quant": "flydsl_kernels.attention.ops",
    "rope": "flydsl_kernels.attention.ops",
}

__getattr__ = imported_from(globals(), _PLACES)
