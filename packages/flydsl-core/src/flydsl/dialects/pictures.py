"""Pictures of tiled copies and tiled MMAs: which thread holds which element of the tile."""

from __future__ import annotations

from pathlib import Path

from flydsl import layout as fl
from flydsl.dialects import tiled
from flydsl.dialects.fly_types import TiledCopyType, TiledMmaType
from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout.drawing import Picture, render, thread_value_picture
from flydsl.layout.tuples import IntTuple

__all__ = ["draw_tiled", "tiled_picture"]

_SIDES = ("source", "destination", "tile")
_OPERANDS = ("A", "B", "C", "D")


def tiled_picture(kind: TiledCopyType | TiledMmaType, part: str = "") -> Picture:
    """Return the picture of a tiled operation.

    Args:
        kind: The tiled copy or MMA.
        part: Of a copy ``"source"``, ``"destination"`` or ``"tile"`` (default: as the tile was
            given); of an MMA the operand, ``"A"``, ``"B"``, ``"C"`` or ``"D"`` (default C).

    Raises:
        UserError: There is no such part, or the tile is too large to draw.
    """
    if isinstance(kind, TiledCopyType):
        tv, tile = _copy_layout(kind, part or "tile")
        what = f"{kind.atom.operation}, {part or 'tile'}"
    elif isinstance(kind, TiledMmaType):
        operand = part or "C"
        if operand not in _OPERANDS:
            raise _no_part(operand, _OPERANDS)
        tv = tiled.mma_layout_tv(kind, operand)
        tile = tiled.operand_extents(kind, operand)
        what = f"{kind.atom.operation}, operand {operand}"
    else:
        raise UserTypeError("this is no tiled operation", code="FLY-U116", value=str(kind))
    return thread_value_picture(tv, tile, title=f"{what}: {tv}")


def _no_part(part: str, allowed: tuple[str, ...]) -> UserValueError:
    return UserValueError(
        "there is no such part of a tiled operation to draw",
        code="FLY-U119",
        value=part,
        allowed=", ".join(allowed),
    )


def _copy_layout(kind: TiledCopyType, side: str) -> tuple[fl.Layout, IntTuple]:
    if side not in _SIDES:
        raise _no_part(side, _SIDES)
    tile = tuple(m if isinstance(m, int) else fl.size(m) for m in kind.tile.modes)
    if side == "tile":
        return kind.layout_tv, tile
    operation = kind.atom.operation
    target = operation.src_tv if side == "source" else operation.dst_tv
    return tiled.tiled_copy_tv(kind, target(kind.atom.bits)), tile


def draw_tiled(
    kind: TiledCopyType | TiledMmaType,
    part: str = "",
    *,
    svg: str | Path | None = None,
    html: str | Path | None = None,
) -> str:
    """Return `tiled_picture` as text, and write an SVG or HTML file if asked.

    Raises:
        UserError: As `tiled_picture`, or a file cannot be written.
    """
    return render(tiled_picture(kind, part), svg=svg, html=html)
