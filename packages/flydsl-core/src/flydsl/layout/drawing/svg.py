"""Pictures as SVG: rectangles with text, no scripts and no fonts of their own."""

from __future__ import annotations

from html import escape

from flydsl.layout.drawing.model import Cell, Panel, Picture

__all__ = ["svg_body", "to_svg"]

_FONT = 11
_CHARACTER = 6.7
"""Width of one character of a monospaced font at `_FONT` pixels."""
_MARGIN, _LINE, _TITLE = 12, 13, 15


class _Canvas:
    """Collects elements and how far they reach."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.width = 0.0
        self.y = float(_MARGIN)

    def text(self, x: float, y: float, text: str, style: str = "") -> None:
        self.parts.append(f'<text x="{x:g}" y="{y:g}"{style}>{escape(text)}</text>')

    def line(self, text: str, bold: bool = False) -> None:
        """Add a line of running text."""
        size = 13 if bold else _FONT
        style = f' class="{"t" if bold else "n"}"'
        self.y += _TITLE
        self.text(_MARGIN, self.y, text, style)
        self.width = max(self.width, _MARGIN + len(text) * _CHARACTER * size / _FONT)


def to_svg(picture: Picture) -> str:
    """Return a picture as an SVG document; each cell has a tool tip."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{svg_body(picture)}\n'


def svg_body(picture: Picture) -> str:
    """Return the ``svg`` element of a picture."""
    canvas = _Canvas()
    canvas.line(picture.title, bold=True)
    longest = max(
        (len(line) for panel in picture.panels for cell in panel.cells for line in cell.lines),
        default=1,
    )
    lines = max((len(c.lines) for panel in picture.panels for c in panel.cells), default=1)
    for panel in picture.panels:
        if panel.caption:
            canvas.line(panel.caption)
        _panel(canvas, panel, max(26.0, longest * _CHARACTER + 8), 10.0 + _LINE * lines)
    for note in picture.notes:
        canvas.line(note)
    if picture.legend:
        _legend(canvas, picture.legend)
    width, height = canvas.width + _MARGIN, canvas.y + _MARGIN
    style = (
        "text{font-family:ui-monospace,DejaVu Sans Mono,Menlo,Consolas,monospace;"
        f"font-size:{_FONT}px;fill:#111}}"
        ".c{text-anchor:middle}.h{fill:#555;text-anchor:middle}.r{fill:#555;text-anchor:end}"
        ".t{font-size:13px;font-weight:bold}"
        "rect{stroke:#8a8a8a;stroke-width:.6}.s{stroke:#111;stroke-width:1.6}"
        ".l{stroke:#111;stroke-width:2}"
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img">'
    )
    background = f'<path fill="#fff" d="M0 0h{width:g}v{height:g}h-{width:g}z"/>'
    inside = "\n".join(canvas.parts)
    title = f"<title>{escape(picture.title)}</title>"
    return f"{head}\n{title}\n<style>{style}</style>\n{background}\n{inside}\n</svg>"


def _panel(canvas: _Canvas, panel: Panel, width: float, height: float) -> None:
    scale = panel.columns if panel.wrapped else 1
    left = _MARGIN + 6 + len(str((panel.rows - 1) * scale)) * _CHARACTER
    top = canvas.y + _TITLE + 6
    for column in range(panel.columns):
        canvas.text(left + (column + 0.5) * width, top - 4, str(column), ' class="h"')
    for row in range(panel.rows):
        middle = top + (row + 0.5) * height + 4
        canvas.text(left - 4, middle, str(row * scale), ' class="r"')
    # Strong outlines last, so that neighbours do not paint over them.
    for cell in sorted(panel.cells, key=lambda c: c.strong):
        canvas.parts.append(
            _cell(cell, left + cell.column * width, top + cell.row * height, width, height)
        )
    right, bottom = left + panel.columns * width, top + panel.rows * height
    canvas.parts += [
        f'<path class="l" d="M{left + c * width:g} {top:g}V{bottom:g}"/>'
        for c in _boundaries(panel.columns, panel.column_step)
    ]
    canvas.parts += [
        f'<path class="l" d="M{left:g} {top + r * height:g}H{right:g}"/>'
        for r in _boundaries(panel.rows, panel.row_step)
    ]
    canvas.width = max(canvas.width, right)
    canvas.y = bottom + 4


def _boundaries(count: int, step: int) -> range:
    return range(step, count, step) if step else range(0)


def _cell(cell: Cell, x: float, y: float, width: float, height: float) -> str:
    tip = "\n".join(f"{name}: {value}" for name, value in cell.facts)
    key = f' data-k="{escape(cell.key)}"' if cell.key else ""
    strong = ' class="s"' if cell.strong else ""
    lines = [line for line in cell.lines if line]
    base = y + height / 2 + 4 - _LINE * (len(lines) - 1) / 2
    texts = "".join(
        f'<text class="c" x="{x + width / 2:g}" y="{base + _LINE * i:g}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    box = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{cell.fill}"'
    return f"<g{key}><title>{escape(tip)}</title><rect{strong} {box}/>{texts}</g>"


def _legend(canvas: _Canvas, legend: tuple[tuple[str, str], ...]) -> None:
    canvas.y += _TITLE + 2
    x = float(_MARGIN)
    for fill, text in legend:
        canvas.parts.append(
            f'<rect x="{x:g}" y="{canvas.y - 10:g}" width="12" height="12" fill="{fill}"/>'
        )
        canvas.text(x + 17, canvas.y, text, ' class="n"')
        x += 17 + len(text) * _CHARACTER + 18
    canvas.width = max(canvas.width, x)
