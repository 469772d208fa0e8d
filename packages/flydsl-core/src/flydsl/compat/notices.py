"""The warning that legacy names give, at the user's line."""

from __future__ import annotations

import sys
import warnings

from flydsl.diagnostics import is_framework_module

__all__ = ["legacy"]


def legacy(name: str, instead: str) -> None:
    """Warn that `name` is kept for existing kernels only.

    Args:
        name: What was used, as the user spells it.
        instead: What to write now.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not is_framework_module(module) and not module.startswith("importlib"):
            break
        frame = frame.f_back
    warnings.warn_explicit(
        f"{name} is kept for existing kernels; write {instead}",
        DeprecationWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )
