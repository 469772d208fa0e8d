"""Pictures as text."""

from __future__ import annotations

from flydsl.layout.drawing.colours import terminal_code
from flydsl.layout.drawing.model import Cell, Panel, Picture

__all__ = ["to_terminal"]

_RESET = "\x1b[0m"


def to_terminal(picture: Picture, *, color: bool = False) -> str:
    """Return a picture as lines of text, coloured with terminal escapes if asked."""
    out = [picture.title]
    for panel in picture.panels:
        if panel.caption:
            out += ["", panel.caption]
        out += _grid(panel, color)
    out += picture.notes
    if color:
        out += [f"{terminal_code(fill)} {text} {_RESET}" for fill, text in picture.legend]
    return "\n".join(out)


def _label(cell: Cell) -> str:
    return ":".join(line for line in cell.lines if line)


def _grid(panel: Panel, color: bool) -> list[str]:
    at = {(cell.row, cell.column): cell for cell in panel.cells}
    width = max([len(_label(cell)) for cell in panel.cells] + [len(str(panel.columns - 1))])
    scale = panel.columns if panel.wrapped else 1
    side = len(str((panel.rows - 1) * scale))
    gap = " " * side
    numbers = [f"{c:>{width}}" for c in range(panel.columns)]
    lines = [f"{gap}  {_joined(numbers, panel, ' ', '   ')}"]
    rule = _joined(["-" * width] * panel.columns, panel, "-", "-+-")
    lines.append(f"{gap} +{rule}")
    for row in range(panel.rows):
        if row and panel.row_step and row % panel.row_step == 0:
            lines.append(f"{gap} |{rule}")
        cells = []
        for column in range(panel.columns):
            cell = at.get((row, column))
            text = f"{_label(cell) if cell else '':>{width}}"
            cells.append(f"{terminal_code(cell.fill)}{text}{_RESET}" if cell and color else text)
        lines.append(f"{row * scale:>{side}} |{_joined(cells, panel, ' ', ' | ')}".rstrip())
    return lines


def _joined(cells: list[str], panel: Panel, between: str, at_step: str) -> str:
    """Join cells with `between`, and with `at_step` where a sub-mode ends."""
    out = cells[0]
    for column, cell in enumerate(cells[1:], 1):
        ends = panel.column_step and column % panel.column_step == 0
        out += (at_step if ends else between) + cell
    return out
