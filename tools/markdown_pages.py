"""Read the repository's Markdown pages: code blocks, what they print, links and anchors.

A fenced block marked ``python`` is run, in order, in one namespace per page. A block marked
``text`` that follows a Python block, with only blank lines between, is what that block must print.
Blocks with any other mark are shown only.

``python tools/markdown_pages.py PAGE`` prints the Python blocks of a page as one program.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Block", "Page", "find_pages", "read_page"]

_FENCE = re.compile(r"^(\s*)(```+)\s*(\S*)\s*$")
_LINK = re.compile(r"(?<!!)\[[^\]\n]+\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`]*`")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Attributes:
        language: The word after the fence; empty when there is none.
        line: One-based line of the first line of `text` on the page.
        text: The lines between the fences.
        prints: Text of the ``text`` block that follows a Python block directly; None without one.
    """

    language: str
    line: int
    text: str
    prints: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A Markdown file: its fenced blocks, ``(line, target)`` links and heading anchors."""

    path: Path
    blocks: tuple[Block, ...]
    links: tuple[tuple[int, str], ...]
    anchors: frozenset[str]

    def program(self) -> str:
        """Return all Python blocks as one program in which they keep the page's line numbers."""
        lines: list[str] = []
        for block in self.blocks:
            if block.language == "python":
                lines += [""] * (block.line - 1 - len(lines))
                lines += block.text.splitlines()
        return "\n".join(lines) + "\n"


@dataclass(slots=True)
class _Reader:
    blocks: list[Block] = field(default_factory=list)
    links: list[tuple[int, str]] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)
    adjacent: bool = False

    def prose(self, number: int, line: str) -> None:
        if line.strip():
            self.adjacent = False
        self.links += [(number, target) for target in _LINK.findall(_CODE.sub("", line))]
        heading = _HEADING.match(line)
        if heading:
            slug = _slug(heading[1])
            repeats = sum(
                a == slug or re.fullmatch(rf"{re.escape(slug)}-\d+", a) is not None
                for a in self.anchors
            )
            self.anchors.append(f"{slug}-{repeats}" if repeats else slug)

    def block(self, language: str, line: int, text: str) -> None:
        previous = self.blocks[-1] if self.blocks else None
        if language == "text" and self.adjacent and previous and previous.language == "python":
            self.blocks[-1] = Block("python", previous.line, previous.text, text)
        else:
            self.blocks.append(Block(language, line, text))
        self.adjacent = language == "python"


def _slug(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return _NOT_IN_SLUG.sub("", plain.lower()).replace(" ", "-")


def read_page(path: Path) -> Page:
    """Parse one page.

    Raises:
        ValueError: A fence is not closed.
    """
    reader = _Reader()
    lines = iter(enumerate(path.read_text("utf-8").splitlines(), 1))
    for number, line in lines:
        fence = _FENCE.match(line)
        if not fence:
            reader.prose(number, line)
            continue
        indent, marks, language = fence.groups()
        reader.block(language, number + 1, _until_fence(path, lines, indent, marks))
    return Page(path, tuple(reader.blocks), tuple(reader.links), frozenset(reader.anchors))


def _until_fence(path: Path, lines: Iterator[tuple[int, str]], indent: str, marks: str) -> str:
    text: list[str] = []
    for _, line in lines:
        if line.strip() == marks:
            return "".join(part.removeprefix(indent) + "\n" for part in text)
        text.append(line)
    raise ValueError(f"{path}: a fence is not closed")


def find_pages(root: Path) -> list[Path]:
    """Return the Markdown files of the repository at `root`, tracked or new."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        names = listed.stdout.splitlines()
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*.md")]
        names = [name for name in names if not any(p.startswith(".") for p in Path(name).parts)]
    return sorted(root / name for name in names if (root / name).is_file())


if __name__ == "__main__":
    print(read_page(Path(sys.argv[1])).program())
