"""Kernel bodies, in parts; to add one, write it here and call it from `ops`."""

from __future__ import annotations

__all__: list[str] = []
