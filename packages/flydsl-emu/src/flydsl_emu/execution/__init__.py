"""What every tier of the emulator shares: launches, host memory, programs, faults.

`geometry` and `launch` describe one launch, `arguments` and `hidden` its kernel arguments, `setup`
the registers that a wave starts with; `host` is the memory that kernels may touch; `program` splits
a kernel into basic blocks; `faults` and `explain` tell what went wrong where. Nothing here knows a
tier: tiers import this package, and `flydsl_emu.dispatch` chooses among them.
"""

from __future__ import annotations

from flydsl_emu.execution.faults import AccessFault, KernelFault
from flydsl_emu.execution.geometry import Geometry
from flydsl_emu.execution.host import Allocation, Allocations
from flydsl_emu.execution.launch import DEFAULT_STEP_LIMIT, Launch, LaunchRecord
from flydsl_emu.execution.program import Block, Program

__all__ = [
    "DEFAULT_STEP_LIMIT",
    "AccessFault",
    "Allocation",
    "Allocations",
    "Block",
    "Geometry",
    "KernelFault",
    "Launch",
    "LaunchRecord",
    "Program",
]
