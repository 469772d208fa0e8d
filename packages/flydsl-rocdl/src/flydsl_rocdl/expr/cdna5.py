"""What is specific to CDNA5."""

from __future__ import annotations

from flydsl_rocdl.atoms.tensor import TDM
from flydsl_rocdl.expr.matrix import WMMAScale
from flydsl_rocdl.expr.tensor_atoms import make_tdm_atom

__all__ = ["TDM", "WMMAScale", "make_tdm_atom"]
