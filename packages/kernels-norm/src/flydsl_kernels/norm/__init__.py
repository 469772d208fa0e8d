"""Row kernels: rmsnorm, layernorm, softmax and log_softmax, and normalisation of a sum.

Functions take NumPy arrays and PyTorch tensors, on a GPU or (in host memory) in the emulator.
Modules: `problem` states an operation and checks it, `selection` divides rows among threads,
`device` has the kernel bodies, `ops` the public functions, `registry` announces them to FlyDSL. To
add an operation, see `device` and `ops`.
"""

from __future__ import annotations

from flydsl_kernels.norm.formats import QuantFormat
from flydsl_kernels.norm.ops import (
    fused_add_layernorm,
    fused_add_layernorm_quantised,
    fused_add_rmsnorm,
    fused_add_rmsnorm_quantised,
    layernorm,
    layernorm_quantised,
    log_softmax,
    rmsnorm,
    rmsnorm_quantised,
    softmax,
)

__all__ = [
    "QuantFormat",
    "fused_add_layernorm",
    "fused_add_layernorm_quantised",
    "fused_add_rmsnorm",
    "fused_add_rmsnorm_quantised",
    "layernorm",
    "layernorm_quantised",
    "log_softmax",
    "rmsnorm",
    "rmsnorm_quantised",
    "softmax",
]
