"""The ``fx.toy`` namespace: enough to see that a plugin's namespace is served."""

from __future__ import annotations

from typing import Final

__all__ = ["WARP_SIZE"]

WARP_SIZE: Final = 1
"""Threads per warp of the toy target."""
