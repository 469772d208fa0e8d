"""Pictures say what the algebra says, wherever they are read: text, SVG or page."""

from __future__ import annotations

import contextlib
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flydsl.layout as fl
from flydsl.errors import FlyDSLError, UserError
from flydsl.layout.drawing import DrawOptions, draw, picture, to_html, to_svg, to_terminal
from flydsl.layout.drawing.colours import contrast_with_black, for_key, for_share, for_ways
from flydsl.testing.brute_force import coordinates

SVG = "{http://www.w3.org/2000/svg}"
SWIZZLED = fl.make_composed_layout(fl.Swizzle(3, 3, 3), fl.make_layout((16, 64), (64, 1)))


def facts_in(svg: str) -> list[dict[str, str]]:
    """Return the facts that the tool tips of an SVG picture state, one dict per cell."""
    root = ET.fromstring(svg)
    tips = [group.find(f"{SVG}title") for group in root.iter(f"{SVG}g")]
    return [dict(line.split(": ", 1) for line in (tip.text or "").split("\n")) for tip in tips]


def test_text() -> None:
    assert fl.make_layout(((2, 2), 3), ((1, 6), 2)).draw() == "\n".join(
        [
            "((2,2),3):((1,6),2)",
            "    0  1  2",
            "  +--------",
            "0 | 0  2  4",
            "1 | 1  3  5",
            "  |--------",
            "2 | 6  8 10",
            "3 | 7  9 11",
            "12 elements, indices 0 to 11",
        ]
    )


@pytest.mark.parametrize(
    "text",
    [
        "7:2",
        "40:1",
        "(40):(1)",
        "((3,20)):((20,1))",
        "(4,8):(8,1)",
        "((8,2),4):((1,32),8)",
        "(3,(2,2),2):(1,(3,6),12)",
        "(4,8):(0,1)",
        "S<3,0,3> o 0 o (8,8):(8,1)",
        "(0,(0,0)), (4,(2,3)):(1E0,(1E1E0,1E1E1))",
    ],
)
def test_every_element_states_its_value(text: str) -> None:
    layout: Any = fl.parse(text)
    name = "index" if isinstance(layout.codomain, int) else "value"
    stated = {f["coordinate"]: f[name] for f in facts_in(to_svg(picture(layout, DrawOptions())))}
    assert stated == {fl.to_text(c): fl.to_text(layout(c)) for c in coordinates(layout.shape)}
    # In text, the values stand in the order of the rows.
    made = picture(layout, DrawOptions())
    rows = [sorted(p.cells, key=lambda c: (c.row, c.column)) for p in made.panels]
    shown = [cell.lines[0] for panel in rows for cell in panel]
    lines = re.findall(r"^ *\d+ \|(.*)$", to_terminal(made), re.MULTILINE)
    assert re.findall(r"[0-9(][0-9(),]*", "\n".join(lines)) == shown


def test_a_swizzle_draws_one_period() -> None:
    assert fl.Swizzle(1, 0, 1).draw().splitlines()[3:] == [
        "0 |0 1",
        "1 |3 2",
        "4 elements, indices 0 to 3",
    ]


def test_rows_are_mode_0_and_columns_mode_1() -> None:
    made = picture(fl.make_layout((4, 8), (8, 1)), DrawOptions())
    assert {(c.row, c.column): c.lines[0] for c in made.panels[0].cells} == {
        (r, c): str(8 * r + c) for r in range(4) for c in range(8)
    }


