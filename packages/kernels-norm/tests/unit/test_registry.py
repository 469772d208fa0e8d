"""What the family announces."""

from __future__ import annotations

import inspect
import subprocess
import sys

import flydsl_kernels.norm as norm
from flydsl.plugins.manager import load_dotted, plugin_manager


def test_every_public_function_is_announced_under_its_name():
    found = plugin_manager().announced.kernels
    ours = {key: entry for key, entry in found.items() if entry.family == "norm"}
    functions = [name for name in norm.__all__ if inspect.isfunction(getattr(norm, name))]
    assert sorted(entry.name for entry in ours.values()) == sorted(functions)
    assert len(functions) == 10
    for entry in ours.values():
        assert load_dotted(entry.function) is getattr(norm, entry.name)
        assert entry.summary


def test_importing_the_family_imports_no_compiler_and_no_array_library():
    code = (
        "import sys, flydsl_kernels.norm, flydsl_kernels.norm.registry;"
        "heavy = {'torch', 'numpy', 'mlir', 'llvmlite', 'flydsl.compiler'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_namespace_is_open_to_other_families():
    import flydsl_kernels

    assert flydsl_kernels.__file__ is None
