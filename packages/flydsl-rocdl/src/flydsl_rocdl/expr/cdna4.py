"""What is specific to CDNA4."""

from __future__ import annotations

from flydsl_rocdl.expr.waits import s_waitcnt

__all__ = ["s_waitcnt"]
