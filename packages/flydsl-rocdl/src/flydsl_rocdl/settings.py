"""Settings of the AMD target."""

from __future__ import annotations

from pathlib import Path

from flydsl.config import Setting, parsers, setting

__all__ = [
    "HIP_HOLDS_GIL",
    "HIP_HOST_TENSORS",
    "HIP_LIBRARY",
    "LLD",
    "LLVM_MC",
    "ROCM_PATH",
    "VISIBLE_DEVICES",
]

LLD: Setting[Path | None] = setting(
    "FLYDSL_ROCDL_LLD", parsers.path, None, "external ld.lld to link code objects with"
)
LLVM_MC: Setting[Path | None] = setting(
    "FLYDSL_ROCDL_LLVM_MC",
    parsers.path,
    None,
    "llvm-mc with the AMDGPU assembler, for kernels with inline assembly",
)
VISIBLE_DEVICES: Setting[tuple[str, ...]] = setting(
    "HIP_VISIBLE_DEVICES",
    parsers.names,
    (),
    "AMD devices that HIP programs may use; the first one is the current device",
    aliases=("ROCR_VISIBLE_DEVICES",),
)
HIP_LIBRARY: Setting[Path | None] = setting(
    "FLYDSL_HIP_LIBRARY",
    parsers.path,
    None,
    "the libamdhip64 to use instead of the one that is found",
)
ROCM_PATH: Setting[Path | None] = setting(
    "ROCM_PATH",
    parsers.path,
    None,
    "a ROCm installation to look for libamdhip64 in",
    ("ROCM_HOME",),
)
HIP_HOST_TENSORS: Setting[bool] = setting(
    "FLYDSL_HIP_HOST_TENSORS",
    parsers.boolean,
    False,
    "run calls with host tensors on the GPU, which must be able to access host memory (an APU, or "
    "XNACK)",
)
HIP_HOLDS_GIL: Setting[bool] = setting(
    "FLYDSL_HIP_HOLDS_GIL",
    parsers.boolean,
    False,
    "launch without letting other Python threads run: faster where several threads launch, but a "
    "deadlock if a full queue waits for another thread (several GPUs in one process, Python "
    "callbacks)",
)
