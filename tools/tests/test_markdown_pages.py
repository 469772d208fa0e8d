from __future__ import annotations

from pathlib import Path

import pytest
from markdown_pages import Block, find_pages, read_page

PAGE = """# One `two`: three!
See [a](b.md#c), not ![no](image.png) or `f[x](y)`.

```python
x = 1
print(x)
```

```text
1
```

## One two three

```text
not an output
```

```python
y = 2
```

Prose between.

```text
not an output either
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_blocks_know_what_they_print(page: Path) -> None:
    assert read_page(page).blocks == (
        Block("python", 5, "x = 1\nprint(x)\n", "1\n"),
        Block("text", 16, "not an output\n"),
        Block("python", 20, "y = 2\n"),
        Block("text", 26, "not an output either\n"),
    )


def test_links_and_anchors(page: Path) -> None:
    read = read_page(page)
    assert read.links == ((2, "b.md#c"),)
    assert read.anchors == {"one-two-three", "one-two-three-1"}


def test_program_keeps_line_numbers(page: Path) -> None:
    lines = read_page(page).program().splitlines()
    assert {number: line for number, line in enumerate(lines, 1) if line} == {
        5: "x = 1",
        6: "print(x)",
        20: "y = 2",
    }


def test_indented_fence_loses_its_indent(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("- item\n\n  ```python\n  if x:\n      y()\n  ```\n")
    assert read_page(path).blocks == (Block("python", 4, "if x:\n    y()\n"),)


def test_open_fence_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("```python\nx\n")
    with pytest.raises(ValueError, match=r"page\.md: a fence is not closed"):
        read_page(path)


def test_pages_are_found_without_git(tmp_path: Path) -> None:
    for name in ("b.md", "docs/a.md", ".hidden/c.md", "x.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert find_pages(tmp_path) == [tmp_path / "b.md", tmp_path / "docs" / "a.md"]
