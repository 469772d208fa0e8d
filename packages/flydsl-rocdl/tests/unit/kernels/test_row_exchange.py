"""The places of exchanged pieces: a bijection without bank conflicts."""

from __future__ import annotations

import pytest

from flydsl_rocdl.arch import lookup
from flydsl_rocdl.kernels.row_exchange import ROW_BYTES, piece_at


def test_pieces_stay_in_their_row() -> None:
    for row in range(16):
        places = sorted(piece_at(row, piece) for piece in range(16))
        assert places == [row * ROW_BYTES + 8 * piece for piece in range(16)]


def _ways(places: list[int], line: int) -> int:
    """Return the most words that one bank gives in a pass of 8 bytes a lane."""
    worst, lanes = 0, line // 8
    for first in range(0, 64, lanes):
        words: dict[int, set[int]] = {}
        for place in places[first : first + lanes]:
            for word in (place // 4, place // 4 + 1):
                words.setdefault(word * 4 % line, set()).add(word)
        worst = max(worst, *(len(found) for found in words.values()))
    return worst


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_writes_and_reads_have_no_conflicts(arch: str) -> None:
    line = lookup(arch).lds.banks * lookup(arch).lds.bank_bytes
    for block in range(4):
        writes = [piece_at(lane % 16, 4 * block + lane // 16) for lane in range(64)]
        assert _ways(writes, line) == 1
    for half in range(2):
        for part in range(2):
            reads = [piece_at(lane // 8 + 8 * half, 2 * (lane % 8) + part) for lane in range(64)]
            assert _ways(reads, line) == 1
