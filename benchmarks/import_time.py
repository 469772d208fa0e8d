"""CPU time of ``import flydsl.compiler, flydsl.expr`` in a new interpreter.

Measured in the child with `time.process_time` around the import statement, so the start of the
interpreter does not count. Also lists heavy modules that the import loaded; there should be none.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

HEAVY = ("llvmlite", "mlir", "numpy", "pluggy", "torch", "flydsl_emu", "flydsl_rocdl")
STATEMENTS = ("import flydsl", "import flydsl.layout", "import flydsl.compiler, flydsl.expr")

CHILD = """
import json, sys, time
started = time.process_time()
{statement}
seconds = time.process_time() - started
heavy = [name for name in {heavy!r} if name in sys.modules]
print(json.dumps([seconds, len(sys.modules), heavy]))
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """The best of several imports: CPU milliseconds, modules loaded, heavy ones among them."""

    statement: str
    cpu_ms: float
    modules: int
    heavy: tuple[str, ...]


def measure(statement: str, runs: int) -> Figure:
    """Run `statement` in `runs` new interpreters and return the fastest."""
    program = CHILD.format(statement=statement, heavy=HEAVY)
    results = []
    for _ in range(runs):
        command = [sys.executable, "-c", program]
        child = subprocess.run(command, check=True, capture_output=True, text=True)
        results.append(json.loads(child.stdout))
    seconds, modules, heavy = min(results)
    return Figure(statement, round(seconds * 1e3, 2), modules, tuple(heavy))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; write them as JSON when asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="interpreters per statement")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args(arguments)
    figures = [measure(statement, options.runs) for statement in STATEMENTS]
    print(f"{'statement':<40} {'CPU ms':>8} {'modules':>8}  heavy modules")
    for figure in figures:
        heavy = ", ".join(figure.heavy) or "none"
        print(f"{figure.statement:<40} {figure.cpu_ms:>8.1f} {figure.modules:>8}  {heavy}")
    if options.json:
        options.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
