from __future__ import annotations

from pathlib import Path
from typing import Any

import check_budgets as tool
import pytest

CORE = "packages/flydsl-core/src/flydsl/"


def rules(path: str, text: str, **limits: Any) -> list[tuple[str, int]]:
    budgets = tool.Budgets(**limits)
    return [(finding.rule, finding.line) for finding in tool.check_text(path, text, budgets)]


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.py", "from os.path import *\n", [("star-import", 1)]),
        ("a.py", "from os.path import join\n", []),
        ("tests/helpers.py", "", [("module-name", 1)]),
        (CORE + "layout/utils.py", "", [("module-name", 1)]),
        (CORE + "expr/math.py", "", [("module-name", 1)]),
        (CORE + "expr/maths.py", "", []),
        ("tools/ast.py", "", []),
        (CORE + "x/__init__.py", '"""Doc."""\n', [("package-all", 1)]),
        (CORE + "x/__init__.py", "__all__ = []\n", [("package-docstring", 1)]),
        (CORE + "x/__init__.py", '"""Doc."""\n__all__: list[str] = []\n', []),
        (CORE + "struct/__init__.py", '"""Doc."""\n__all__ = []\n', [("module-name", 1)]),
        (CORE + "x.py", "import os\nos.environ['A']\n", [("environment", 2)]),
        (CORE + "x.py", "import os\nos.getenv('A')\n", [("environment", 2)]),
        (CORE + "x.py", "from os import environ\n", [("environment", 1)]),
        (CORE + "x.py", "import os\nos.getpid()\n", []),
        ("packages/p/tests/test_x.py", "import os\nos.environ['A']\n", []),
        (CORE + "x.py", "A = 'gfx942'\n", [("arch-name", 1)]),
        (CORE + "x.py", "A = f'{1}gfx90a'\n", [("arch-name", 1)]),
        (CORE + "x.py", '"""For example gfx942."""\nA = 1\n"""Or gfx950."""\n', []),
        (CORE + "x.py", "A = 'gfx'\n", []),
        ("docs/x.md", "cd /ho" + "me/someone/x\n", [("machine-path", 1)]),
        ("docs/x.md", "cd ~/x; ls ./wo" + "rk/x /opt/rocm\n", []),
        ("docs/x.md", "a\nTO" + "DO b\n", [("unfinished", 2)]),
        ("a.py", "def f(:\n", [("syntax", 1)]),
    ],
)
def test_rule(path: str, text: str, expected: list[tuple[str, int]]) -> None:
    assert rules(path, text) == expected


@pytest.mark.parametrize(
    ("path", "text", "limit"),
    [
        (CORE + "compat/math.py", "", {"alias_paths": (CORE + "compat",)}),
        (CORE + "arch/x.py", "A = 'gfx942'\n", {"arch_paths": (CORE + "arch",)}),
        (
            CORE + "config/x.py",
            "import os\nos.environ\n",
            {"environment_paths": (CORE + "config",)},
        ),
        (
            CORE + "ops/x.py",
            "def f(a, b, c, d, e, g, h, i, *, j): ...\n",
            {"signature_paths": (CORE + "ops",)},
        ),
        (
            CORE + "launch.py",
            "def f(a, b, c, d, e, f, g, h, i): ...\n",
            {"launcher_paths": (CORE + "launch.py",)},
        ),
    ],
)
def test_exempt_folder(path: str, text: str, limit: dict[str, tuple[str, ...]]) -> None:
    assert rules(path, text) != []
    assert rules(path, text, **limit) == []


def test_positional_parameters_count_even_where_signatures_are_prescribed() -> None:
    text = "def f(a, b, c, d, e, g, h, i, j): ...\n"
    assert rules(CORE + "ops/x.py", text, signature_paths=(CORE + "ops",)) == [("parameters", 1)]


def test_exemption_does_not_cover_a_sibling_with_the_same_prefix() -> None:
    exempt = {"arch_paths": (CORE + "arch",)}
    assert rules(CORE + "architecture/x.py", "A = 'gfx942'\n", **exempt) == [("arch-name", 1)]


@pytest.mark.parametrize(("lines", "found"), [(500, []), (501, [("file-length", 500)])])
def test_file_length(lines: int, found: list[tuple[str, int]]) -> None:
    assert rules("a.py", "x = 1\n" * lines) == found


@pytest.mark.parametrize(("lines", "found"), [(80, []), (81, [("function-length", 2)])])
def test_function_length(lines: int, found: list[tuple[str, int]]) -> None:
    text = "@staticmethod\ndef f():\n" + "    x = 1\n" * (lines - 1)
    assert rules("a.py", text) == found


@pytest.mark.parametrize(
    ("signature", "found"),
    [
        ("self, a, b, c, d, e, f, g, h", []),
        ("a, b, /, c, d, e, *, f, g, h", []),
        ("a, b, c, d, e, f, g, h, i", [("parameters", 1)]),
        ("a, b, /, c, d, e, *, f, g, **h", []),
        ("a, b, c, d, e, f, *g, h, **i", [("parameters", 1)]),
    ],
)
def test_parameters(signature: str, found: list[tuple[str, int]]) -> None:
    assert rules("a.py", f"def m({signature}): ...\n") == found


def test_limits_come_from_pyproject(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text("[tool.budgets]\nmax-file-lines = 3\narch-paths = ['a', 'b']\n")
    assert tool.Budgets.load(file) == tool.Budgets(max_file_lines=3, arch_paths=("a", "b"))
    file.write_text("[tool.budgets]\nmax-line = 3\n")
    with pytest.raises(TypeError, match="max_line"):
        tool.Budgets.load(file)


def test_limits_are_positive() -> None:
    with pytest.raises(ValueError, match="max_parameters must be positive"):
        tool.Budgets(max_parameters=0)


def test_exit_status_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("from os import *\n")
    assert tool.main([str(bad)]) == 1
    assert capsys.readouterr().out == (
        f"{bad}:1: star-import: from os import *\n1 files, 1 findings\n"
    )
    bad.write_text("import os\n")
    assert tool.main([str(bad)]) == 0


def test_missing_file_is_skipped(tmp_path: Path) -> None:
    assert tool.check_paths(tmp_path, ["gone.py"], tool.Budgets()) == []
