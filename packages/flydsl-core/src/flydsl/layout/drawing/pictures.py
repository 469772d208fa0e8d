"""From layout objects to pictures: plain, swizzled and thread-value layouts, and banks.

Mode 0 runs down, mode 1 across, and each coordinate of further modes gives a panel of its own. A
layout of rank 1 is a row, wrapped when it is long. Heavier lines part what the first sub-mode of a
nested mode covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout import evaluate as ev
from flydsl.layout.composed import ComposedLayout, CoordTensor
from flydsl.layout.drawing import colours
from flydsl.layout.drawing.banks import BankReport, bank_conflicts, words_of
from flydsl.layout.drawing.model import Cell, DrawOptions, Panel, Picture, check_size
from flydsl.layout.layouts import Layout
from flydsl.layout.queries import crd2idx, size
from flydsl.layout.swizzle import Swizzle
from flydsl.layout.tuples import (
    IntTuple,
    flatten,
    format_tuple,
    int_tuple_product,
    normalize,
)

__all__ = ["picture", "thread_value_picture"]

_WRAP = 32


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one element is drawn: panel, row, column, and its coordinates."""

    panel: int
    row: int
    column: int
    linear: int
    coordinate: IntTuple


def _nested(index: int, shape: IntTuple) -> IntTuple:
    """Return the coordinate of a linear coordinate, nested like the shape."""
    if not isinstance(shape, tuple):
        return index
    out = []
    for part in shape:
        extent = int_tuple_product(part)
        assert isinstance(extent, int)
        out.append(_nested(index % extent, part))
        index //= extent
    return tuple(out)


