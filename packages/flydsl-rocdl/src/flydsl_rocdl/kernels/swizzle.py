"""Where the 16-byte pieces of a row go in local data share, so that banks do not conflict.

Rows of a tile are read by lanes that stand at the same column of neighbouring rows, and written by
lanes at neighbouring columns. When a row is as long as all banks together, the same column of all
rows lies in the same banks. `xor16` exchanges the pieces within each row by the row's number, which
takes no memory and costs one xor per lane, outside the loop; `padded` makes rows longer, for
lengths that are no power of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flydsl.errors import ConfigError
from flydsl.layout import Swizzle

__all__ = ["PIECE", "RowSwizzle", "padded", "xor16"]

PIECE = 16
"""Bytes that a lane moves at once, and that stay together."""


@dataclass(frozen=True, slots=True)
class RowSwizzle:
    """Piece p of row r lies at ``r * row_bytes + (p ^ (r // rows_per_line % pieces)) * 16``.

    Attributes:
        row_bytes: Bytes of a row.
        pieces: Pieces that are exchanged, a power of two; the higher part of p stays.
        rows_per_line: Rows that one line over all banks holds, at least 1.
    """

    row_bytes: int
    pieces: int
    rows_per_line: int

    def key(self, row: Any) -> Any:
        """Return what the pieces of a row are exchanged by."""
        return row // self.rows_per_line % self.pieces

    def place(self, row: Any, piece: Any) -> Any:
        """Return the byte offset of a piece, for integers and run-time numbers."""
        return row * self.row_bytes + (piece ^ self.key(row)) * PIECE

    def repeat(self, rows: int) -> int:
        """Return after how many groups of `rows` rows pieces are exchanged in the same way."""
        return max(1, self.pieces * self.rows_per_line // rows)

    @property
    def variants(self) -> int:
        """Of pieces 4 c + g for lanes' g below 4, how many c have addresses of their own.

        The address of c is that of ``c % variants`` plus ``c // variants * variants * 64``.
        """
        return max(1, self.pieces // 4)

    def swizzle(self, element_bits: int) -> Swizzle:
        """Return the same exchange as a swizzle of element indices.

        Args:
            element_bits: Bits of an element, at most 128.

        Raises:
            ConfigError: Elements that are no power of two, or longer than a piece.
        """
        if element_bits not in (4, 8, 16, 32, 64, 128) or self.row_bytes & (self.row_bytes - 1):
            raise ConfigError("rows of such elements have no swizzle of their indices",
                              code="FLY-C606", value=(element_bits, self.row_bytes),
                              allowed="powers of two")  # fmt: skip
        base = (PIECE * 8 // element_bits).bit_length() - 1
        key = (self.row_bytes * self.rows_per_line * 8 // element_bits).bit_length() - 1
        return Swizzle(self.pieces.bit_length() - 1, base, key - base)


def xor16(row_bytes: int, line_bytes: int) -> RowSwizzle:
    """Return the exchange that frees rows of `row_bytes` of conflicts.

    Args:
        row_bytes: Bytes of a row: a power of two, at least 32.
        line_bytes: Bytes of all banks together (``facts.lds.banks * bank_bytes``).

    Raises:
        ConfigError: Another length of row; `padded` is for those.
    """
    if row_bytes < 2 * PIECE or row_bytes & (row_bytes - 1):
        raise ConfigError("rows of this length cannot be swizzled", code="FLY-C606",
                          value=row_bytes, allowed="powers of two, 32 and up",
                          hint="padded(row_bytes, line_bytes)")  # fmt: skip
    pieces = min(row_bytes, line_bytes) // PIECE
    return RowSwizzle(row_bytes, pieces, max(1, line_bytes // row_bytes))


def padded(row_bytes: int, line_bytes: int) -> int:
    """Return the least pitch in bytes, a multiple of 16, at which rows do not conflict.

    Lanes at one column of as many rows as a line has pieces meet every bank once if the pitch in
    pieces is odd.

    Args:
        row_bytes: Bytes of a row, a multiple of 16.
        line_bytes: Bytes of all banks together.

    Raises:
        ConfigError: The length is no multiple of 16.
    """
    if row_bytes <= 0 or row_bytes % PIECE or line_bytes % PIECE:
        raise ConfigError("rows are whole pieces of 16 bytes", code="FLY-C606", value=row_bytes,
                          allowed="multiples of 16")  # fmt: skip
    pieces = row_bytes // PIECE
    return (pieces | 1) * PIECE
