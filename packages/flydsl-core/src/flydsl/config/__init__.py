"""Settings and compile options; the only part of the core that reads the environment.

Modules: `parsers` (text to typed value), `settings` (declaring, reading and overriding), `core`
(the core's own settings), `options` (`CompileOptions`, frozen once per compile).

To add a setting, declare it at module level next to the code that uses it,
``LIMIT = setting("FLYDSL_EMU_LIMIT", parsers.integer(low=1), 8, "what it does")``, and read
``LIMIT.get()``. If it changes the code produced, it belongs in `CompileOptions` as well.
"""

from __future__ import annotations

from flydsl.config import core, parsers
from flydsl.config.options import FASTMATH_FLAGS, CompileOptions, compile_options
from flydsl.config.settings import (
    Setting,
    VariableReport,
    catalogue,
    check_all,
    report,
    scope,
    setting,
    watch,
)

__all__ = [
    "FASTMATH_FLAGS",
    "CompileOptions",
    "Setting",
    "VariableReport",
    "catalogue",
    "check_all",
    "compile_options",
    "core",
    "parsers",
    "report",
    "scope",
    "setting",
    "watch",
]