@dataclass(frozen=True, slots=True)
class _Grid:
    """How the coordinates of a static shape lie on panels."""

    shape: IntTuple
    rows: int
    columns: int
    panels: int
    wrapped: bool

    @classmethod
    def of(cls, shape: IntTuple) -> _Grid:
        total = check_size(int_tuple_product(shape), format_tuple(shape))
        sizes = [int_tuple_product(s) for s in shape] if isinstance(shape, tuple) else [total]
        assert all(isinstance(s, int) for s in sizes)
        if len(sizes) == 1:
            width = min(total, _WRAP)
            return cls(shape, -(-total // width), width, 1, total > width)
        rows, columns = sizes[0], sizes[1]
        assert isinstance(rows, int)
        assert isinstance(columns, int)
        return cls(shape, rows, columns, total // (rows * columns), False)

    def places(self) -> Iterator[_Place]:
        """Yield the place of every linear coordinate, in order."""
        total = int_tuple_product(self.shape)
        assert isinstance(total, int)
        for i in range(total):
            if self.wrapped or self.rows == 1:
                panel, rest = divmod(i, self.rows * self.columns)
                row, column = divmod(rest, self.columns)
            else:
                panel, rest = divmod(i, self.rows * self.columns)
                column, row = divmod(rest, self.rows)
            yield _Place(panel, row, column, i, _nested(i, self.shape))

    def step(self, mode: int) -> int:
        """Return how many coordinates the first sub-mode of a mode covers; 0 if it has no more."""
        if not isinstance(self.shape, tuple) or self.wrapped:
            return 0
        part = self.shape[mode] if mode < len(self.shape) else None
        if len(self.shape) == 1:
            part = self.shape[0] if mode == 1 else None
        if not isinstance(part, tuple) or len(part) < 2:
            return 0
        first = int_tuple_product(part[0])
        assert isinstance(first, int)
        return first if 1 < first < int_tuple_product(part) else 0  # type: ignore[operator]

    def caption(self, panel: int) -> str:
        """Return the coordinate of the modes after the first two, as ``(*,*,1)``."""
        if self.panels == 1:
            return ""
        assert isinstance(self.shape, tuple)
        rest = _nested(panel, self.shape[2:])
        return "(*,*," + ",".join(format_tuple(c) for c in rest) + ")"

    def drawn(self, cells: list[tuple[int, Cell]]) -> tuple[Panel, ...]:
        """Return the panels with these (panel, cell) pairs."""
        by_panel: dict[int, list[Cell]] = {}
        for panel, cell in cells:
            by_panel.setdefault(panel, []).append(cell)
        return tuple(
            Panel(
                self.caption(number),
                self.rows,
                self.columns,
                tuple(by_panel.get(number, ())),
                self.step(0),
                self.step(1),
                self.wrapped,
            )
            for number in range(self.panels)
        )


def _text(value: IntTuple) -> str:
    return format_tuple(value)


def picture(x: Any, options: DrawOptions) -> Picture:
    """Return the picture of a layout object.

    Raises:
        UserError: It is of another kind, not static, or too large.
    """
    if isinstance(x, Swizzle):
        x = ComposedLayout(x, 0, _period(x))
    if not isinstance(x, Layout | ComposedLayout | CoordTensor):
        raise UserTypeError(
            "this object cannot be drawn",
            code="FLY-U116",
            value=str(x),
            allowed="Layout, ComposedLayout, CoordTensor, Swizzle",
        )
    if not x.is_static:
        check_size(None, str(x))
    if options.tile is not None:
        if not isinstance(x, Layout):
            raise UserTypeError(
                "a thread-value layout is a plain layout", code="FLY-U116", value=str(x)
            )
        return thread_value_picture(x, options.tile, title=options.title)
    if options.banks is not None:
        if isinstance(x, CoordTensor):
            raise UserTypeError("banks need a layout of indices", code="FLY-U116", value=str(x))
        return _bank_picture(x, options)
    return _layout_picture(x, options.title)


def _period(swizzle: Swizzle) -> Layout:
    """Return one period of a swizzle as rows that it moves elements within."""
    columns = 1 << (swizzle.base + max(abs(swizzle.shift), swizzle.mask))
    rows = max(check_size(swizzle.period, str(swizzle)) // columns, 1)
    return Layout((rows, columns), (columns, 1))


def _layout_picture(x: Layout | ComposedLayout | CoordTensor, title: str) -> Picture:
    grid = _Grid.of(x.shape)
    places = list(grid.places())
    values = [crd2idx(place.linear, x) for place in places]
    numbers = [v if isinstance(v, int) else p.linear for v, p in zip(values, places, strict=True)]
    low, span = min(numbers), max(numbers) - min(numbers) + 1
    cells = []
    for place, value, number in zip(places, values, numbers, strict=True):
        facts = [("coordinate", _text(place.coordinate)), ("linear coordinate", str(place.linear))]
        facts.append(("value" if isinstance(value, tuple) else "index", _text(value)))
        shade = colours.for_share(number - low, span)
        cell = Cell(place.row, place.column, (_text(value),), shade, tuple(facts), key=_text(value))
        cells.append((place.panel, cell))
    return Picture(title or str(x), grid.drawn(cells), (_sizes(x, numbers),))


def _sizes(x: Layout | ComposedLayout | CoordTensor, numbers: list[int]) -> str:
    text = f"{size(x)} elements"
    if isinstance(x.codomain, int):
        text += f", indices {min(numbers)} to {max(numbers)}"
        if len(set(numbers)) < len(numbers):
            text += f", {len(set(numbers))} of them different"
    return text


def thread_value_picture(tv: Layout, tile: Any, *, title: str = "") -> Picture:
    """Return the picture of a thread-value layout: which thread holds each element of a tile.

    Args:
        tv: (thread, value) -> linear coordinate in the tile.
        tile: Shape of the tile: ints or tuples, one per mode.
        title: Replaces the layout's text.

    Raises:
        UserError: The layout has another rank than 2, is not static, or leaves the tile.
    """
    shape = normalize(tile, "the tile")
    if tv.rank != 2 or not tv.is_static or any(not isinstance(d, int) for d in flatten(tv.stride)):
        raise UserValueError(
            "a thread-value layout is static and of rank 2", code="FLY-U119", value=str(tv)
        )
    grid = _Grid.of(shape)
    total = int_tuple_product(shape)
    assert isinstance(total, int)
    check_size(size(tv), str(tv))
    threads, values = size(tv, 0), size(tv, 1)
    assert isinstance(threads, int)
    assert isinstance(values, int)
    holders: dict[int, list[tuple[int, int]]] = {}
    for thread in range(threads):
        for value in range(values):
            at = ev.evaluate((thread, value), tv.shape, tv.stride)
            if not 0 <= at < total:
                raise UserValueError(
                    "a thread-value layout leaves its tile",
                    code="FLY-U119",
                    value=f"thread {thread}, value {value}: position {at}",
                    allowed=f"0 to {total - 1}",
                )
            holders.setdefault(at, []).append((thread, value))
    cells = [(p.panel, _held(p, holders.get(p.linear, []))) for p in grid.places()]
    covered = f"{threads} threads, {values} values each"
    if len(holders) < total:
        covered += f"; {total - len(holders)} of {total} elements held by none"
    if any(len(held) > 1 for held in holders.values()):
        covered += "; +n: n more hold the element"
    shown = title or f"{tv} on {format_tuple(shape)}"
    return Picture(shown, grid.drawn(cells), (covered,))


def _held(place: _Place, holders: list[tuple[int, int]]) -> Cell:
    facts = [("coordinate", _text(place.coordinate)), ("index", str(place.linear))]
    if not holders:
        return Cell(place.row, place.column, ("",), colours.BLANK, (*facts, ("thread", "none")))
    thread, value = holders[0]
    more = f"+{len(holders) - 1}" if len(holders) > 1 else ""
    several = [f"{t} (value {v})" for t, v in holders[:8]]
    if len(holders) > 8:
        several.append(f"{len(holders) - 8} more")
    if more:
        facts.append(("threads", ", ".join(several)))
    else:
        facts += [("thread", str(thread)), ("value", str(value))]
    lines = (f"T{thread}{more}", f"V{value}")
    fill = colours.for_key(thread)
    return Cell(place.row, place.column, lines, fill, tuple(facts), key=f"thread {thread}")


def _bank_picture(x: Layout | ComposedLayout, options: DrawOptions) -> Picture:
    assert options.banks is not None
    assert options.element_bits is not None
    grid = _Grid.of(x.shape)
    report = None
    if options.access_bits is not None or options.access is not None:
        report = bank_conflicts(x, options)
    paint = _by_bank(options.banks) if report is None else _by_conflict(report, options.banks)
    cells = []
    for place in grid.places():
        index = crd2idx(place.linear, x)
        if not isinstance(index, int):
            raise UserTypeError("banks need a layout of indices", code="FLY-U116", value=str(x))
        word = words_of(index, options.element_bits, options.bank_bytes)[0]
        facts = (
            ("coordinate", _text(place.coordinate)),
            ("index", str(index)),
            ("byte", f"{index * options.element_bits / 8:g}"),
            ("bank", str(word % options.banks)),
        )
        cells.append((place.panel, paint(place, word, facts)))
    title = options.title or str(x)
    where = f"{options.banks} banks of {options.bank_bytes} bytes"
    where += f", elements of {options.element_bits} bits"
    if report is None:
        return Picture(title, grid.drawn(cells), (f"{where}; each element shows its bank",))
    most = max(report.ways)
    notes = (
        f"{where}; {len(report.accesses)} lanes access {options.access_bits or 'several'} bits"
        if options.access_bits
        else f"{where}; {len(report.accesses)} lanes access {options.access}",
        f"{len(report.ways)} passes take {report.clocks} clocks: "
        + ("no bank conflict" if most == 1 else f"up to {most}-way bank conflicts"),
    )
    legend = tuple(
        (colours.for_ways(ways), f"{ways}-way" if ways > 1 else "no conflict")
        for ways in sorted({w for served in report.served for w in served.values()})
    )
    if any(cell.fill == colours.BLANK for _, cell in cells):
        legend = (*legend, (colours.BLANK, "not accessed"))
    return Picture(title, grid.drawn(cells), notes, legend)


_Paint = Callable[[_Place, int, tuple[tuple[str, str], ...]], Cell]


def _by_bank(banks: int) -> _Paint:
    def paint(place: _Place, word: int, facts: tuple[tuple[str, str], ...]) -> Cell:
        bank = word % banks
        fill = colours.for_key(bank)
        return Cell(place.row, place.column, (str(bank),), fill, facts, key=f"bank {bank}")

    return paint


def _by_conflict(report: BankReport, banks: int) -> _Paint:
    lane_at: dict[int, list[int]] = {}
    value_at: dict[int, int] = {}
    for access in report.accesses:
        for value, coordinate in enumerate(access.coordinates):
            lane_at.setdefault(coordinate, []).append(access.lane)
            value_at.setdefault(coordinate, value)

    def paint(place: _Place, word: int, facts: tuple[tuple[str, str], ...]) -> Cell:
        bank = word % banks
        lanes = lane_at.get(place.linear, [])
        if not lanes:
            return Cell(
                place.row, place.column, ("", f"b{bank}"), colours.BLANK, facts, key=f"bank {bank}"
            )
        access = report.accesses[lanes[0]]
        ways = report.served[access.turn][bank]
        more = (
            ("thread", ", ".join(map(str, lanes[:8])) + (", ..." if len(lanes) > 8 else "")),
            ("value", str(value_at[place.linear])),
            ("pass", str(access.turn)),
            ("words that the bank gives in the pass", str(ways)),
        )
        lines = (f"T{lanes[0]}" + (f"+{len(lanes) - 1}" if len(lanes) > 1 else ""), f"b{bank}")
        return Cell(
            place.row,
            place.column,
            lines,
            colours.for_ways(ways),
            (*facts, *more),
            key=f"bank {bank}",
            strong=access.turn == 0,
        )

    return paint
