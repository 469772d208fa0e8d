"""Public functions, one module per operation.

Each checks its arguments, asks `flydsl_kernels.norm.selection` for a plan and launches. To add one,
write a module here and list the function in `flydsl_kernels.norm` and its `registry`.
"""

from __future__ import annotations

from flydsl_kernels.norm.ops.fused_add import fused_add_layernorm, fused_add_rmsnorm
from flydsl_kernels.norm.ops.layernorm import layernorm
from flydsl_kernels.norm.ops.quantised import (
    fused_add_layernorm_quantised,
    fused_add_rmsnorm_quantised,
    layernorm_quantised,
    rmsnorm_quantised,
)
from flydsl_kernels.norm.ops.rmsnorm import rmsnorm
from flydsl_kernels.norm.ops.softmax import log_softmax, softmax

__all__ = [
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
