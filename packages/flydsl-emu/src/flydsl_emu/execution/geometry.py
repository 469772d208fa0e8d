"""The shape of a launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Geometry"]


@dataclass(frozen=True, slots=True)
class Geometry:
    """Shape of one launch.

    Attributes:
        grid: Workgroups along x, y, z.
        block: Threads along x, y, z.
        dynamic_lds: Bytes of LDS beyond the kernel's static ones.
        lanes: Lanes of a wave; a launch sets it from the kernel.
        cluster: Workgroups of a cluster along x, y, z; they run at the same time.

    Workgroups have numbers in the order in which they begin: cluster by cluster, x fastest.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_lds: int = 0
    lanes: int = 64
    cluster: tuple[int, int, int] = (1, 1, 1)

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

    @property
    def cluster_size(self) -> int:
        """Workgroups of one cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    def clusters(self, number: Any) -> tuple[Any, Any, Any]:
        """Return the coordinates of the cluster of workgroup `number` (an int or an array)."""
        x, y, _ = (g // c for g, c in zip(self.grid, self.cluster, strict=True))
        at = number // self.cluster_size
        return at % x, at // x % y, at // (x * y)

    def places(self, number: Any) -> tuple[Any, Any, Any]:
        """Return the coordinates of workgroup `number` within its cluster."""
        x, y, _ = self.cluster
        at = number % self.cluster_size
        return at % x, at // x % y, at // (x * y)

    def coordinates(self, number: Any) -> tuple[Any, Any, Any]:
        """Return the coordinates of workgroup `number` in the grid."""
        pairs = zip(self.clusters(number), self.cluster, self.places(number), strict=True)
        x, y, z = (c * size + place for c, size, place in pairs)
        return x, y, z

    def number(self, coordinates: tuple[int, int, int]) -> int:
        """Return the number of the workgroup at `coordinates`; the grid must have it."""
        at = [divmod(c, size) for c, size in zip(coordinates, self.cluster, strict=True)]
        x, y, _ = (g // c for g, c in zip(self.grid, self.cluster, strict=True))
        cluster = at[0][0] + x * (at[1][0] + y * at[2][0])
        place = at[0][1] + self.cluster[0] * (at[1][1] + self.cluster[1] * at[2][1])
        return cluster * self.cluster_size + place
