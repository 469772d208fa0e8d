"""Debugging emulated kernels: traces, breakpoints and the comparison of traces.

`trace` runs a launcher and returns what one wave executed, with source lines and register values;
`tracing` does so for the launches of a block; `diff` finds where two traces part; `breakpoint_at`
calls Python at an instruction or a source line. All of them observe the numpy tier through
`flydsl_emu.observers` and cost nothing when unused. `effects` knows which registers an instruction
touches, `view` gives access to a wave.
"""

from __future__ import annotations

from flydsl_emu.debug.breaking import Stop, breakpoint_at
from flydsl_emu.debug.comparing import Divergence, diff
from flydsl_emu.debug.recording import trace, tracing
from flydsl_emu.debug.steps import RegisterValue, Trace, TraceStep
from flydsl_emu.debug.view import WaveView

__all__ = [
    "Divergence",
    "RegisterValue",
    "Stop",
    "Trace",
    "TraceStep",
    "WaveView",
    "breakpoint_at",
    "diff",
    "trace",
    "tracing",
]
