"""The public functions; to add one, see a neighbour and `registry`."""

from __future__ import annotations

__all__: list[str] = []