def test_a_thread_value_layout_shows_who_holds_each_element() -> None:
    tile, tv = fl.make_layout_tv(fl.make_layout((4, 2), (2, 1)), fl.make_layout((2, 2)))
    text = draw(tv, tile=tile)
    grid = [line.partition("|")[2].split() for line in text.splitlines()[3:11]]
    for thread in range(8):
        for value in range(4):
            at = fl.crd2idx((thread, value), tv)
            assert grid[at % 8][at // 8] == f"T{thread}:V{value}"
    cells = facts_in(to_svg(picture(tv, DrawOptions(tile=tile))))
    assert {(f["thread"], f["value"]) for f in cells} == {
        (str(t), str(v)) for t in range(8) for v in range(4)
    }


def test_shared_and_missing_elements_are_said() -> None:
    made = picture(fl.make_layout((4, 2), (0, 1)), DrawOptions(tile=(2, 2)))
    assert made.panels[0].cells[0].lines == ("T0+3", "V0")
    assert dict(made.panels[0].cells[0].facts)["threads"].startswith("0 (value 0), 1 (value 0)")
    assert "2 of 4 elements held by none" in made.notes[0]


@pytest.mark.parametrize(("banks", "bits"), [(32, 16), (64, 8), (32, 32), (16, 64), (32, 4)])
def test_banks(banks: int, bits: int) -> None:
    svg = to_svg(picture(SWIZZLED, DrawOptions(banks=banks, element_bits=bits)))
    for facts in facts_in(svg):
        byte = int(facts["index"]) * bits // 8
        assert int(facts["bank"]) == byte // 4 % banks


@pytest.mark.parametrize(
    ("layout", "banks", "bits", "clocks"),
    [
        # Rows of 128 bytes: lanes that walk down the rows all meet one bank.
        ("(16,64):(64,1)", 32, 128, 64),
        ("S<3,3,3> o 0 o (16,64):(64,1)", 32, 128, 8),
        # Padding by 16 bytes moves each row by 4 banks, padding by 2 bytes by half a bank.
        ("(16,64):(72,1)", 32, 128, 8),
        # Of 64 banks, a pass serves 16 lanes: two rows fill the banks, eight pairs meet.
        ("(16,64):(64,1)", 64, 128, 32),
        ("(64,2):(2,1)", 64, 32, 1),
        ("(64,2):(2,1)", 32, 32, 2),
        ("(64,2):(4,1)", 32, 32, 4),
        ("(64,2):(0,1)", 32, 32, 2),
    ],
)
def test_conflicts(layout: str, banks: int, bits: int, clocks: int) -> None:
    made = picture(fl.parse(layout), DrawOptions(banks=banks, element_bits=16, access_bits=bits))
    assert f"take {clocks} clocks" in made.notes[1]


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_conflicts_against_counting(data: st.DataObject) -> None:
    rows, columns = data.draw(st.sampled_from([(32, 16), (64, 8), (16, 32)]))
    pitch = columns + data.draw(st.sampled_from([0, 2, 4, 8]))
    banks, per = data.draw(st.sampled_from([16, 32, 64])), data.draw(st.sampled_from([2, 4, 8]))
    lanes = data.draw(st.sampled_from([4, 8, 16]))
    access = fl.make_layout((rows, per), (1, rows))
    options = DrawOptions(banks=banks, element_bits=16, access=access, lanes=lanes)
    made = picture(fl.make_layout((rows, columns), (pitch, 1)), options)
    clocks = 0
    for start in range(0, rows, lanes):
        words = {(row * pitch + i) // 2 for row in range(start, start + lanes) for i in range(per)}
        clocks += max(sum(1 for w in words if w % banks == bank) for bank in range(banks))
    assert f"take {clocks} clocks" in made.notes[1]


def test_files(tmp_path: Path) -> None:
    layout = fl.make_layout((4, 8), (8, 1))
    text = layout.draw(svg=tmp_path / "x.svg", html=str(tmp_path / "x.html"))
    assert text == layout.draw()
    assert (tmp_path / "x.svg").read_text("utf-8") == to_svg(picture(layout, DrawOptions()))
    with pytest.raises(UserError, match="cannot be written"):
        layout.draw(svg=tmp_path / "no folder" / "x.svg")


class _Checker(HTMLParser):
    """Checks that tags nest, and collects scripts and references."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.references += [str(v) for k, v in attrs if k in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.references += [str(v) for k, v in attrs if k in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_pages_are_whole_and_need_nothing_else() -> None:
    page = to_html(picture(SWIZZLED, DrawOptions(banks=32, element_bits=16, access_bits=128)))
    checker = _Checker()
    checker.feed(page)
    assert checker.open == []
    assert checker.references == []
    for fact in ("coordinate: (3,5)", "index: ", "bank: ", "thread: 3", "value: 5", "pass: "):
        assert fact in page


def test_titles_are_escaped() -> None:
    made = picture(fl.make_layout(4), DrawOptions(title='<b title="x">&'))
    assert "<b" not in to_svg(made)
    assert '<b title="x">&' in to_terminal(made)


def test_black_text_is_legible_on_every_colour() -> None:
    colours = {for_key(i) for i in range(1024)} | {for_share(i, 64) for i in range(64)}
    colours |= {for_ways(2**i) for i in range(8)}
    assert min(contrast_with_black(colour) for colour in colours) >= 7
    assert all(for_key(i) != for_key(i + 1) for i in range(1024))


def test_text_in_colour_reads_the_same() -> None:
    made = picture(SWIZZLED, DrawOptions(banks=32, element_bits=16, access_bits=128))
    coloured = to_terminal(made, color=True)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert bare.split("\n")[: 4 + 16] == to_terminal(made).split("\n")[: 4 + 16]


@pytest.mark.parametrize(
    ("text", "options", "rule"),
    [
        ("(4,?):(1,4)", {}, "only at run time"),
        ("(4096,4096):(1,4096)", {}, "too large"),
        ("(0,4):(1,0)", {}, "or empty"),
        ("(4,4):(1,4)", {"banks": 32}, "needs the option element_bits"),
        ("(4,4):(1,4)", {"access_bits": 32}, "needs the option banks"),
        ("(4,4):(1,4)", {"banks": 0, "element_bits": 8}, "not a positive int"),
        ("(4,4):(1,4)", {"banks": 32, "element_bits": 16, "access_bits": 24}, "whole number"),
        ("(4,4):(1,4)", {"banks": 32, "element_bits": 16, "access_bits": 128}, "does not fit"),
        ("(4,4):(1,4)", {"tile": (2, 2)}, "leaves its tile"),
        ("4:1", {"tile": 4}, "of rank 2"),
        ("S<1,0,1> o 0 o (2,2):(1,2)", {"tile": 4}, "plain layout"),
        ("(4,4):(1,4)", {"colour": 1}, "no such drawing option"),
        ("(4,4):(1E0,1E1)", {"banks": 32, "element_bits": 16}, "layout of indices"),
        ("(4,4)", {}, "cannot be drawn"),
    ],
)
def test_what_cannot_be_drawn(text: str, options: dict[str, Any], rule: str) -> None:
    with pytest.raises(UserError, match=rule):
        draw(fl.parse(text), **options)


_VALUES = st.one_of(
    st.none(),
    st.integers(-2, 40),
    st.sampled_from(["x", 1.5, True, (2, 2), (0,), fl.make_layout((4, 2)), fl.make_layout(3)]),
)


@given(
    text=st.sampled_from(["(4,8):(8,1)", "9:2", "S<2,0,2> o 0 o (4,4):(4,1)", "S<1,1,1>", "(1,2)"]),
    options=st.dictionaries(
        st.sampled_from(
            "tile element_bits banks bank_bytes access_bits access lanes title other".split()
        ),
        _VALUES,
        max_size=5,
    ),
)
@settings(max_examples=300, deadline=None)
def test_only_flydsl_errors_escape(text: str, options: dict[str, Any]) -> None:
    with contextlib.suppress(FlyDSLError):
        assert draw(fl.parse(text), **options)
