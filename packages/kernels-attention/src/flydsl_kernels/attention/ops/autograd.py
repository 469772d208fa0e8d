"""Whether a call has to go through an operator of PyTorch."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["differentiable"]

__flydsl_internal__ = True  # errors are at the line of the caller


def differentiable(*arrays: Any) -> bool:
    """Return whether PyTorch has to see the call: to differentiate it, or to compile around it."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(arrays[0], torch.Tensor):
        return False
    if torch.compiler.is_compiling():
        return True
    wanted = any(isinstance(a, torch.Tensor) and a.requires_grad for a in arrays)
    return bool(wanted and torch.is_grad_enabled())
