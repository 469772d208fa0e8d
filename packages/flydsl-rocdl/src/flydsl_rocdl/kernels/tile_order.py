"""In which order workgroups take the tiles of a result.

Workgroups are dealt to the dies (XCDs) of a GPU in turn, each with a cache of its own. Numbering
the tiles so that the workgroups of one die have neighbouring tiles, and those in narrow columns of
tiles, lets them share rows of A and columns of B in that cache. Each function is a bijection of
the tiles, for Python integers and for run-time numbers alike.
"""

from __future__ import annotations

from typing import Any

from flydsl.errors import ConfigError
from flydsl.expr import min as smaller

__all__ = ["grouped", "xcd_remap", "xcd_tile"]

XCDS = 8
"""Dies of MI300X, MI325X, MI350X and MI355X."""


def _least(a: Any, b: Any) -> Any:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else smaller(a, b)


def _checked(what: str, value: Any) -> None:
    if isinstance(value, int) and value < 1:
        raise ConfigError(f"{what} of an order of tiles is not positive", code="FLY-C607",
                          value=value, allowed="1 and up")  # fmt: skip


def xcd_remap(number: Any, count: Any, xcds: int = XCDS) -> Any:
    """Return the tile of workgroup `number`: those of one die get consecutive tiles.

    With q, r = divmod(count, xcds), die x gets tiles ``x q + min(x, r)`` and up.

    Args:
        number: The workgroup, 0 to count - 1.
        count: Number of tiles.
        xcds: Dies that workgroups are dealt to in turn.

    Raises:
        ConfigError: No dies.
    """
    _checked("the number of dies", xcds)
    if xcds == 1:
        return number
    whole, rest = count // xcds, count % xcds
    die = number % xcds
    return die * whole + _least(die, rest) + number // xcds


def grouped(number: Any, rows: Any, columns: Any, group: int) -> tuple[Any, Any]:
    """Return (row, column) of tile `number` when groups of `group` rows are walked by columns.

    Args:
        number: 0 to rows * columns - 1.
        rows: Tiles along M.
        columns: Tiles along N.
        group: Rows of a group; the last group has what is left. 0 walks row by row.

    Raises:
        ConfigError: A negative group.
    """
    if group == 0:
        return number // columns, number % columns
    _checked("the group", group)
    per_group = columns * group
    first = number // per_group * group
    height = _least(rows - first, group)
    within = number % per_group
    return first + within % height, within // height


def xcd_tile(
    row: Any, column: Any, rows: Any, columns: Any, *, group: int = 0, xcds: int = XCDS
) -> tuple[Any, Any]:
    """Return the tile (row, column) of the workgroup that the grid calls (row, column).

    Args:
        row: The workgroup's first index.
        column: Its second index.
        rows: Tiles along M.
        columns: Tiles along N.
        group: Rows that are walked column by column; 0 leaves the order as it is.
        xcds: Dies of the GPU.
    """
    if group == 0:
        return row, column
    number = xcd_remap(row * columns + column, rows * columns, xcds)
    return grouped(number, rows, columns, group)
