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
from dataclasses import dataclass

from figures import Figure, add_json, show

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
class Import:
    """The best of several imports: CPU milliseconds, modules loaded, heavy ones among them."""

    statement: str
    cpu_ms: float
    modules: int
    heavy: tuple[str, ...]


def measure(statement: str, runs: int) -> Import:
    """Run `statement` in `runs` new interpreters and return the fastest."""
    program = CHILD.format(statement=statement, heavy=HEAVY)
    results = []
    for _ in range(runs):
        command = [sys.executable, "-c", program]
        child = subprocess.run(command, check=True, capture_output=True, text=True)
        results.append(json.loads(child.stdout))
    seconds, modules, heavy = min(results)
    return Import(statement, round(seconds * 1e3, 2), modules, tuple(heavy))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="interpreters per statement")
    add_json(parser)
    options = parser.parse_args(arguments)
    figures = [measure(statement, options.runs) for statement in STATEMENTS]
    text = [f"{'statement':<40} {'CPU ms':>8} {'modules':>8}  heavy modules"]
    lines = []
    for figure in figures:
        heavy = ", ".join(figure.heavy) or "none"
        text.append(f"{figure.statement:<40} {figure.cpu_ms:>8.1f} {figure.modules:>8}  {heavy}")
        lines.append(Figure(figure.statement, figure.cpu_ms, "ms"))
        lines.append(Figure(f"{figure.statement}: modules", figure.modules, "modules"))
    show(lines, options.json, "\n".join(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
