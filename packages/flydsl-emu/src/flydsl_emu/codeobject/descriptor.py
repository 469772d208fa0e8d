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
    def wave32(self) -> bool:
        """Whether waves have 32 lanes: a choice from gfx10 on, never on gfx9."""
        return bool(self.properties >> 10 & 1)

    @property
    def dynamic_stack(self) -> bool:
        """Whether the kernel's scratch use has no bound that the compiler knows."""
        return bool(self.properties >> 11 & 1)

    def allocated_vgprs(self, arch: str) -> int:
        """Return the vector registers that a wave gets, accumulation registers included.

        The field counts granules: of 8 registers on gfx942 and gfx950 and for waves of 32 lanes, 16
        for those on gfx1250, 4 for waves of 64 lanes on gfx10 to gfx12 (LLVM's AMDGPU usage
        document, ``GRANULATED_WORKITEM_VGPR_COUNT``).
        """
        granule = 8
        if not arch.startswith("gfx9"):
            granule = (16 if arch.startswith("gfx125") else 8) if self.wave32 else 4
        return ((self.rsrc1 & 63) + 1) * granule

    @property
    def named_barriers(self) -> int:
        """Named barriers of the workgroup (gfx1250), in units of four."""
        return self.rsrc3 >> 14 & 7

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
        """Whether minimum and maximum quieten signalling NaNs (IEEE mode; up to gfx11)."""
        return bool(self.rsrc1 >> 23 & 1)

    @property
    def dx10_clamp(self) -> bool:
        """Whether the clamp modifier turns NaN into zero (a choice up to gfx11)."""
        return bool(self.rsrc1 >> 21 & 1)
