"""What the family announces."""

from __future__ import annotations

import subprocess
import sys

import flydsl_kernels.moe as moe
from flydsl.plugins.manager import load_dotted, plugin_manager


def test_what_is_announced_is_public():
    found = plugin_manager().announced.kernels
    ours = {key: entry for key, entry in found.items() if entry.family == "moe"}
    assert {entry.name for entry in ours.values()} <= set(moe.__all__)
    for entry in ours.values():
        assert load_dotted(entry.function) is getattr(moe, entry.name)
        assert entry.summary


def test_importing_the_family_imports_no_compiler_and_no_array_library():
    code = (
        "import sys, flydsl_kernels.moe, flydsl_kernels.moe.registry;"
        "heavy = {'torch', 'numpy', 'mlir', 'llvmlite', 'flydsl.compiler'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
