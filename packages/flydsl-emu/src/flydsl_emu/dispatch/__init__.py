"""Code objects in memory and launches: `LoadedCode` has `LoadedKernel`s, which choose a tier."""

from __future__ import annotations

from flydsl_emu.dispatch.loaded import LoadedCode, LoadedKernel

__all__ = ["LoadedCode", "LoadedKernel"]
