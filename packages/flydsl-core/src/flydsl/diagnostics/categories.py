"""Warning categories, so that programs can filter ours as a whole or by kind."""

from __future__ import annotations

__all__ = ["FlyDSLWarning", "PerformanceWarning", "PluginWarning"]


class FlyDSLWarning(UserWarning):
    """Base of all warnings issued by FlyDSL."""


class PerformanceWarning(FlyDSLWarning):
    """The program is correct but will run slower than it looks."""


class PluginWarning(FlyDSLWarning):
    """An installed plugin cannot be used, and nothing that was asked for needs it."""
