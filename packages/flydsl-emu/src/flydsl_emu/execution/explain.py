"""Faults in the user's terms."""

from __future__ import annotations

from flydsl.errors import FlyDSLError, SourceLocation, TargetError, UserError
from flydsl_emu.decode import Instruction
from flydsl_emu.execution.faults import AccessFault, KernelFault
from flydsl_emu.execution.geometry import Geometry
from flydsl_emu.execution.launch import Launch

__all__ = ["explained"]


def explained(fault: KernelFault, launch: Launch, workgroup: int, wave: int) -> FlyDSLError:
    """Return the error that tells where in the launch and in the kernel a fault happened.

    Its location is the line of the kernel if the code object has a line table; else the launch path
    puts in the line of the launch.

    Args:
        fault: The fault; its arguments may hold the instruction.
        launch: The launch.
        workgroup: Index of the workgroup in the grid, or -1 when unknown.
        wave: Index of the wave in its workgroup.
    """
    geometry = launch.geometry
    instruction = next((a for a in fault.args if isinstance(a, Instruction)), None)
    place = [f"kernel {launch.kernel.name!r}"]
    if workgroup >= 0:
        place.append(f"workgroup {geometry.coordinates(workgroup)}")
        place.append(f"wave {wave}")
        if fault.lane >= 0:
            thread = _thread(wave * geometry.lanes + fault.lane, geometry)
            place.append(f"lane {fault.lane} (thread {thread})")
    value = ", ".join(place)
    if instruction is not None:
        offset = instruction.pc - launch.program.base
        value += f"; pc +{offset:#x}: {instruction}"
    location = _location(launch, instruction)
    kind: type[FlyDSLError] = TargetError if fault.code.startswith("FLY-T") else UserError
    hint = ""
    if isinstance(fault, AccessFault):
        hint = "check the index arithmetic and the bounds test of this access"
    return kind(fault.message, code=fault.code, value=_Text(value), hint=hint, location=location)


def _location(launch: Launch, instruction: Instruction | None) -> SourceLocation | None:
    """Return the kernel's line that an instruction was compiled from, if there is a line table."""
    if instruction is None or launch.source is None:
        return None
    line = launch.source(instruction.pc)
    return None if line is None else SourceLocation(line.file, line.line, line.column - 1)


def _thread(flat: int, geometry: Geometry) -> str:
    bx, by, _ = geometry.block
    return f"{flat % bx}, {flat // bx % by}, {flat // (bx * by)}"


class _Text(str):
    """A string shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
