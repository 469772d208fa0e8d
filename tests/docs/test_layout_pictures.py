"""The committed pictures are the ones that are drawn now, and each is shown on a page."""

from __future__ import annotations

import pytest
from layout_pictures import FOLDER, pictures

from flydsl.layout.drawing import to_svg

_PICTURES = pictures()


@pytest.mark.parametrize("name", _PICTURES)
def test_picture_is_up_to_date(name: str) -> None:
    path = FOLDER / f"{name}.svg"
    hint = "run python tools/layout_pictures.py"
    assert path.read_text("utf-8") == to_svg(_PICTURES[name]), hint


def test_every_picture_is_shown() -> None:
    pages = "".join(page.read_text("utf-8") for page in FOLDER.parent.glob("*.md"))
    files = sorted(path.name for path in FOLDER.iterdir())
    assert files == sorted(f"{name}.svg" for name in _PICTURES)
    assert [name for name in files if f"(pictures/{name})" not in pages] == []
