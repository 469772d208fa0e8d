"""Every opcode of the semantics table has a test of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from flydsl_emu.semantics.catalogue import MODULES
from flydsl_emu.semantics.registry import REGISTRY

HERE = Path(__file__).parent


def test_every_opcode_has_a_test(tmp_path: Path) -> None:
    assert MODULES
    listing = tmp_path / "opcodes.json"
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"--list-opcodes={listing}", str(HERE)],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tested = json.loads(listing.read_text())
    missing = sorted(set(REGISTRY) - set(tested))
    assert not missing, f"{len(missing)} opcodes without a test: {' '.join(missing)}"
    unknown = sorted(set(tested) - set(REGISTRY))
    assert not unknown, f"tests of opcodes that do not exist: {' '.join(unknown)}"
