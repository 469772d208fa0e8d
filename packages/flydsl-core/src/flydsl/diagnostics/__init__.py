"""Where the user's code is, what each error code means, and our warning categories.

Modules: `frames` (user frames and locations), `codes` (the catalogue of error codes),
`categories` (warnings). To add an error code, pick an unused number, raise with it and add its
meaning to `codes.CODES`; a test compares the two.
"""

from __future__ import annotations

from flydsl.diagnostics.categories import FlyDSLWarning, PerformanceWarning, PluginWarning
from flydsl.diagnostics.codes import CODES, explain
from flydsl.diagnostics.frames import (
    at_user_line,
    error_location,
    function_location,
    is_framework_module,
    is_user_frame,
    user_location,
    user_locations,
)

__all__ = [
    "CODES",
    "FlyDSLWarning",
    "PerformanceWarning",
    "PluginWarning",
    "at_user_line",
    "error_location",
    "explain",
    "function_location",
    "is_framework_module",
    "is_user_frame",
    "user_location",
    "user_locations",
]
