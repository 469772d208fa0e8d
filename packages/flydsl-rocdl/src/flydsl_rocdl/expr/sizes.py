"""Sizes of blocks and grids under their ROCDL names, with the result type first."""

from __future__ import annotations

from typing import Any

from flydsl.expr.gpu import block_dim, grid_dim
from flydsl.expr.numeric import Int32, Numeric
from flydsl_rocdl.expr.raw import checked

__all__ = [
    "grid_dim_x",
    "grid_dim_y",
    "grid_dim_z",
    "workgroup_dim_x",
    "workgroup_dim_y",
    "workgroup_dim_z",
]


def workgroup_dim_x(res: Any = Int32) -> Numeric:
    """Return the threads of a block along x."""
    return checked("workgroup_dim_x", res, Int32(block_dim.x))


def workgroup_dim_y(res: Any = Int32) -> Numeric:
    """Return the threads of a block along y."""
    return checked("workgroup_dim_y", res, Int32(block_dim.y))


def workgroup_dim_z(res: Any = Int32) -> Numeric:
    """Return the threads of a block along z."""
    return checked("workgroup_dim_z", res, Int32(block_dim.z))


def grid_dim_x(res: Any = Int32) -> Numeric:
    """Return the blocks of the grid along x."""
    return checked("grid_dim_x", res, Int32(grid_dim.x))


def grid_dim_y(res: Any = Int32) -> Numeric:
    """Return the blocks of the grid along y."""
    return checked("grid_dim_y", res, Int32(grid_dim.y))


def grid_dim_z(res: Any = Int32) -> Numeric:
    """Return the blocks of the grid along z."""
    return checked("grid_dim_z", res, Int32(grid_dim.z))
