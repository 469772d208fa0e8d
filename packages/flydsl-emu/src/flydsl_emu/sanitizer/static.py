"""The checks that need only the code: missing waits and wait states on all paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flydsl_emu.codeobject import Kernel, read_code_object
from flydsl_emu.decode import Instruction, decode
from flydsl_emu.execution import Program
from flydsl_emu.sanitizer.counters import CounterModel, counter_model
from flydsl_emu.sanitizer.findings import Finding, Place, SanitizerReport
from flydsl_emu.sanitizer.flow import blocks_of, without_empty_masks
from flydsl_emu.sanitizer.registers import effects, register_name
from flydsl_emu.sanitizer.spacing import SpacingHazard, missing_wait_states
from flydsl_emu.sanitizer.waits import WaitHazard, missing_waits

__all__ = ["check_code_object", "check_kernel", "check_program"]


def check_code_object(hsaco: bytes) -> SanitizerReport:
    """Check all kernels of a code object for missing waits and wait states, on all paths.

    Args:
        hsaco: The bytes of the file.

    Raises:
        TargetError: Not a code object, or of an architecture that the sanitizer does not know.
    """
    report = SanitizerReport([])
    code = read_code_object(hsaco)
    lines = code.line_table()
    for kernel in code.kernels.values():
        report.add(check_kernel(kernel, lines.find))
    return report


def check_kernel(
    kernel: Kernel, source: Callable[[int], object | None] | None = None
) -> list[Finding]:
    """Check one kernel; see `check_code_object`.

    Args:
        kernel: The kernel.
        source: Gives the source line of an address in the code object, or None.
    """
    instructions = decode(kernel.arch, kernel.code, kernel.address)
    return _check(kernel, instructions, kernel.address, source)


def check_program(
    program: Program, source: Callable[[int], object | None] | None = None
) -> list[Finding]:
    """Check a kernel that is loaded already.

    Args:
        program: The kernel at its load address.
        source: Gives the source line of a loaded address, or None.
    """
    return _check(program.kernel, program.instructions, program.base, source)


def _check(
    kernel: Kernel,
    instructions: Sequence[Instruction],
    base: int,
    source: Callable[[int], object | None] | None,
) -> list[Finding]:
    model = counter_model(kernel.arch)
    registers = [effects(i, kernel.wave_size) for i in instructions]
    blocks = without_empty_masks(instructions, registers, blocks_of(instructions), kernel.wave_size)
    places = _Places(instructions, base, source)
    found: dict[tuple[str, int, int], Finding] = {}
    for wait in missing_waits(instructions, registers, blocks, model):
        key = ("FLY-U731", wait.at, wait.source)
        found.setdefault(key, _wait_finding(kernel.name, wait, model, places))
    for spacing in missing_wait_states(kernel.arch, instructions, registers, blocks):
        key = ("FLY-U732", spacing.at, spacing.source)
        found.setdefault(key, _spacing_finding(kernel.name, spacing, places))
    return list(found.values())


class _Places:
    def __init__(
        self,
        instructions: Sequence[Instruction],
        base: int,
        source: Callable[[int], object | None] | None,
    ) -> None:
        self._instructions = instructions
        self._base = base
        self._source = source

    def __call__(self, at: int) -> Place:
        i = self._instructions[at]
        line = self._source(i.pc) if self._source is not None else None
        return Place(i.pc - self._base, str(i), None if line is None else str(line))


def _wait_finding(kernel: str, hazard: WaitHazard, model: CounterModel, at: _Places) -> Finding:
    stream = model.streams[hazard.stream]
    name = register_name(hazard.register) if hazard.register >= 0 else ""
    text = {
        "read": f"reads {name} before {stream.label} has delivered it",
        "write": f"writes {name}, which {stream.label} will overwrite later",
        "barrier": "a barrier while writes to LDS are outstanding: other waves may read old values",
        "lds": "reads LDS before the transfer from memory into LDS has finished",
        "order": "empties caches while a load of data that others write is outstanding",
    }[hazard.kind]
    hint = f"wait for {stream.counter}({hazard.distance}) before this instruction"
    return Finding("FLY-U731", kernel, text, at(hazard.at), at(hazard.source), hint)


def _spacing_finding(kernel: str, hazard: SpacingHazard, at: _Places) -> Finding:
    name = register_name(hazard.register)
    text = f"uses {name} ({hazard.kind}) {hazard.missing} wait states too early"
    hint = f"put `s_nop {hazard.missing - 1}` or other instructions between the two"
    return Finding("FLY-U732", kernel, text, at(hazard.at), at(hazard.source), hint)
