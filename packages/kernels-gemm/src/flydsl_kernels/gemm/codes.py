"""Stable error codes of this family, 910 to 939; `flydsl.diagnostics` explains the scheme."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["CODES"]

CODES: Mapping[str, str] = MappingProxyType(
    {
        "FLY-C930": "A product with preshuffled weights cannot have this configuration.",
        "FLY-C931": "Tiles of a product with preshuffled weights do not fit the LDS.",
    }
)
