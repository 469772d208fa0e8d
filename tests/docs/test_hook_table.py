"""The hook table of the plugins page lists every hook with its parameters."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from flydsl.plugins import hookspecs

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"
ROW = re.compile(r"^\| `(flydsl_\w+)\(([^)]*)\)` \| .* \| (collect|first result)\b", re.MULTILINE)


def test_every_hook_is_listed() -> None:
    listed = {name: (parameters, kind) for name, parameters, kind in ROW.findall(PAGE.read_text())}
    expected = {}
    for name in hookspecs.__all__:
        if not name.startswith("flydsl_"):
            continue
        specification = getattr(hookspecs, name)
        first = specification.flydsl_spec["firstresult"]
        parameters = ", ".join(inspect.signature(specification).parameters)
        expected[name] = (parameters, "first result" if first else "collect")
    assert listed == expected
