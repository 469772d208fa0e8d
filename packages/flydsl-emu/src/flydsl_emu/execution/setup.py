"""What registers hold when a wave starts (LLVM's amdhsa calling convention)."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from flydsl_emu.codeobject import Kernel
from flydsl_emu.execution.arguments import Arguments
from flydsl_emu.execution.geometry import Geometry
from flydsl_emu.semantics.generation import generation

__all__ = ["initialised_scalars", "user_sgprs", "work_items", "workgroup_registers"]

Array = Any

_TTMP0 = 108
# Registers of each user SGPR that a kernel may ask for, by bit of the properties.
_USER_WORDS = (4, 2, 2, 2, 2, 2, 1)


def user_sgprs(kernel: Kernel, arguments: Arguments) -> tuple[list[int], int]:
    """Return the words of the user SGPRs from s0 on, and the index of the first system SGPR."""
    descriptor = kernel.descriptor
    values = {
        0: (0, 0, 0, 0),
        1: _halves(arguments.packet_address),
        2: _halves(arguments.queue_address),
        3: _halves(arguments.address),
        4: (0, 0),
        5: (0, 0),
        6: (descriptor.private_segment,),
    }
    words: list[int] = []
    for bit, pair in values.items():
        if descriptor.properties >> bit & 1:
            words += pair
    for k in range(descriptor.preload_length):
        offset = 4 * (descriptor.preload_offset + k)
        words.append(struct.unpack_from("<I", arguments.data, offset)[0])
    return words, max(len(words), descriptor.user_sgprs)


def initialised_scalars(kernel: Kernel) -> frozenset[int]:
    """Return the scalar registers that hold something when a wave starts, by encoding."""
    descriptor = kernel.descriptor
    words = sum(n for bit, n in enumerate(_USER_WORDS) if descriptor.properties >> bit & 1)
    first = max(words + descriptor.preload_length, descriptor.user_sgprs)
    numbers = (code for code, _, _ in workgroup_registers(kernel, first))
    return frozenset((*range(first), *numbers))


def _halves(value: int) -> tuple[int, int]:
    return value & 0xFFFFFFFF, value >> 32


def workgroup_registers(kernel: Kernel, first: int) -> list[tuple[int, int, int]]:
    """Return where workgroup numbers go: ``(scalar register, axis, shift)`` each.

    Args:
        kernel: The kernel.
        first: First system SGPR.
    """
    if generation(kernel.arch).ids_in_traps:
        return [(_TTMP0 + 9, 0, 0), (_TTMP0 + 7, 1, 0), (_TTMP0 + 7, 2, 16)]
    axes = kernel.descriptor.workgroup_id_axes
    return [(first + k, axis, 0) for k, axis in enumerate(axes)]


def work_items(geometry: Geometry) -> tuple[Array, Array]:
    """Return v0 (packed work-item ids) and EXEC of a workgroup's waves: ``(waves, lanes)``."""
    lanes = geometry.lanes
    threads = np.arange(geometry.waves * lanes)
    bx, by, _ = geometry.block
    packed = threads % bx | threads // bx % by << 10 | threads // (bx * by) << 20
    inside = threads < geometry.threads
    shape = (geometry.waves, lanes)
    item = np.where(inside, packed, 0).astype(np.uint32)
    return item.reshape(shape), inside.reshape(shape)
