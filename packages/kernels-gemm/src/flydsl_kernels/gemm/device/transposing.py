"""Transposing small blocks in registers."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

__all__ = ["transposed"]

# Selectors of v_perm_b32(high, low): byte 0 to 3 of the result is byte `digit` of low (0 to 3) or
# high (4 to 7).
_LOW_HALVES, _HIGH_HALVES = 0x05040100, 0x07060302
_EVEN_PAIRS, _ODD_PAIRS = 0x06020400, 0x07030501


def _pick(high: Any, low: Any, selector: int) -> Any:
    return fx.rocdl.perm(fx.Int32, high, low, fx.Int32(selector))


def transposed(vectors: list[Any], size: int) -> list[Any]:
    """Transpose: element `i` of every vector becomes vector `i`.

    Args:
        vectors: 16 / `size` vectors of words.
        size: Bytes of an element, 1 or 2.

    Returns:
        As many vectors of four words as a vector had elements.
    """
    words = vectors[0].numel
    columns = [[vector[index] for vector in vectors] for index in range(words)]
    rows: list[list[Any]] = []
    for column in columns:
        rows += _halves(column) if size == 2 else _bytes(column)
    return [fx.Vector.from_elements(row, fx.Int32) for row in rows]


def _halves(words: list[Any]) -> list[list[Any]]:
    pairs = list(zip(words[::2], words[1::2], strict=True))
    return [[_pick(b, a, how) for a, b in pairs] for how in (_LOW_HALVES, _HIGH_HALVES)]


def _bytes(words: list[Any]) -> list[list[Any]]:
    """Four by four bytes at a time: first pairs of bytes, then pairs of halves."""
    rows: list[list[Any]] = [[], [], [], []]
    for first in range(0, len(words), 4):
        a, b, c, d = words[first : first + 4]
        low = [_pick(b, a, how) for how in (_EVEN_PAIRS, _ODD_PAIRS)]
        high = [_pick(d, c, how) for how in (_EVEN_PAIRS, _ODD_PAIRS)]
        for i in range(4):
            how = _LOW_HALVES if i < 2 else _HIGH_HALVES
            rows[i].append(_pick(high[i % 2], low[i % 2], how))
    return rows
