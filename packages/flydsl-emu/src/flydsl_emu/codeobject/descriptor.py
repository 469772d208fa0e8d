"""The 64-byte kernel descriptor that precedes every launch (amdhsa, code object version 3 to 6)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

__all__ = ["KernelDescriptor"]

_HEAD = struct.Struct("<III")
_ENTRY = struct.Struct("<q")
_TAIL = struct.Struct("<IIIHH")


@dataclass(frozen=True, slots=True)
class KernelDescriptor:
    """Decoded fields; sizes in bytes.

    Attributes:
        group_segment: Static LDS.
        private_segment: Scratch per work-item.
        kernarg_size: Kernel arguments including hidden ones.
        entry_offset: From the descriptor's address to the first instruction.
        rsrc1, rsrc2, rsrc3: ``COMPUTE_PGM_RSRC1`` to ``3``.
        properties: ``kernel_code_properties``: one bit per user SGPR set.
        preload_length, preload_offset: Kernarg preload, in dwords.
    """

    group_segment: int
    private_segment: int
    kernarg_size: int
    entry_offset: int
    rsrc1: int
    rsrc2: int
    rsrc3: int
    properties: int
    preload_length: int
    preload_offset: int

    @classmethod
    def parse(cls, data: bytes) -> KernelDescriptor:
        """Decode the 64 bytes of a ``.kd`` symbol.

        Raises:
            struct.error: Fewer than 64 bytes were given.
        """
        group, private, kernarg = _HEAD.unpack_from(data, 0)
        (entry,) = _ENTRY.unpack_from(data, 16)
        rsrc3, rsrc1, rsrc2, properties, preload = _TAIL.unpack_from(data, 44)
        return cls(
            group,
            private,
            kernarg,
            entry,
            rsrc1,
            rsrc2,
            rsrc3,
            properties,
            preload & 0x7F,
            preload >> 7,
        )

    @property
    def user_sgprs(self) -> int:
        """How many SGPRs are filled before the workgroup ids."""
        return self.rsrc2 >> 1 & 31

    @property
    def workgroup_id_axes(self) -> tuple[int, ...]:
        """Axes (0 to 2) whose workgroup id the kernel receives in an SGPR."""
        return tuple(axis for axis in range(3) if self.rsrc2 >> (7 + axis) & 1)

    @property
    def wants_workgroup_info(self) -> bool:
        """Whether an SGPR with workgroup information follows the ids."""
        return bool(self.rsrc2 >> 10 & 1)

    @property
    def denormals_32(self) -> int:
        """Denormal mode of f32: 3 keeps denormals, 0 flushes inputs and results."""
        return self.rsrc1 >> 16 & 3

    @property
    def denormals_16_64(self) -> int:
        """Denormal mode of f16 and f64."""
        return self.rsrc1 >> 18 & 3

    @property
    def rounding_32(self) -> int:
        """Rounding mode of f32: 0 nearest even, 1 up, 2 down, 3 to zero."""
        return self.rsrc1 >> 12 & 3

    @property
    def ieee(self) -> bool:
        """Whether minimum and maximum quieten signalling NaNs (IEEE mode)."""
        return bool(self.rsrc1 >> 23 & 1)

    @property
    def dx10_clamp(self) -> bool:
        """Whether the clamp modifier turns NaN into zero."""
        return bool(self.rsrc1 >> 21 & 1)
