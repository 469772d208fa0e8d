"""Attention: public functions on NumPy arrays and PyTorch tensors.

Modules: `problem` states an operation and checks it, `selection` chooses a configuration, `device`
has the kernel bodies, `ops` the public functions, `registry` announces them to FlyDSL. Parts that
other families need too are in `flydsl_rocdl.kernels`.
"""

from __future__ import annotations

from flydsl_kernels.attention.ops import flash_attention

__all__ = ["flash_attention"]
