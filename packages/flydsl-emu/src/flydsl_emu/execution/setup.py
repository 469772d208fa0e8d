"""What registers hold when a wave starts (LLVM's amdhsa calling convention).

On gfx12 TTMP8 has the number of the wave in its workgroup (bits 25 to 29); on gfx1250 TTMP6 has the
workgroup's place in its cluster (4 bits each for x, y and z), then the highest place along each
axis and of all (LLVM's lowering of the intrinsics that read them).
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from flydsl_emu.codeobject import Kernel
from flydsl_emu.execution.arguments import Arguments
from flydsl_emu.execution.geometry import Geometry
from flydsl_emu.semantics.generation import generation

__all__ = [
    "CLUSTER_STATE",
    "cluster_registers",
    "initialised_scalars",
    "user_sgprs",
    "work_items",
    "workgroup_registers",
]

Array = Any

_TTMP0 = 108
CLUSTER_STATE = 250
"""Where `State.scalar` holds the hardware register IB_STS2; no operand has this encoding."""
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
    traps = (_TTMP0 + 6, _TTMP0 + 8) if generation(kernel.arch).ids_in_traps else ()
    return frozenset((*range(first), *numbers, *traps))


def cluster_registers(
    kernel: Kernel, geometry: Geometry, number: Array, wave: Array
) -> dict[int, Array]:
    """Return what trap temporaries and IB_STS2 hold, by register.

    Args:
        kernel: The kernel.
        geometry: The launch.
        number: Number of each wave's workgroup.
        wave: Number of each wave in its workgroup.
    """
    if not generation(kernel.arch).ids_in_traps:
        return {}
    found = {_TTMP0 + 8: wave.astype(np.uint32) << np.uint32(25)}
    if geometry.cluster_size > 1:
        highest = sum((c - 1) << 4 * k for k, c in enumerate(geometry.cluster)) << 12
        highest |= (geometry.cluster_size - 1) << 24
        x, y, z = geometry.places(number)
        found[_TTMP0 + 6] = (x | y << 4 | z << 8 | highest).astype(np.uint32)
        flat = number % geometry.cluster_size
        found[CLUSTER_STATE] = (flat << 21 | 1 << 6).astype(np.uint32)
    return found


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
