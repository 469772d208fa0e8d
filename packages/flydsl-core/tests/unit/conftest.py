"""Throw-away distributions for the plugin tests: a directory with modules and metadata."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import flydsl


class Environment:
    """A directory of fake distributions and a way to run Python with it on the path."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def distribution(self, name, *, version="1.0", entry_points=None, files=None, **modules):
        """Add a distribution; `files` maps paths, `modules` top-level modules, to source text."""
        info = self.root / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = [f"{key} = {value}" for key, value in (entry_points or {}).items()]
        (info / "entry_points.txt").write_text("\n".join(["[flydsl]", *lines, ""]))
        sources = {**(files or {}), **{f"{key}.py": text for key, text in modules.items()}}
        for relative, source in sources.items():
            path = self.root / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(source))
        return self

    def run(self, script, **environment):
        """Run `script` in a new interpreter without the installed distributions' plugins."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("FLYDSL", "ARCH"))}
        env["PYTHONPATH"] = os.pathsep.join([str(self.root), str(Path(flydsl.__file__).parents[1])])
        env["FLYDSL_PLUGINS_DISABLE"] = "rocdl,emu"
        env.update(environment)
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def environment(tmp_path):
    return Environment(tmp_path)
