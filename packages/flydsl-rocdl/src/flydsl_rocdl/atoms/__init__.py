"""Copy and matrix operations of AMD GPUs, as frozen dataclasses with thread-value layouts.

`ATOMS` lists the classes by the prefix of their text form. To add an operation, write its class in
the module that fits, list it here, and give it a lowering in `flydsl_rocdl.passes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from flydsl.dialects.atoms import register
from flydsl_rocdl.atoms.buffers import BufferCopy
from flydsl_rocdl.atoms.memory import BufferAtomic, BufferCopyLDS, GlobalCopyLDS, LDSReadTrans
from flydsl_rocdl.atoms.mfma import MFMA
from flydsl_rocdl.atoms.wmma import WMMA

__all__ = [
    "ATOMS",
    "MFMA",
    "WMMA",
    "BufferAtomic",
    "BufferCopy",
    "BufferCopyLDS",
    "GlobalCopyLDS",
    "LDSReadTrans",
]

_COPIES = (BufferCopy, BufferAtomic, BufferCopyLDS, GlobalCopyLDS, LDSReadTrans)
ATOMS: Mapping[str, type] = MappingProxyType({cls.prefix: cls for cls in (*_COPIES, MFMA, WMMA)})
"""Operation classes by prefix."""

register(ATOMS.values())
