"""What is specific to CDNA4."""

from __future__ import annotations

from flydsl_rocdl.atoms import memory
from flydsl_rocdl.expr.copies import BufferLoadAsyncLDS, GlobalLoadAsyncLDS, LDSReadTrans
from flydsl_rocdl.expr.matrix import MFMA_Scale
from flydsl_rocdl.expr.waits import s_waitcnt
from flydsl_rocdl.expr.wrappers import cvt_sr_f32_to_bf16

__all__ = [
    "BufferLoadAsyncLDS",
    "BufferLoadAsyncLDS32b",
    "BufferLoadAsyncLDS96b",
    "BufferLoadAsyncLDS128b",
    "GlobalLoadAsyncLDS",
    "GlobalLoadAsyncLDS32b",
    "GlobalLoadAsyncLDS96b",
    "GlobalLoadAsyncLDS128b",
    "LDSReadTrans",
    "LDSReadTrans4_64b",
    "LDSReadTrans6_96b",
    "LDSReadTrans8_64b",
    "LDSReadTrans16_64b",
    "MFMA_Scale",
    "cvt_sr_f32_to_bf16",
    "s_waitcnt",
]


def BufferLoadAsyncLDS32b() -> memory.BufferCopyLDS:  # noqa: N802
    """Return ``BufferLoadAsyncLDS(32)``."""
    return BufferLoadAsyncLDS(32)


def BufferLoadAsyncLDS96b() -> memory.BufferCopyLDS:  # noqa: N802
    """Return ``BufferLoadAsyncLDS(96)``."""
    return BufferLoadAsyncLDS(96)


def BufferLoadAsyncLDS128b() -> memory.BufferCopyLDS:  # noqa: N802
    """Return ``BufferLoadAsyncLDS(128)``."""
    return BufferLoadAsyncLDS(128)


def GlobalLoadAsyncLDS32b() -> memory.GlobalCopyLDS:  # noqa: N802
    """Return ``GlobalLoadAsyncLDS(32)``."""
    return GlobalLoadAsyncLDS(32)


def GlobalLoadAsyncLDS96b() -> memory.GlobalCopyLDS:  # noqa: N802
    """Return ``GlobalLoadAsyncLDS(96)``."""
    return GlobalLoadAsyncLDS(96)


def GlobalLoadAsyncLDS128b() -> memory.GlobalCopyLDS:  # noqa: N802
    """Return ``GlobalLoadAsyncLDS(128)``."""
    return GlobalLoadAsyncLDS(128)


def LDSReadTrans4_64b() -> memory.LDSReadTrans:  # noqa: N802
    """Return ``LDSReadTrans(4, 64)``."""
    return LDSReadTrans(4, 64)


def LDSReadTrans6_96b() -> memory.LDSReadTrans:  # noqa: N802
    """Return ``LDSReadTrans(6, 96)``."""
    return LDSReadTrans(6, 96)


def LDSReadTrans8_64b() -> memory.LDSReadTrans:  # noqa: N802
    """Return ``LDSReadTrans(8, 64)``."""
    return LDSReadTrans(8, 64)


def LDSReadTrans16_64b() -> memory.LDSReadTrans:  # noqa: N802
    """Return ``LDSReadTrans(16, 64)``."""
    return LDSReadTrans(16, 64)
