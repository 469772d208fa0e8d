"""What is specific to CDNA5."""

from __future__ import annotations

from flydsl_rocdl.expr.matrix import WMMAScale

__all__ = ["WMMAScale"]
