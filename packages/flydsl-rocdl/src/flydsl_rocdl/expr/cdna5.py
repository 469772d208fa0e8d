"""What is specific to CDNA5."""

from __future__ import annotations

from flydsl_rocdl.atoms import memory
from flydsl_rocdl.atoms.tensor import TDM
from flydsl_rocdl.expr.copies import GlobalLoadAsyncLDS, GlobalLoadTrans
from flydsl_rocdl.expr.matrix import WMMAScale
from flydsl_rocdl.expr.tensor_atoms import make_tdm_atom
from flydsl_rocdl.expr.tensor_tiling import (
    TensorLoad,
    TensorStore,
    make_tiled_tdm_atom,
    tdm_partition,
)

__all__ = [
    "TDM",
    "GlobalLoadAsyncLDS",
    "GlobalLoadTrans",
    "LDSReadTrans",
    "LDSReadTrans8_64b",
    "LDSReadTrans16_128b",
    "TensorLoad",
    "TensorStore",
    "WMMAScale",
    "make_tdm_atom",
    "make_tiled_tdm_atom",
    "tdm_partition",
]


def LDSReadTrans(granularity: int, bits: int) -> memory.LDSReadTrans:  # noqa: N802
    """Return the transposing read of `bits` bits per lane in values of `granularity` bits."""
    return memory.LDSReadTrans(granularity, bits, 8)


def LDSReadTrans8_64b() -> memory.LDSReadTrans:  # noqa: N802
    """Return ``LDSReadTrans(8, 64)``."""
    return LDSReadTrans(8, 64)


def LDSReadTrans16_128b() -> memory.LDSReadTrans:  # noqa: N802
    """Return ``LDSReadTrans(16, 128)``."""
    return LDSReadTrans(16, 128)
