"""The alias table (see the package's docstring)."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ALIASES"]

ALIASES: Mapping[str, str] = {
    "flydsl._mlir": "mlir",
}
