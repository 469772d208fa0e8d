"""The shape of a launch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Geometry"]


@dataclass(frozen=True, slots=True)
class Geometry:
    """Shape of one launch.

    Attributes:
        grid: Workgroups along x, y, z.
        block: Threads along x, y, z.
        dynamic_lds: Bytes of LDS beyond the kernel's static ones.
        lanes: Lanes of a wave; a launch sets it from the kernel.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_lds: int = 0
    lanes: int = 64

    @property
    def threads(self) -> int:
        """Threads of one workgroup."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def waves(self) -> int:
        """Waves of one workgroup."""
        return (self.threads + self.lanes - 1) // self.lanes

    @property
    def workgroups(self) -> int:
        """Workgroups of the launch."""
        return self.grid[0] * self.grid[1] * self.grid[2]
