"""Watching memory accesses while a kernel runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from flydsl_emu.numpy_tier.engine import Batch

__all__ = ["AccessCounter", "Traffic"]

Array = Any


@dataclass(slots=True)
class Traffic:
    """Totals of one space and direction.

    Attributes:
        accesses: Lanes that accessed, summed over instructions.
        requested: Bytes asked for.
        lines: Distinct cache lines, summed over the waves' instructions.
        clocks: For LDS: clocks of the banks, conflicts included.
        ideal_clocks: For LDS: clocks without conflicts.
    """

    accesses: int = 0
    requested: int = 0
    lines: int = 0
    clocks: int = 0
    ideal_clocks: int = 0


class AccessCounter:
    """Sums accesses by space and direction.

    Args:
        line: Bytes of a cache line.
        banks: LDS banks of four bytes.
    """

    def __init__(self, line: int, banks: int) -> None:
        self.line = line
        self.banks = banks
        self.traffic: dict[tuple[str, str], Traffic] = {}
        self._touched: set[int] = set()
        self._pages: list[Array] = []

    def batch(self, batch: Batch) -> None:
        """Attach to a batch that is about to run."""
        batch.observe(self.access)

    def access(self, space: str, addresses: Array, size: int, waves: Array, write: bool) -> None:
        """Record one instruction's accesses.

        Args:
            space: ``"global"``, ``"lds"``, ``"scratch"`` or ``"scalar"``.
            addresses: Of the lanes that access, wave after wave.
            size: Bytes per lane.
            waves: Wave of each address.
            write: Store or load.
        """
        key = (space, "write" if write else "read")
        found = self.traffic.setdefault(key, Traffic())
        found.accesses += len(addresses)
        found.requested += len(addresses) * size
        if space == "lds":
            self._bank_clocks(found, addresses, size, waves)
        elif space == "global":
            found.lines += self._lines(addresses, size, waves)

    def _lines(self, addresses: Array, size: int, waves: Array) -> int:
        first = (addresses // np.uint64(self.line)).astype(np.int64)
        last = ((addresses + np.uint64(size - 1)) // np.uint64(self.line)).astype(np.int64)
        key = first * 4096 + waves % 4096
        if (first != last).any():
            key = np.concatenate((key, last * 4096 + waves % 4096))
        unique = np.unique(key)
        self._pages.append(np.unique(unique // 4096))
        if len(self._pages) > 64:
            self._pages = [np.unique(np.concatenate(self._pages))]
        return len(unique)

    @property
    def distinct_lines(self) -> int:
        """Distinct cache lines of global memory that the launch touched."""
        return len(np.unique(np.concatenate(self._pages))) if self._pages else 0

    def _bank_clocks(self, found: Traffic, offsets: Array, size: int, waves: Array) -> None:
        """Add the clocks of one LDS instruction.

        A clock serves 32 lanes of 4 bytes, 16 of 8 or 8 of 16; lanes of one clock that want
        different dwords of one bank wait for one another.
        """
        group = max(8, 32 * 4 // max(4, size))
        start = np.flatnonzero(np.diff(waves, prepend=-1))
        lengths = np.diff(np.append(start, len(waves)))
        position = np.arange(len(waves)) - np.repeat(start, lengths)
        slot = waves * 64 + position // group
        dwords = max(1, size // 4)
        total = ideal = 0
        for k in range(1 if dwords == 1 else dwords):
            dword = offsets // 4 + k
            bank = dword % self.banks
            key = np.unique((slot * self.banks + bank) * (1 << 20) + dword)
            _, per_bank = np.unique(key >> 20, return_counts=True)
            owner = np.unique(key >> 20) // self.banks
            order = np.flatnonzero(np.diff(owner, prepend=-1))
            worst = np.maximum.reduceat(per_bank, order)
            total += int(worst.sum())
            ideal += len(worst)
        scale = dwords if dwords > 1 else 1
        found.clocks += -(-total // scale)
        found.ideal_clocks += -(-ideal // scale)
