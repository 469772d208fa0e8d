"""Which tile of C a workgroup computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx
from flydsl_rocdl.kernels.tile_order import grouped, xcd_remap

__all__ = ["Spot", "spot"]


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


def spot(tiles: tuple[Any, Any], layers: Any, group: int, dies: int) -> Spot:
    """Return the calling workgroup's place.

    Args:
        tiles: Tiles along M, and along N.
        layers: Matrices.
        group: Tiles along M that are walked together.
        dies: Dies that workgroups are dealt to in turn.
    """
    tiles_m, tiles_n = tiles
    each = tiles_m * tiles_n
    number = xcd_remap(fx.block_idx.x, each * layers, dies)
    tile_m, tile_n = grouped(number % each, tiles_m, tiles_n, group)
    return Spot(number // each, tile_m, tile_n)
