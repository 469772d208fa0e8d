"""What importing the user's two modules costs and loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys

HEAVY = ("torch", "numpy", "pluggy", "mlir", "llvmlite", "importlib.metadata", "flydsl_rocdl")
SCRIPT = """
import time
before = time.process_time()
import flydsl.compiler, flydsl.expr
spent = time.process_time() - before
import json, sys
print(json.dumps([spent, sorted(sys.modules)]))
"""


def measure(cache=None):
    environment = dict(os.environ)
    if cache is not None:
        # Installed packages have their bytecode; an editable install may be told to write none.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(cache)
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, check=True, text=True, env=environment
    )
    spent, modules = json.loads(run.stdout)
    return float(spent), set(modules)


def test_importing_the_frontend_loads_nothing_heavy():
    _, modules = measure()
    assert "flydsl.expr" in modules
    assert sorted(name for name in HEAVY if name in modules) == []
    plugins = {name for name in modules if name.startswith("flydsl_")}
    assert plugins == set()


def test_importing_the_frontend_takes_at_most_100_ms_of_cpu(tmp_path):
    # The least of several runs: other load on the machine only ever adds.
    best = min(measure(tmp_path)[0] for _ in range(5))
    assert best <= 0.100, f"{best * 1000:.0f} ms"
