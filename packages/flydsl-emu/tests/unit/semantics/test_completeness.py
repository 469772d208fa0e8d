"""Every implemented opcode of an architecture has a test of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from flydsl_emu.decode.table import load_table
from flydsl_emu.semantics.catalogue import MODULES
from flydsl_emu.semantics.registry import REGISTRY

HERE = Path(__file__).parent
ARCHITECTURES = ("gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")


def implemented() -> set[str]:
    """Opcodes of the decode tables that have a meaning."""
    assert MODULES
    tables = [load_table(arch) for arch in ARCHITECTURES]
    names = {entry.name for table in tables for form in table.values() for entry in form.values()}
    # The prefix of scaled matrix instructions has no entry of its own.
    names |= {name for name in REGISTRY if name.startswith("v_mfma_scale_")}
    return names & set(REGISTRY)


def test_every_opcode_has_a_test(tmp_path: Path) -> None:
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
    missing = sorted(implemented() - set(tested))
    assert not missing, f"{len(missing)} opcodes without a test: {' '.join(missing)}"
    unknown = sorted(set(tested) - set(REGISTRY))
    assert not unknown, f"tests of opcodes that do not exist: {' '.join(unknown)}"
