"""Swizzled and padded rows: bijections without bank conflicts, by the arithmetic of banks."""

from __future__ import annotations

import pytest

from flydsl.errors import ConfigError
from flydsl.layout import ComposedLayout, Layout, crd2idx
from flydsl_rocdl.arch import lookup
from flydsl_rocdl.kernels.swizzle import PIECE, RowSwizzle, padded, xor16

LINES = {
    name: lookup(name).lds.banks * lookup(name).lds.bank_bytes for name in ("gfx942", "gfx950")
}
ROWS = [32, 64, 128, 256, 512, 1024]


def _ways(places: list[int], line: int) -> int:
    """Return the most words that one bank gives in a pass; lanes move 16 bytes each."""
    worst = 0
    lanes = line // PIECE
    for first in range(0, len(places), lanes):
        words: dict[int, set[int]] = {}
        for place in places[first : first + lanes]:
            for word in range(place // 4, place // 4 + 4):
                words.setdefault(word * 4 % line, set()).add(word)
        worst = max(worst, *(len(found) for found in words.values()))
    return worst


def _reads(rows: RowSwizzle, column: int) -> list[int]:
    """Return where 64 lanes read: lane t row t % 16, piece column + t // 16."""
    return [rows.place(lane % 16, column + lane // 16) for lane in range(64)]


def _writes(rows: RowSwizzle, first: int) -> list[int]:
    """Return where 64 lanes write neighbouring pieces of a tile."""
    pieces = rows.row_bytes // PIECE
    return [rows.place(*divmod(first + lane, pieces)) for lane in range(64)]


@pytest.mark.parametrize("arch", LINES)
@pytest.mark.parametrize("row_bytes", ROWS)
def test_reads_and_writes_have_no_conflicts(arch: str, row_bytes: int) -> None:
    rows = xor16(row_bytes, LINES[arch])
    pieces = row_bytes // PIECE
    for column in range(0, pieces - 3, 4):
        assert _ways(_reads(rows, column), LINES[arch]) == 1
    for first in range(0, 32 * pieces, 64):
        assert _ways(_writes(rows, first), LINES[arch]) == 1


@pytest.mark.parametrize("arch", LINES)
def test_plain_rows_do_conflict(arch: str) -> None:
    plain = RowSwizzle(512, 1, 1)
    assert _ways(_reads(plain, 0), LINES[arch]) == LINES[arch] // PIECE


@pytest.mark.parametrize("arch", LINES)
@pytest.mark.parametrize("row_bytes", ROWS)
def test_pieces_are_only_exchanged_within_rows_and_the_swizzle_says_the_same(
    arch: str, row_bytes: int
) -> None:
    rows = xor16(row_bytes, LINES[arch])
    pieces = row_bytes // PIECE
    for row in range(32):
        places = sorted(rows.place(row, piece) for piece in range(pieces))
        assert places == [row * row_bytes + piece * PIECE for piece in range(pieces)]
    for bits in (4, 8, 16, 32):
        layout = ComposedLayout(
            rows.swizzle(bits), 0, Layout((32, row_bytes * 8 // bits), (row_bytes * 8 // bits, 1))
        )
        unit = PIECE * 8 // bits
        for row in range(32):
            for piece in range(pieces):
                index = crd2idx((row, piece * unit), layout)
                assert index * bits == rows.place(row, piece) * 8


@pytest.mark.parametrize("arch", LINES)
@pytest.mark.parametrize("row_bytes", ROWS[1:])
def test_columns_of_four_pieces_share_addresses(arch: str, row_bytes: int) -> None:
    rows = xor16(row_bytes, LINES[arch])
    for column in range(row_bytes // 64):
        base, turns = column % rows.variants, column // rows.variants
        for lane in range(64):
            row, group = lane % 16, lane // 16
            expected = rows.place(row, 4 * column + group)
            assert rows.place(row, 4 * base + group) + turns * rows.variants * 64 == expected


@pytest.mark.parametrize("arch", LINES)
@pytest.mark.parametrize("row_bytes", [48, 96, 128, 192, 320, 512])
def test_padded_rows_have_no_conflicts(arch: str, row_bytes: int) -> None:
    pitch = padded(row_bytes, LINES[arch])
    assert pitch - row_bytes in (0, PIECE)
    places = [lane % 16 * pitch + lane // 16 * PIECE for lane in range(64)]
    assert _ways(places, LINES[arch]) == 1


@pytest.mark.parametrize(
    ("make", "value"),
    [(lambda: xor16(96, 128), 96), (lambda: xor16(16, 128), 16), (lambda: padded(24, 128), 24),
     (lambda: xor16(128, 128).swizzle(6), (6, 128))],
)  # fmt: skip
def test_other_lengths_are_refused(make: object, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        make()  # type: ignore[operator]
    assert (caught.value.code, caught.value.value) == ("FLY-C606", value)
