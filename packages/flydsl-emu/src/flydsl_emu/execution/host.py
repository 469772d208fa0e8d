"""Host memory as the device sees it: flat views and the ranges that a launch may touch."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from flydsl_emu.execution.faults import AccessFault

__all__ = ["PRIVATE_APERTURE", "SHARED_APERTURE", "Allocation", "Allocations", "flat_view"]

Array = Any

SHARED_APERTURE = 0x0001_0000
"""High dword of flat addresses that mean LDS."""
PRIVATE_APERTURE = 0x0002_0000
"""High dword of flat addresses that mean scratch."""

# The views start here, not at zero, which ctypes would take for NULL.
FIRST = 4096
_LIMIT = 1 << 47
_TYPES = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}


@cache
def flat_view(size: int) -> Array:
    """Return all memory from address `FIRST` as an array of elements of `size` bytes."""
    kind = _TYPES[size]
    count = (_LIMIT - FIRST) // size
    return np.ctypeslib.as_array((kind * count).from_address(FIRST))


@dataclass(frozen=True, slots=True)
class Allocation:
    """A range of host memory that a kernel may access: ``[start, end)``."""

    start: int
    end: int
    writable: bool
    name: str


class Allocations:
    """The ranges of one launch, merged where they overlap."""

    def __init__(self, ranges: Iterable[Allocation]) -> None:
        self.ranges = tuple(sorted(ranges, key=lambda r: r.start))
        self._read = _merged(r for r in self.ranges)
        self._write = _merged(r for r in self.ranges if r.writable)

    def table(self, write: bool) -> Array:
        """Return the allowed ranges as ``uint64`` rows of start and end, in address order."""
        starts, ends = self._write if write else self._read
        return np.stack((starts, ends), axis=1)

    def check(self, addresses: Array, size: int, write: bool) -> int | None:
        """Check accesses of `size` bytes at ``uint64`` addresses.

        Returns:
            None, or the flat index of the first one that is not allowed.
        """
        if not addresses.size:
            return None
        starts, ends = self._write if write else self._read
        low, high = int(addresses.min()), int(addresses.max())
        at = int(np.searchsorted(starts, low, "right")) - 1
        if at >= 0 and high + size <= int(ends[at]):
            return None
        flat = addresses.reshape(-1)
        where = np.searchsorted(starts, flat, "right").astype(np.int64) - 1
        inside = ends[np.maximum(where, 0)] if len(ends) else np.zeros(len(flat), np.uint64)
        good = (where >= 0) & (flat + np.uint64(size) <= inside) & (flat < np.uint64(_LIMIT))
        return None if good.all() else int(np.argmin(good))

    def explain(self, address: int, size: int, write: bool) -> AccessFault:
        """Return the fault for one access that `check` refused."""
        verb = "write" if write else "read"
        for r in self.ranges:
            if r.start <= address and address + size <= r.end:
                # The kernel may have meant another buffer, and left it.
                near = self._nearest(address, size, writable=True)
                return AccessFault(
                    f"write of {size} bytes to {r.name}, which is read-only ({near})",
                    "FLY-U716",
                    "global",
                    address,
                    size,
                    write,
                )
        return AccessFault(
            f"{verb} of {size} bytes at {address:#x}, {self._nearest(address, size)}",
            "FLY-U711",
            "global",
            address,
            size,
            write,
        )

    def _nearest(self, address: int, size: int, writable: bool = False) -> str:
        best: tuple[int, str] | None = None
        for r in self.ranges:
            if r.name.startswith(".") or (writable and not r.writable):
                continue
            if address >= r.end:
                found = (address - r.end, f"{address - r.end} bytes past the end of {r.name}")
            elif address + size <= r.start:
                found = (r.start - address, f"{r.start - address} bytes before {r.name}")
            else:
                found = (0, f"reaching across the end of {r.name}")
            if best is None or found[0] < best[0]:
                best = found
        if best is None:
            return f"and the launch has no {'writable ' if writable else ''}buffers"
        return best[1] if best[0] < 1 << 40 else "far from every buffer of the launch"


def _merged(ranges: Iterable[Allocation]) -> tuple[Array, Array]:
    starts: list[int] = []
    ends: list[int] = []
    for r in ranges:
        if starts and r.start < ends[-1]:
            ends[-1] = max(ends[-1], r.end)
        elif r.end > r.start:
            starts.append(r.start)
            ends.append(r.end)
    return np.array(starts, np.uint64), np.array(ends, np.uint64)
