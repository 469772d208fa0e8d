"""Every ``*.mlir`` file below this directory is a test.

``// RUN: <pass> <pass> …`` names the passes; ``// -----`` separates modules, each with its own
``// CHECK`` lines. ``// ERROR: <text>`` instead of CHECK lines expects an exception with that text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from flydsl.errors import FlyDSLError

HERE = Path(__file__).parent


def _cases() -> Iterator[object]:
    for file in sorted(HERE.rglob("*.mlir")):
        text = file.read_text()
        (run,) = re.findall(r"^// RUN: (.*)$", text, re.MULTILINE)
        for number, part in enumerate(text.split("// -----\n")):
            name = re.search(r"(?:gpu\.func|func\.func) @(\w+)", part)
            title = f"{file.stem}-{name[1] if name else number}"
            yield pytest.param(part, run.split(), id=title)


@pytest.mark.parametrize(("text", "passes"), list(_cases()))
def test_passes_rewrite_as_the_directives_say(
    text: str,
    passes: list[str],
    passes_on: Callable[[str, Iterable[str]], str],
    filecheck: Callable[[str, str], None],
) -> None:
    expected = re.findall(r"^\s*// ERROR: (.*)$", text, re.MULTILINE)
    if expected:
        with pytest.raises(FlyDSLError) as caught:
            passes_on(text, passes)
        for fragment in expected:
            assert fragment in str(caught.value)
        return
    filecheck(passes_on(text, passes), text)
