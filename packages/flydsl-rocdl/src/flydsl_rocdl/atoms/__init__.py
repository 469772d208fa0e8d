"""Copy and matrix operations of AMD GPUs, as frozen dataclasses with thread-value layouts.

`ATOMS` lists the classes by the prefix of their text form. To add an operation, write its class in
the module that fits, list it here, and give it a lowering in `flydsl_rocdl.passes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from flydsl.dialects.atoms import register
from flydsl_rocdl.atoms.buffers import BufferCopy
from flydsl_rocdl.atoms.memory import (
    BufferAtomic,
    BufferCopyLDS,
    GlobalCopyLDS,
    GlobalLoadTrans,
    LDSReadTrans,
)
from flydsl_rocdl.atoms.mfma import MFMA, SMFMAC, MFMA_Scale
from flydsl_rocdl.atoms.tensor import TDM, TiledTDM
from flydsl_rocdl.atoms.wmma import SWMMAC, WMMA, WMMAScale

__all__ = [
    "ATOMS",
    "MATRIX",
    "MFMA",
    "SMFMAC",
    "SWMMAC",
    "TDM",
    "WMMA",
    "BufferAtomic",
    "BufferCopy",
    "BufferCopyLDS",
    "GlobalCopyLDS",
    "GlobalLoadTrans",
    "LDSReadTrans",
    "MFMA_Scale",
    "TiledTDM",
    "WMMAScale",
]

_COPIES = (
    BufferCopy, BufferAtomic, BufferCopyLDS, GlobalCopyLDS, LDSReadTrans, GlobalLoadTrans, TDM,
    TiledTDM,
)  # fmt: skip
MATRIX = (MFMA, MFMA_Scale, SMFMAC, WMMA, WMMAScale, SWMMAC)
"""Classes of matrix operations."""

ATOMS: Mapping[str, type] = MappingProxyType({cls.prefix: cls for cls in (*_COPIES, *MATRIX)})
"""Operation classes by prefix."""

register(ATOMS.values())
