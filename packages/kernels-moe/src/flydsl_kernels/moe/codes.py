"""Stable error codes of this family, 970 to 999; `flydsl.diagnostics` explains the scheme."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["CODES"]

CODES: Mapping[str, str] = MappingProxyType(
    {
        "FLY-C970": "There are more tokens than the kernels can number.",
        "FLY-C971": "The number of experts, or of experts per token, is out of range.",
        "FLY-C972": "Gating does not know this type of logits, scoring or factor.",
        "FLY-C973": "The groups of experts do not divide them, or too many are chosen.",
        "FLY-C974": "Sorted entries do not come in blocks of this size.",
        "FLY-C975": "Weights, formats or orders do not belong together.",
        "FLY-C976": "Scales are missing, or have another shape or type than the format needs.",
        "FLY-C977": "The architecture or the product does not have this format or type.",
        "FLY-C978": "An operand of a grouped product is too large.",
        "FLY-C979": "Rows of this length are not quantised.",
        "FLY-U970": "An array has another number of axes than the operation needs.",
        "FLY-U972": "A gradient is asked for that mixtures of experts do not have.",
        "FLY-U971": "An array to write to does not have adjacent elements.",
    }
)
