"""Execution reports: what a launch executed and how long a simple model says it takes.

`collect` gathers reports of the launches in a block, `last_report` gives the latest one;
`static_reports` tells what the code of a code object consists of. `classes` sorts instructions,
`loops` finds loops, `counting` watches memory accesses and barriers, `model` holds the time model
and `constants` its numbers, `mca` asks LLVM's analyser, `figures` and `execution` are the report
itself, `rendering` its text. A new figure is a field of `ExecutionReport` computed in
`build_report`, and a line in `rendering`.
"""

from __future__ import annotations

from flydsl_emu.report.collecting import collect, last_report
from flydsl_emu.report.constants import CONSTANTS, ModelConstant, constants_of
from flydsl_emu.report.execution import ExecutionReport
from flydsl_emu.report.figures import InstructionTraffic, LoopReport, Resources, SpaceTraffic
from flydsl_emu.report.mca import McaFigures
from flydsl_emu.report.model import TimeModel
from flydsl_emu.report.static import StaticReport, static_reports

__all__ = [
    "CONSTANTS",
    "ExecutionReport",
    "InstructionTraffic",
    "LoopReport",
    "McaFigures",
    "ModelConstant",
    "Resources",
    "SpaceTraffic",
    "StaticReport",
    "TimeModel",
    "collect",
    "constants_of",
    "last_report",
    "static_reports",
]
