"""Orders of tiles: bijections that keep the workgroups of one die together."""

from __future__ import annotations

import numpy as np
import pytest

from flydsl.errors import ConfigError
from flydsl_rocdl.kernels.tile_order import grouped, xcd_remap, xcd_tile


def test_every_order_is_a_bijection() -> None:
    random = np.random.default_rng(1)
    extents = [(1, 1), (1, 9), (8, 8), *random.integers(1, 40, (12, 2)).tolist()]
    for rows, columns in extents:
        everything = {(r, c) for r in range(rows) for c in range(columns)}
        for group in (0, 1, 3, 4, 64):
            found = {xcd_tile(r, c, rows, columns, group=group) for r, c in everything}
            assert found == everything, (rows, columns, group)


@pytest.mark.parametrize("count", [1, 7, 8, 13, 64, 305])
def test_the_workgroups_of_a_die_have_neighbouring_tiles(count: int) -> None:
    for die in range(8):
        tiles = [xcd_remap(number, count) for number in range(die, count, 8)]
        assert tiles == list(range(tiles[0], tiles[0] + len(tiles))) if tiles else True
    # The formula as the reference states it.
    whole, rest = divmod(count, 8)
    for number in range(count):
        die = number % 8
        assert xcd_remap(number, count) == whole * die + min(die, rest) + number // 8


def test_groups_are_walked_column_by_column() -> None:
    order = [grouped(number, 5, 3, 2) for number in range(15)]
    assert order[:4] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert order[12:] == [(4, 0), (4, 1), (4, 2)]
    assert [grouped(number, 5, 3, 0) for number in range(4)] == [(0, 0), (0, 1), (0, 2), (1, 0)]


def test_impossible_extents_are_refused() -> None:
    for make in (lambda: xcd_remap(0, 4, 0), lambda: grouped(0, 4, 4, -1)):
        with pytest.raises(ConfigError) as caught:
            make()
        assert caught.value.code == "FLY-C607"
