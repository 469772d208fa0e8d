"""Stable error codes of this family, 940 to 969; `flydsl.diagnostics` explains the scheme."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["CODES"]

CODES: Mapping[str, str] = MappingProxyType({})
