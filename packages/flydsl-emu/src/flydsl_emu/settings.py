"""Settings of the emulator."""

from __future__ import annotations

from pathlib import Path

from flydsl.config import Setting, parsers, setting

__all__ = [
    "CACHE_DIR",
    "DEVICES",
    "LLVM_MCA",
    "SANITIZE",
    "SANITIZE_ACTION",
    "STEP_LIMIT",
    "THREADS",
    "TIER",
]

STEP_LIMIT: Setting[int] = setting(
    "FLYDSL_EMU_STEP_LIMIT",
    parsers.integer(1),
    20_000_000_000,
    "wave-instructions that one emulated launch may execute",
)
DEVICES: Setting[int] = setting(
    "FLYDSL_EMU_DEVICES", parsers.integer(1, 64), 1, "number of emulated devices"
)
SANITIZE: Setting[tuple[str, ...]] = setting(
    "FLYDSL_SANITIZE",
    parsers.names,
    (),
    "checks of emulated launches: all, or some of wait, race, init, oob, barrier",
)
SANITIZE_ACTION: Setting[str] = setting(
    "FLYDSL_SANITIZE_ACTION",
    parsers.choice("raise", "warn"),
    "raise",
    "what findings of FLYDSL_SANITIZE do at the launch",
)
TIER: Setting[str] = setting(
    "FLYDSL_EMU_TIER",
    parsers.choice("auto", "numpy", "jit"),
    "auto",
    "how kernels run: interpreted on numpy arrays, compiled for the host, or as their size asks",
)
THREADS: Setting[int] = setting(
    "FLYDSL_EMU_THREADS",
    parsers.integer(0, 256),
    0,
    "host threads that run the workgroups of a compiled kernel; 0 for one a processor",
)
CACHE_DIR: Setting[Path] = setting(
    "FLYDSL_EMU_CACHE_DIR",
    parsers.path,
    Path("~/.cache/flydsl/emulator").expanduser(),
    "where compiled kernels of the emulator are kept",
)
LLVM_MCA: Setting[Path | None] = setting(
    "FLYDSL_EMU_LLVM_MCA",
    parsers.path,
    None,
    "llvm-mca to analyse loops with; default: one on the path",
)
