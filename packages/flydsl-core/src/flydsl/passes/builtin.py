"""The core's hook that announces its passes."""

from __future__ import annotations

from collections.abc import Mapping

from flydsl.passes import PASSES
from flydsl.plugins import hookimpl

__all__ = ["flydsl_passes"]


@hookimpl
def flydsl_passes() -> Mapping[str, str]:
    """Return the target-neutral passes."""
    return PASSES
