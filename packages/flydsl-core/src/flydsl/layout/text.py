"""Canonical text: `parse` reads back what `str()` writes.

Grammar: tuples ``(4,(?{div=8},*))``; basis strides ``2E0`` and ``?E1E0``; layouts ``shape:stride``;
``S<mask,base,shift>``; ``CS<mask,base,[row],base,[col]>``; composed layouts
``inner o offset o outer``, right-associative; tiles ``[4|8:1|*]``; coordinate tensors
``base, layout``. Blanks between tokens are ignored. Run-time leaves are read as `Dyn`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeAlias, TypeVar

from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout.basis import Basis
from flydsl.layout.composed import ComposedLayout, CoordTensor, Tile, Tiler
from flydsl.layout.layouts import Layout
from flydsl.layout.leaf import Dyn, DynamicLeaf
from flydsl.layout.swizzle import CoordSwizzle, Swizzle
from flydsl.layout.tuples import IntTuple, format_tuple, normalize

__all__ = ["LayoutObject", "parse", "to_text"]

LayoutObject: TypeAlias = (
    "IntTuple | Layout | ComposedLayout | Swizzle | CoordSwizzle | Tile | CoordTensor | None"
)

_T = TypeVar("_T")

_TOKEN = re.compile(
    r"\s*(?:(?P<int>-?\d+)|(?P<dyn>\?(?:\{[^{}]*\})?)|(?P<basis>E\d+)|(?P<kind>CS|S)(?=\s*<)"
    r"|(?P<o>o)|(?P<mark>[()\[\]<>,:|*]))"
)
_DYN = re.compile(r"\?(?:\{\s*(?:i(?P<width>\d+))?\s*(?:div=(?P<div>\d+))?\s*\})?")
_MAX_TEXT = 1 << 20


def to_text(x: LayoutObject) -> str:
    """Return the canonical text of a layout object or an integer tuple."""
    if x is None or isinstance(x, int | tuple | list | DynamicLeaf | Basis):
        return format_tuple(normalize(x, "the tuple", none=True, basis=True))
    return str(x)


class _Parser:
    """A recursive-descent reader of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        self.at = 0
        self.depth = 0
        pos = 0
        text = text.rstrip()
        while pos < len(text):
            match = _TOKEN.match(text, pos)
            if match is None:
                self.fail(f"unexpected {text[pos : pos + 12].strip()!r}")
            self.tokens.append((match.lastgroup or "", match.group(match.lastgroup or 0)))
            pos = match.end()

    def fail(self, why: str) -> NoReturn:
        shown = self.text if len(self.text) <= 120 else self.text[:117] + "..."
        raise UserValueError(f"cannot read the layout text: {why}", code="FLY-U113", value=shown)

    def peek(self, ahead: int = 0) -> str:
        index = self.at + ahead
        return self.tokens[index][1] if index < len(self.tokens) else ""

    def kind(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else "end"

    def take(self, expected: str) -> None:
        if self.peek() != expected:
            self.fail(f"expected {expected!r}, found {self.peek() or 'the end'!r}")
        self.at += 1

    def integer(self) -> int:
        if self.kind() != "int":
            self.fail(f"expected an integer, found {self.peek() or 'the end'!r}")
        digits = self.peek()
        if len(digits) > 400:
            self.fail("an integer has more than 400 digits")
        self.at += 1
        return int(digits)

    def enter(self) -> None:
        self.depth += 1
        if self.depth > 40:
            self.fail("nested too deeply")

    def element(self) -> IntTuple:
        """Read a leaf or a tuple."""
        if self.peek() == "(":
            self.enter()
            out = tuple(self.separated("(", ",", ")", self.element))
            self.depth -= 1
            return out
        if self.peek() == "*":
            self.at += 1
            return None
        value = self.dynamic() if self.kind() == "dyn" else self.integer()
        modes: list[int] = []
        while self.kind() == "basis":
            if len(self.peek()) > 4:
                self.fail("a basis mode is out of range")
            modes.append(int(self.peek()[1:]))
            self.at += 1
        return Basis(value, tuple(modes)) if modes else value

    def dynamic(self) -> Dyn:
        match = _DYN.fullmatch(self.peek())
        if match is None or len(self.peek()) > 400:
            self.fail(f"{self.peek()[:40]!r} is no run-time integer")
        self.at += 1
        return Dyn(int(match["width"] or 32), int(match["div"] or 1))

    def separated(self, start: str, mark: str, end: str, item: Callable[[], _T]) -> list[_T]:
        self.take(start)
        out = [item()]
        while self.peek() == mark:
            self.at += 1
            out.append(item())
        self.take(end)
        return out

    def path(self) -> tuple[int, ...]:
        return tuple(self.separated("[", ",", "]", self.integer))

    def swizzle(self) -> Swizzle | CoordSwizzle:
        """Read ``S<...>`` or ``CS<...>``."""
        if self.peek() == "S":
            self.at += 1
            numbers = self.separated("<", ",", ">", self.integer)
            if len(numbers) != 3:
                self.fail("a swizzle has three numbers")
            return Swizzle(*numbers)
        self.at += 1
        self.take("<")
        mask = self.integer()
        self.take(",")
        base_row = self.integer()
        self.take(",")
        row = self.path()
        self.take(",")
        base_col = self.integer()
        self.take(",")
        col = self.path()
        self.take(">")
        return CoordSwizzle(mask, base_row, row, base_col, col)

    def tile_mode(self) -> Tiler:
        if self.peek() == "[":
            return self.tile()
        shape = self.element()
        if self.peek() == ":":
            self.at += 1
            return Layout(shape, self.element())
        if isinstance(shape, tuple | Basis):
            self.fail("a tile mode is an integer, *, a layout or a tile")
        return shape  # type: ignore[no-any-return]

    def tile(self) -> Tile:
        self.enter()
        modes = tuple(self.separated("[", "|", "]", self.tile_mode))
        self.depth -= 1
        return Tile(modes)

    def layout_like(self) -> IntTuple | Layout | ComposedLayout | Swizzle | CoordSwizzle:
        """Read a tuple, a layout, a swizzle, or a composition of them."""
        self.enter()
        first: IntTuple | Layout | Swizzle | CoordSwizzle
        if self.kind() == "kind":
            first = self.swizzle()
        else:
            first = self.element()
            if self.peek() == ":":
                self.at += 1
                first = Layout(first, self.element())
        if self.peek() != "o":
            return first
        self.at += 1
        offset = self.element()
        self.take("o")
        outer = self.layout_like()
        if not isinstance(outer, Layout | ComposedLayout):
            self.fail("a composed layout ends in a layout")
        return ComposedLayout(first, offset, outer)

    def everything(self) -> LayoutObject:
        if self.peek() == "[":
            out: LayoutObject = self.tile()
        else:
            out = self.layout_like()
            if self.peek() == "," and not isinstance(out, Layout | ComposedLayout):
                self.at += 1
                out = CoordTensor(out, self.layout_like())  # type: ignore[arg-type]
        if self.at != len(self.tokens):
            self.fail(f"{self.peek()!r} is left over")
        return out


def parse(text: str) -> LayoutObject:
    """Return the object that `text` describes.

    Raises:
        UserError: The text is malformed, or describes something that the object's checks refuse.
    """
    if not isinstance(text, str):
        raise UserTypeError("parse needs text", code="FLY-U113", value=text)
    if len(text) > _MAX_TEXT:
        raise UserValueError("the layout text is too long", code="FLY-U113", value=len(text))
    return _Parser(text).everything()
