"""What a picture consists of, and what can be asked of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout.layouts import Layout

__all__ = ["Cell", "DrawOptions", "Panel", "Picture"]

_MAX_CELLS = 1 << 14


@dataclass(frozen=True, slots=True)
class Cell:
    """One element.

    Attributes:
        row, column: Place in its panel, from 0.
        lines: One or two short labels.
        fill: Background as ``#rrggbb``.
        facts: What is known of it, by name: coordinate, index, thread, value, bank.
        key: Cells of one key light up together on a page; empty for none.
        strong: Whether it has a strong outline.
    """

    row: int
    column: int
    lines: tuple[str, ...]
    fill: str
    facts: tuple[tuple[str, str], ...]
    key: str = ""
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One grid of cells.

    Attributes:
        caption: What tells it from other panels; may be empty.
        rows, columns: Its extents.
        cells: At most one per place.
        row_step, column_step: Distance of the heavier lines; 0 for none.
        wrapped: Whether the rows continue one another, so that they are labelled by position.
    """

    caption: str
    rows: int
    columns: int
    cells: tuple[Cell, ...]
    row_step: int = 0
    column_step: int = 0
    wrapped: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """A titled list of panels.

    Attributes:
        title: The object's text.
        panels: At least one.
        notes: Lines below the panels.
        legend: (colour, meaning) pairs.
    """

    title: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DrawOptions:
    """How to draw.

    Attributes:
        tile: Draw the object as a (thread, value) layout on a tile of this shape; ints or a tuple.
        element_bits: Bits of an element of shared memory; needed for banks.
        banks: Number of banks of the shared memory; colours elements by bank.
        bank_bytes: Width of a bank.
        access_bits: Bits that one lane accesses at once; shows the bank conflicts of that access.
        access: (lane, element) -> linear coordinate of the layout, for the access. The default
            sends neighbouring lanes along mode 0, and each along mode 1 with what it accesses.
        lanes: Lanes that the memory serves in one pass; the default is what fills all banks once.
        title: Replaces the object's text as the title.

    Raises:
        UserError: An option is out of range, or lacks another one.
    """

    tile: Any = None
    element_bits: int | None = None
    banks: int | None = None
    bank_bytes: int = 4
    access_bits: int | None = None
    access: Layout | None = None
    lanes: int | None = None
    title: str = ""

    def __post_init__(self) -> None:
        for name in ("element_bits", "banks", "bank_bytes", "access_bits", "lanes"):
            self._check_number(name, getattr(self, name))
        if self.access is not None and not isinstance(self.access, Layout):
            raise UserTypeError(
                "the access is not a layout", code="FLY-U119", value=str(self.access)
            )
        if not isinstance(self.title, str):
            raise UserTypeError("the title is not text", code="FLY-U119", value=self.title)
        if self.access_bits is not None or self.access is not None:
            self._need("banks", "an access")
        if self.banks is not None:
            self._need("element_bits", "a view of banks")

    @staticmethod
    def _check_number(name: str, value: object) -> None:
        if value is None and name != "bank_bytes":
            return
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 1 << 16:
            raise UserValueError(
                f"the drawing option {name} is not a positive int", code="FLY-U119", value=value
            )

    def _need(self, name: str, what: str) -> None:
        if getattr(self, name) is None:
            raise UserValueError(f"{what} needs the option {name}", code="FLY-U119")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> DrawOptions:
        """Return the options of these names.

        Raises:
            UserError: There is no option of a name, or a value is wrong.
        """
        known = {field.name for field in fields(cls)}
        for name in options:
            if name not in known:
                raise UserTypeError(
                    "there is no such drawing option",
                    code="FLY-U119",
                    value=name,
                    allowed=", ".join(sorted(known)),
                )
        return cls(**options)


def check_size(count: object, what: str) -> int:
    """Return a number of elements if it can be drawn.

    Raises:
        UserError: It is known only at run time, 0 or too large.
    """
    if not isinstance(count, int):
        raise UserValueError(
            "what is known only at run time cannot be drawn",
            code="FLY-U109",
            value=what,
            hint="give the extents and strides values",
        )
    if not 0 < count <= _MAX_CELLS:
        raise UserValueError(
            "a layout is too large to draw, or empty",
            code="FLY-U118",
            value=count,
            allowed=f"1 to {_MAX_CELLS} elements",
            hint="draw a tile of it: zipped_divide it and take mode 0",
        )
    return count
