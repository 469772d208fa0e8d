"""AMD instruction-set emulator for FlyDSL.

* `codeobject` reads HSACO files, `decode` their instructions;
* `semantics` says what each opcode does, once, over a vector API;
* `execution` holds what tiers share, `numpy_tier` runs kernels on arrays, `dispatch` launches them;
* `report` tells what a launch executed, `debug` traces it and stops at breakpoints;
* `sanitizer` finds what is wrong with a kernel;
* `runtime` and `plugin` make it a FlyDSL device runtime.

Names below are imported on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flydsl_emu.debug import Trace, breakpoint_at, diff, trace, tracing
    from flydsl_emu.report import ExecutionReport, collect, last_report
    from flydsl_emu.runtime import emulator, sharing
    from flydsl_emu.sanitizer import (
        Finding,
        SanitizerError,
        SanitizerReport,
        check_code_object,
        sanitize,
    )

__all__ = [
    "ExecutionReport",
    "Finding",
    "SanitizerError",
    "SanitizerReport",
    "Trace",
    "breakpoint_at",
    "check_code_object",
    "collect",
    "diff",
    "emulator",
    "last_report",
    "sanitize",
    "sharing",
    "trace",
    "tracing",
]

_HOMES = {
    **dict.fromkeys(("Trace", "breakpoint_at", "diff", "trace", "tracing"), "flydsl_emu.debug"),
    "ExecutionReport": "flydsl_emu.report",
    **dict.fromkeys(
        ("Finding", "SanitizerError", "SanitizerReport", "check_code_object", "sanitize"),
        "flydsl_emu.sanitizer",
    ),
    "collect": "flydsl_emu.report",
    **dict.fromkeys(("emulator", "sharing"), "flydsl_emu.runtime"),
    "last_report": "flydsl_emu.report",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
