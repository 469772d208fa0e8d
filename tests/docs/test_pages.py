"""Every page of the repository: its links lead somewhere, its Python blocks run and print that."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
from markdown_pages import Page, find_pages, read_page

ROOT = Path(__file__).parents[2]
PAGES = [path for path in find_pages(ROOT) if "changelog.d" not in path.parts]
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]
WITH_CODE = [path for path in PAGES if any(b.language == "python" for b in read_page(path).blocks)]


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_links(path: Path) -> None:
    broken = []
    for line, target in read_page(path).links:
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        linked = (path.parent / name).resolve() if name else path
        if not linked.exists():
            broken.append(f"{path.name}:{line}: {target}: no such file")
        elif anchor and anchor not in read_page(linked).anchors:
            broken.append(f"{path.name}:{line}: {target}: no such heading")
    assert broken == []


@pytest.mark.parametrize("path", WITH_CODE, ids=[str(p.relative_to(ROOT)) for p in WITH_CODE])
def test_python_blocks(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = read_page(path)
    if "import torch" in page.program():
        pytest.importorskip("torch", reason="the page shows how to use torch, which is optional")
    # Kernels are rewritten from their source text, so the blocks must be in a file. It keeps the
    # page's line numbers, which then appear in tracebacks.
    program = tmp_path / f"{path.stem.lower().replace('-', '_')}_page.py"
    program.write_text(page.program())
    monkeypatch.chdir(tmp_path)
    run_blocks(page, program)


def run_blocks(page: Page, program: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__page__", "__file__": str(program)}
    for block in page.blocks:
        if block.language != "python":
            continue
        text = "\n" * (block.line - 1) + block.text
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, str(program), "exec"), namespace)
        if block.prints is not None:
            assert printed.getvalue() == block.prints, f"{page.path.name}:{block.line}"
