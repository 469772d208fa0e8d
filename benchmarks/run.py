"""Run the benchmarks named on the command line, or all of them.

``python benchmarks/run.py [--json] [name ...]``: with ``--json``, only one JSON object a line is
printed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent


def benchmark_names() -> list[str]:
    """Return the names of the scripts beside this one."""
    scripts = (path for path in HERE.glob("*.py") if path.name != Path(__file__).name)
    return sorted(path.stem for path in scripts if "\ndef main(" in path.read_text("utf-8"))


def run_benchmark(name: str, as_json: bool) -> int:
    """Run one benchmark and return its exit status."""
    command = [sys.executable, str(HERE / f"{name}.py")]
    if as_json:
        return subprocess.run([*command, "--json"], check=False).returncode
    print(f"== {name}", flush=True)
    started = time.monotonic()
    status = subprocess.run(command, check=False).returncode
    print(f"== {name}: exit status {status}, {time.monotonic() - started:.1f} s\n", flush=True)
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    """Run benchmarks; return 1 if any of them did not finish."""
    names = benchmark_names()
    parser = argparse.ArgumentParser(description="Run benchmarks.")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(names))
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(names))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(names)}")
    statuses = [run_benchmark(name, options.json) for name in options.names or names]
    return 1 if any(statuses) else 0


if __name__ == "__main__":
    sys.exit(main())
