"""Whether PyTorch is compiling around a call."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["compiling"]

__flydsl_internal__ = True  # errors are at the line of the caller


def compiling(array: Any) -> bool:
    """Return whether the call is traced by ``torch.compile``, which needs an operator."""
    torch = sys.modules.get("torch")
    return bool(
        torch is not None and isinstance(array, torch.Tensor) and torch.compiler.is_compiling()
    )
