"""From the lanes of a matrix result to whole rows: a wave's 16 rows through local data share.

A lane of a result has four neighbouring columns of one row in each block of 16 columns: 8 bytes of
16-bit numbers. Stored directly, they touch 32 bytes of many rows. Exchanged within the wave, eight
lanes have the 128 bytes of a row, 16 each. No other wave takes part, so there is no barrier: local
data share serves the operations of a wave in order.

Pieces of 8 bytes are placed by `piece_at`, which frees writes and both halves of the reads of bank
conflicts, with 32 banks and with 64.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl_rocdl.kernels.word_buffers import pinned

__all__ = ["ROW_BYTES", "WAVE_BYTES", "RowExchange", "piece_at"]

ROW_BYTES = 128
"""Bytes of a row: four blocks of 16 columns of 16 bits."""
ROWS = 16
WAVE_BYTES = ROWS * ROW_BYTES
"""Bytes of local data share that a wave needs."""
_PIECE = 8


def piece_at(row: Any, piece: Any) -> Any:
    """Return the byte offset of a piece of 8 bytes, for integers and run-time numbers.

    Piece p of row r is exchanged by ``r ^ (r // 2 % 2)``: all 16 rows differ, as do rows of equal
    parity without the lowest bit, and of four neighbouring rows two each are even and odd.
    """
    return row * ROW_BYTES + (piece ^ row ^ row // 2 % 2) * _PIECE


class RowExchange:
    """Exchanges a wave's rows.

    Args:
        memory: Pointer of Int128 to `WAVE_BYTES` of shared memory of the wave, free for it.
        lane: The lane's number in the wave.
    """

    def __init__(self, memory: Any, lane: Any) -> None:
        row, group = lane % ROWS, lane // ROWS
        self._memory = fx.recast_iter(fx.Int64, memory)
        self._writes = [self._address(row, 4 * block + group) for block in range(4)]
        self.row = lane // 8
        self.piece = lane % 8
        self._reads = [
            self._address(self.row + 8 * half, 2 * self.piece + part)
            for half in range(2)
            for part in range(2)
        ]

    def _address(self, row: Any, piece: Any) -> Any:
        return self._memory + pinned(piece_at(row, piece) // _PIECE)

    def rows(self, values: list[Any]) -> list[Any]:
        """Exchange 16 rows.

        Args:
            values: For each of four blocks of columns, the lane's four 16-bit numbers.

        Returns:
            Two vectors of four Int32: 16 bytes, `piece`, of row `row` and of the row eight later.
        """
        for address, value in zip(self._writes, values, strict=True):
            fx.recast_iter(fx.Int32, address).store(value.bitcast(fx.Int32))
        halves = [fx.recast_iter(fx.Int32, read).load(fx.Int32x2) for read in self._reads]
        return [halves[0].shuffle(halves[1], [0, 1, 2, 3]),
                halves[2].shuffle(halves[3], [0, 1, 2, 3])]  # fmt: skip
