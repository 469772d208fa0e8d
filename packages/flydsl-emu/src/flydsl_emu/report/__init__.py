"""Execution reports: what a launch executed and how long a simple model says it takes.

`collect` gathers reports of the launches in a block, `last_report` gives the latest one. `classes`
sorts instructions, `counting` watches memory accesses, `model` holds the time model with its named
constants, `execution` is the report itself. A new figure is a field of `ExecutionReport` computed
in `build_report`.
"""

from __future__ import annotations

from flydsl_emu.report.collecting import collect, last_report
from flydsl_emu.report.execution import ExecutionReport, SpaceTraffic
from flydsl_emu.report.model import CONSTANTS, ModelConstant, TimeModel

__all__ = [
    "CONSTANTS",
    "ExecutionReport",
    "ModelConstant",
    "SpaceTraffic",
    "TimeModel",
    "collect",
    "last_report",
]
