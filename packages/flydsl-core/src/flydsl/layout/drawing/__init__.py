"""Pictures of layouts: text for a terminal, SVG files, and HTML pages that answer to the pointer.

`draw` does it all. Modules, low to high: `model` (what a picture consists of, and the options),
`colours`, `banks` (which banks an access meets), `pictures` (from layout objects to pictures),
`terminal`, `svg`, `page` (from pictures to text, SVG and HTML).

To draw another kind of object, add a function to `pictures` and a line to `picture`; to add an
output format, add a module that turns a `Picture` into text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flydsl.errors import UserValueError
from flydsl.layout.drawing.banks import BankReport, bank_conflicts
from flydsl.layout.drawing.model import Cell, DrawOptions, Panel, Picture
from flydsl.layout.drawing.page import to_html
from flydsl.layout.drawing.pictures import picture, thread_value_picture
from flydsl.layout.drawing.svg import to_svg
from flydsl.layout.drawing.terminal import to_terminal

__all__ = [
    "BankReport",
    "Cell",
    "DrawOptions",
    "Panel",
    "Picture",
    "bank_conflicts",
    "draw",
    "picture",
    "render",
    "thread_value_picture",
    "to_html",
    "to_svg",
    "to_terminal",
]


def draw(
    x: Any, *, svg: str | Path | None = None, html: str | Path | None = None, **options: Any
) -> str:
    """Return a text picture of a layout object, and write files if asked.

    Args:
        x: Static Layout, ComposedLayout, CoordTensor or Swizzle.
        svg: File to write an SVG picture to.
        html: File to write a page to, on which the pointer shows coordinate, index, thread, value
            and bank of an element.
        **options: Fields of `DrawOptions`.

    Raises:
        UserError: `x` cannot be drawn, an option is wrong, or a file cannot be written.
    """
    return render(picture(x, DrawOptions.of(options)), svg=svg, html=html)


def render(
    made: Picture,
    *,
    svg: str | Path | None = None,
    html: str | Path | None = None,
    color: bool = False,
) -> str:
    """Return a picture as text, and write files if asked; see `draw`.

    Args:
        made: The picture.
        svg: File to write SVG to.
        html: File to write a page to.
        color: Colour the text with terminal escapes (256 colours).
    """
    for name, convert in ((svg, to_svg), (html, to_html)):
        if name is not None:
            try:
                Path(name).write_text(convert(made), encoding="utf-8")
            except OSError as error:
                raise UserValueError(
                    f"{name} cannot be written: {error}", code="FLY-U120"
                ) from error
    return to_terminal(made, color=color)
