"""Kernel arguments in memory."""

from __future__ import annotations

import ctypes
import struct

from flydsl_emu.codeobject import Kernel
from flydsl_emu.execution.geometry import Geometry
from flydsl_emu.execution.hidden import hidden_arguments
from flydsl_emu.execution.host import Allocation

__all__ = ["Arguments"]


class Arguments:
    """Kernel arguments, dispatch packet and their memory.

    Args:
        kernel: The kernel.
        base: Address at which its code object was loaded.
        geometry: Shape of the launch.
        kernarg: Explicit arguments at their offsets; hidden ones are filled in.
    """

    def __init__(self, kernel: Kernel, base: int, geometry: Geometry, kernarg: bytes) -> None:
        size = max(kernel.descriptor.kernarg_size, len(kernarg), 16)
        data = bytearray(size)
        data[: len(kernarg)] = kernarg
        for offset, value in hidden_arguments(kernel, geometry):
            data[offset : offset + len(value)] = value
        self.kernarg = ctypes.create_string_buffer(bytes(data), size + 64)
        self.address = (ctypes.addressof(self.kernarg) + 63) & ~63
        ctypes.memmove(self.address, bytes(data), size)
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
        self.packet = ctypes.create_string_buffer(packet, 64 + 64)
        self.packet_address = (ctypes.addressof(self.packet) + 63) & ~63
        ctypes.memmove(self.packet_address, packet, 64)
        self.ranges = (
            Allocation(self.address, self.address + size, False, ".arguments"),
            Allocation(self.packet_address, self.packet_address + 64, False, ".dispatch packet"),
        )
