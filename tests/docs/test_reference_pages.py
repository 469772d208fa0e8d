"""The generated pages say what the code declares."""

from __future__ import annotations

from pathlib import Path

import pytest
import reference_pages

from flydsl.dialects import definition

PAGES = reference_pages.pages()


@pytest.mark.parametrize("path", PAGES, ids=[path.name for path in PAGES])
def test_page_is_current(path: Path) -> None:
    message = "run python tools/reference_pages.py"
    assert path.read_text("utf-8") == PAGES[path], message


def test_tables_hold_known_entries() -> None:
    diagnostics = reference_pages.diagnostics_page()
    assert "| `FLY-T513` | No installed plugin knows the target |" in diagnostics
    environment = reference_pages.environment_page()
    assert "| `FLYDSL_TARGET` | `ARCH`, `FLYDSL_GPU_ARCH` | any text | none |" in environment


def test_operations_left_out_do_not_exist() -> None:
    names = {name.replace(".", "_") for name in reference_pages.LEFT_OUT}
    assert names.isdisjoint(definition.OPS)
