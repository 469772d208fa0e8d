"""The numpy tier: interprets code objects on arrays that hold all waves of a batch.

`LoadedCode` places a code object in memory, its `LoadedKernel`s launch. `arithmetic`, `lanes` and
`memory` are the vector API on arrays; `operands` and `binding` turn an instruction into a closure;
`engine` schedules waves; `dispatch` sets a launch up. An opcode needs no change here: see
`flydsl_emu.semantics`.
"""

from __future__ import annotations

from flydsl_emu.numpy_tier.dispatch import (
    DEFAULT_STEP_LIMIT,
    Geometry,
    LaunchRecord,
    LoadedCode,
    LoadedKernel,
)
from flydsl_emu.numpy_tier.host import Allocation, Allocations

__all__ = [
    "DEFAULT_STEP_LIMIT",
    "Allocation",
    "Allocations",
    "Geometry",
    "LaunchRecord",
    "LoadedCode",
    "LoadedKernel",
]
