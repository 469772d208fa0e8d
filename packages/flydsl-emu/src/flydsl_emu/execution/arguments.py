"""Kernel arguments in memory."""

from __future__ import annotations

import ctypes
import struct

from flydsl_emu.codeobject import Kernel
from flydsl_emu.execution.geometry import Geometry
from flydsl_emu.execution.hidden import hidden_arguments
from flydsl_emu.execution.host import PRIVATE_APERTURE, SHARED_APERTURE, Allocation

__all__ = ["Arguments"]

# The queue that a kernel sees: all zero but the apertures, which amd_queue_t holds here.
_QUEUE_SIZE = 256
_QUEUE_APERTURES = 0x40


class Arguments:
    """Kernel arguments, dispatch packet, queue and their memory.

    Args:
        kernel: The kernel.
        base: Address at which its code object was loaded.
        geometry: Shape of the launch.
        kernarg: Explicit arguments at their offsets; hidden ones are filled in.
    """

    def __init__(self, kernel: Kernel, base: int, geometry: Geometry, kernarg: bytes) -> None:
        queue = bytearray(_QUEUE_SIZE)
        struct.pack_into("<II", queue, _QUEUE_APERTURES, SHARED_APERTURE, PRIVATE_APERTURE)
        self.queue, self.queue_address = _placed(bytes(queue))
        size = max(kernel.descriptor.kernarg_size, len(kernarg), 16)
        # The segment is aligned to 16 bytes, so LLVM widens its last load up to a multiple of them.
        size = -(-size // 16) * 16
        data = bytearray(size)
        data[: len(kernarg)] = kernarg
        for offset, value in hidden_arguments(kernel, geometry, self.queue_address):
            data[offset : offset + len(value)] = value
        self.kernarg, self.address = _placed(bytes(data))
        self.data = bytes(data)
        grid = [g * b for g, b in zip(geometry.grid, geometry.block, strict=True)]
        packet = struct.pack(
            "<HHHHHHIIIIIQQQQ",
            2,
            3,
            *geometry.block,
            0,
            *grid,
            kernel.descriptor.private_segment,
            kernel.descriptor.group_segment + geometry.dynamic_lds,
            base + kernel.descriptor_address,
            self.address,
            0,
            0,
        )
        self.packet, self.packet_address = _placed(packet)
        self.ranges = (
            Allocation(self.address, self.address + size, False, ".arguments"),
            Allocation(self.packet_address, self.packet_address + 64, False, ".dispatch packet"),
            Allocation(self.queue_address, self.queue_address + _QUEUE_SIZE, False, ".queue"),
        )


def _placed(data: bytes) -> tuple[ctypes.Array[ctypes.c_char], int]:
    """Return a buffer that holds `data` at an address divisible by 64, and that address."""
    buffer = ctypes.create_string_buffer(data, len(data) + 64)
    address = (ctypes.addressof(buffer) + 63) & ~63
    ctypes.memmove(address, data, len(data))
    return buffer, address
