"""Which tile of C a workgroup computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx
from flydsl_rocdl.kernels.tile_order import grouped, xcd_remap

__all__ = ["Spot", "spot", "spot_of"]


@dataclass(frozen=True, slots=True)
class Spot:
    """A workgroup's place.

    Attributes:
        layer: Matrix of the batch, or of the workspace: ``split * batches + batch``.
        tile_m: Tile along M.
        tile_n: Tile along N.
    """

    layer: Any
    tile_m: Any
    tile_n: Any


def spot_of(number: Any, tiles: tuple[Any, Any], group: int) -> Spot:
    """Return the place of tile `number`, of those of all matrices.

    Args:
        number: The tile.
        tiles: Tiles along M, and along N.
        group: Tiles along M that are walked together.
    """
    each = tiles[0] * tiles[1]
    tile_m, tile_n = grouped(number % each, *tiles, group)
    return Spot(number // each, tile_m, tile_n)


def spot(tiles: tuple[Any, Any], layers: Any, group: int, dies: int) -> Spot:
    """Return the calling workgroup's place, of a launch of one for each tile.

    Args:
        tiles: Tiles along M, and along N.
        layers: Matrices.
        group: Tiles along M that are walked together.
        dies: Dies that workgroups are dealt to in turn.
    """
    number = xcd_remap(fx.block_idx.x, tiles[0] * tiles[1] * layers, dies)
    return spot_of(number, tiles, group)
