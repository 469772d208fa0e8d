"""The public functions; to add one, see a neighbour and `registry`."""

from __future__ import annotations

from flydsl_kernels.attention.ops.flash_attention import flash_attention

__all__ = ["flash_attention"]
