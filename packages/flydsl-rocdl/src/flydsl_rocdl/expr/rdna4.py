"""What is specific to RDNA4."""

from __future__ import annotations

from flydsl_rocdl.expr.copies import GlobalLoadTrans
from flydsl_rocdl.expr.waits import s_waitcnt

__all__ = ["GlobalLoadTrans", "s_waitcnt"]
