"""Scalar registers by the number that operands give them, on every architecture."""

from __future__ import annotations

__all__ = ["EXEC", "M0", "NULL", "SCC", "VCC"]

VCC = 106
M0 = 124
NULL = 125
EXEC = 126
SCC = 253
