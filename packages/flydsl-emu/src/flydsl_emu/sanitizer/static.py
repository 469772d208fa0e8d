"""The checks that need only the code: missing waits and wait states on all paths."""

from __future__ import annotations

from collections.abc import Sequence

from flydsl_emu.codeobject import Kernel, read_code_object
from flydsl_emu.decode import Instruction, decode
from flydsl_emu.sanitizer.counters import CounterModel, counter_model
from flydsl_emu.sanitizer.findings import Finding, Place, SanitizerReport
from flydsl_emu.sanitizer.flow import blocks_of
from flydsl_emu.sanitizer.registers import effects, register_name
from flydsl_emu.sanitizer.spacing import SpacingHazard, missing_wait_states
from flydsl_emu.sanitizer.waits import WaitHazard, missing_waits

__all__ = ["check_code_object", "check_instructions", "check_kernel"]


def check_code_object(hsaco: bytes) -> SanitizerReport:
    """Check all kernels of a code object for missing waits and wait states, on all paths.

    Args:
        hsaco: The bytes of the file.

    Raises:
        TargetError: Not a code object, or of an architecture that the sanitizer does not know.
    """
    report = SanitizerReport([])
    for kernel in read_code_object(hsaco).kernels.values():
        report.add(check_kernel(kernel))
    return report


def check_kernel(kernel: Kernel) -> list[Finding]:
    """Check one kernel; see `check_code_object`."""
    instructions = decode(kernel.arch, kernel.code, 0)
    return check_instructions(kernel.name, kernel.arch, instructions)


def check_instructions(
    kernel: str, arch: str, instructions: Sequence[Instruction]
) -> list[Finding]:
    """Check decoded code whose first instruction is at address 0.

    Args:
        kernel: Name for the findings.
        arch: Architecture.
        instructions: In address order.
    """
    model = counter_model(arch)
    registers = [effects(i) for i in instructions]
    blocks = blocks_of(instructions)
    places = _Places(instructions)
    found: dict[tuple[str, int, int], Finding] = {}
    for wait in missing_waits(instructions, registers, blocks, model):
        key = ("FLY-U731", wait.at, wait.source)
        found.setdefault(key, _wait_finding(kernel, wait, model, places))
    for spacing in missing_wait_states(arch, instructions, registers, blocks):
        key = ("FLY-U732", spacing.at, spacing.source)
        found.setdefault(key, _spacing_finding(kernel, spacing, places))
    return list(found.values())


class _Places:
    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._instructions = instructions

    def __call__(self, at: int) -> Place:
        i = self._instructions[at]
        return Place(i.pc, str(i))


def _wait_finding(kernel: str, hazard: WaitHazard, model: CounterModel, at: _Places) -> Finding:
    stream = model.streams[hazard.stream]
    name = register_name(hazard.register) if hazard.register >= 0 else ""
    text = {
        "read": f"reads {name} before {stream.label} has delivered it",
        "write": f"writes {name}, which {stream.label} will overwrite later",
        "barrier": "a barrier while writes to LDS are outstanding: other waves may read old values",
        "lds": "reads LDS before the transfer from memory into LDS has finished",
        "order": f"a cache operation while {stream.label} operations are outstanding",
    }[hazard.kind]
    hint = f"wait for {stream.counter}({hazard.distance}) before this instruction"
    return Finding("FLY-U731", kernel, text, at(hazard.at), at(hazard.source), hint)


def _spacing_finding(kernel: str, hazard: SpacingHazard, at: _Places) -> Finding:
    name = register_name(hazard.register)
    text = f"uses {name} ({hazard.kind}) {hazard.missing} wait states too early"
    hint = f"put `s_nop {hazard.missing - 1}` or other instructions between the two"
    return Finding("FLY-U732", kernel, text, at(hazard.at), at(hazard.source), hint)
