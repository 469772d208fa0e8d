"""What is specific to CDNA5."""

from __future__ import annotations

from flydsl_rocdl.atoms.tensor import TDM
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
    "TensorLoad",
    "TensorStore",
    "WMMAScale",
    "make_tdm_atom",
    "make_tiled_tdm_atom",
    "tdm_partition",
]
