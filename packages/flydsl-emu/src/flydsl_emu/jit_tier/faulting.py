"""Faults that generated code records, as exceptions."""

from __future__ import annotations

from flydsl_emu.execution.faults import AccessFault, KernelFault
from flydsl_emu.execution.host import Allocations
from flydsl_emu.jit_tier.context import Context
from flydsl_emu.jit_tier.memory import REQUIREMENT, ROUTINE

__all__ = [
    "ALIGNMENT",
    "GLOBAL",
    "LDS",
    "LEFT",
    "MISSING",
    "SCALAR",
    "SCRATCH",
    "TRAPPED",
    "fault_of",
]

GLOBAL, LDS, SCRATCH, ALIGNMENT, SCALAR, TRAPPED, MISSING, LEFT = range(1, 9)
"""Kinds that `Context.fault` may hold."""

_LOCAL = {LDS: ("lds", "LDS", "FLY-U712"), SCRATCH: ("scratch", "scratch", "FLY-U717")}


def fault_of(context: Context, memory: Allocations, messages: list[str]) -> KernelFault:
    """Return the fault that a context holds; `wave` is still unknown."""
    kind, size, write = context.fault, context.fault_size, bool(context.fault_write)
    address = context.fault_address
    fault: KernelFault
    if kind >= ROUTINE:
        text = f"the emulator does not model {messages[kind - ROUTINE]}"
        return KernelFault(text, "FLY-T705")
    if kind >= REQUIREMENT:
        text = f"the emulator does not model {messages[kind - REQUIREMENT]}"
        return KernelFault(text, "FLY-T705")
    if kind in (GLOBAL, SCALAR):
        fault = memory.explain(address, size, write)
        if kind == SCALAR:
            fault.space = "scalar"
            return fault
    elif kind in _LOCAL:
        space, name, code = _LOCAL[kind]
        limit = context.lds_size if kind == LDS else context.scratch_size
        verb = "write" if write else "read"
        text = (
            f"{verb} of {size} bytes at {name} offset {address:#x}; "
            f"the kernel has {limit} bytes of {name}"
        )
        fault = AccessFault(text, code, space, address, size, write)
    elif kind == ALIGNMENT:
        text = f"an atomic of {size} bytes is not aligned to its size"
        fault = KernelFault(text, "FLY-U719")
    elif kind == TRAPPED:
        return KernelFault("the kernel reached a trap instruction", "FLY-U718")
    else:
        return KernelFault("the kernel left its own code", "FLY-U715")
    fault.lane = int(context.fault_lane)
    return fault
