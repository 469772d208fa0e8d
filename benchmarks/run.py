"""Run the benchmarks named on the command line, or all of them.

``python benchmarks/run.py [--json FOLDER] [name ...]``: with ``--json``, each benchmark's figures
are written to ``FOLDER/<name>.json``.
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
    return sorted(path.stem for path in HERE.glob("*.py") if path.name != Path(__file__).name)


def run_benchmark(name: str, folder: Path | None) -> int:
    """Run one benchmark and return its exit status."""
    command = [sys.executable, str(HERE / f"{name}.py")]
    if folder is not None:
        command += ["--json", str(folder / f"{name}.json")]
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
    parser.add_argument("--json", type=Path, metavar="FOLDER", help="write figures there")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(names))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(names)}")
    if options.json:
        options.json.mkdir(parents=True, exist_ok=True)
    statuses = [run_benchmark(name, options.json) for name in options.names or names]
    return 1 if any(statuses) else 0


if __name__ == "__main__":
    sys.exit(main())
