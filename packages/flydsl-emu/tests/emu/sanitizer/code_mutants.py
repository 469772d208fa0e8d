"""Changing single instructions of code objects, for mutation tests."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from flydsl_emu.codeobject import Kernel, read_code_object
from flydsl_emu.decode import Instruction, decode

__all__ = ["NOP", "Mutant", "deleted", "end_of_code", "kernels_of", "mutants", "patched"]

NOP = 0xBF800000
"""``s_nop 0``."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A kernel with one instruction replaced.

    Attributes:
        kernel: The changed kernel.
        instruction: The instruction that is gone, at its address from the kernel's start.
        index: Its position.
    """

    kernel: Kernel
    instruction: Instruction
    index: int


def kernels_of(hsaco: bytes) -> list[Kernel]:
    """Return the kernels of a code object."""
    return list(read_code_object(hsaco).kernels.values())


def end_of_code(instructions: list[Instruction]) -> int:
    """Return the address of the last ``s_endpgm``; padding follows."""
    return max(i.pc for i in instructions if i.name == "s_endpgm")


def deleted(code: bytes, i: Instruction) -> bytes:
    """Return code with ``s_nop 0`` in place of every dword of `i`."""
    return code[: i.pc] + struct.pack("<I", NOP) * (i.size // 4) + code[i.pc + i.size :]


def mutants(kernel: Kernel, wanted: Callable[[Instruction], bool]) -> Iterator[Mutant]:
    """Yield the kernel once without each instruction that `wanted` chooses."""
    instructions = decode(kernel.arch, kernel.code, 0)
    end = end_of_code(instructions)
    for n, i in enumerate(instructions):
        if i.pc < end and wanted(i):
            yield Mutant(replace(kernel, code=deleted(kernel.code, i)), i, n)


def patched(hsaco: bytes, old: bytes, new: bytes) -> bytes:
    """Return a code object with the code of a kernel replaced."""
    at = hsaco.index(old)
    return hsaco[:at] + new + hsaco[at + len(old) :]
