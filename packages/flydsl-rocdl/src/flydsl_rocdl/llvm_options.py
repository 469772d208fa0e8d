"""AMDGPU options of LLVM that a kernel may set through ``llvm_options``, with their kinds.

All exist in LLVM 22; LLVM itself would accept a misspelt one without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

__all__ = ["LLVM_OPTIONS"]

LLVM_OPTIONS: Mapping[str, Literal["bool", "int", "str"]] = MappingProxyType(
    {
        "amdgpu-early-ifcvt": "bool",
        "amdgpu-early-inline-all": "bool",
        "amdgpu-igrouplp-exact-solver": "bool",
        "amdgpu-igrouplp-exact-solver-cutoff": "int",
        "amdgpu-kernarg-preload-count": "int",
        "amdgpu-limit-wave-threshold": "int",
        "amdgpu-load-store-vectorizer": "bool",
        "amdgpu-loop-prefetch": "bool",
        "amdgpu-max-memory-clause": "int",
        "amdgpu-membound-threshold": "int",
        "amdgpu-mfma-padding-ratio": "int",
        "amdgpu-mfma-vgpr-form": "bool",
        "amdgpu-opt-vgpr-liverange": "bool",
        "amdgpu-reassign-regs": "bool",
        "amdgpu-scalarize-global-loads": "bool",
        "amdgpu-schedule-metric-bias": "int",
        "amdgpu-schedule-relaxed-occupancy": "bool",
        "amdgpu-sdwa-peephole": "bool",
        "amdgpu-set-wave-priority": "bool",
        "amdgpu-snop-padding": "int",
        "amdgpu-unroll-threshold-if": "int",
        "amdgpu-unroll-threshold-local": "int",
        "amdgpu-unroll-threshold-private": "int",
        "amdgpu-use-amdgpu-trackers": "bool",
        "amdgpu-waitcnt-forcezero": "bool",
    }
)
"""Option name without dashes to the kind of its value."""
