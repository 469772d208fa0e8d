"""The MODE register: rounding, denormals and clamping of float instructions."""

from __future__ import annotations

__all__ = ["DEFAULT_MODE"]

DEFAULT_MODE = 0x3F0
"""Round to nearest even, keep denormals, DX10_CLAMP and IEEE set: how compute kernels start."""
