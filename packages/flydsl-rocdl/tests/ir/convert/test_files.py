"""FileCheck tests: each ``.mlir`` file names its architectures in a ``// TARGETS:`` line.

``CHECK`` lines hold for all of them, ``CHECK-<ARCH>`` lines for one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from filecheck.matcher import Matcher
from filecheck.options import Options

HERE = Path(__file__).parent


def _cases() -> list[tuple[Path, str]]:
    out = []
    for path in sorted(HERE.glob("*.mlir")):
        first = path.read_text().splitlines()[0]
        assert first.startswith("// TARGETS:"), path
        out += [(path, arch) for arch in first.partition(":")[2].split()]
    return out


@pytest.mark.parametrize(("path", "arch"), _cases(), ids=lambda v: getattr(v, "stem", v))
def test_file(path: Path, arch: str, lower: Callable[..., str], tmp_path: Path) -> None:
    output = tmp_path / "output.mlir"
    output.write_text(lower(path.read_text(), arch))
    options = Options(
        match_filename=str(path),
        input_file=str(output),
        check_prefixes=["CHECK", f"CHECK-{arch.upper()}"],
    )
    assert Matcher.from_opts(options).run() == 0
