"""CPU time of the first call of a launcher in a new process, with a warm disk cache.

HIP is replaced by a library that only records calls (see `launch_overhead`). torch, the package and
the module with the kernel are imported before the clock starts. ``cold`` is the same with an empty
cache.

With ``--json FILE`` (``-`` for standard output) one JSON object a line: name, value, unit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from launch_overhead import build_stub, run

HERE = Path(__file__).parent

PROBE = f"""
import json, sys, time
sys.path.insert(0, {str(HERE / "peer")!r})
import torch
import flydsl.compiler as flyc, flydsl.expr as fx
import launch_kernels
tensors = [torch.ones(4096) for _ in range(3)]
stream = fx.Stream(0)
started, wall = time.process_time(), time.perf_counter()
launch_kernels.axpy(*tensors, 4096, 2.0, stream)
cpu, wall = time.process_time() - started, time.perf_counter() - wall
heavy = [name for name in ("mlir", "llvmlite", "filelock", "platformdirs") if name in sys.modules]
print(json.dumps({{"cpu": cpu * 1e3, "wall": wall * 1e3, "heavy": len(heavy)}}))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Time the first call of a process.")
    parser.add_argument("--json", metavar="FILE", nargs="?", const="-", help="write figures there")
    parser.add_argument("--repeats", type=int, default=5, help="processes to take the median of")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stub = build_stub(folder)
        if stub is None:
            print("no C compiler (cc): the stand-in for HIP cannot be built")
            return 1
        variables = {
            "FLYDSL_HIP_HOST_TENSORS": "1",
            "FLYDSL_DEVICE": "hip",
            "FLYDSL_HIP_LIBRARY": str(stub),
            "FLYDSL_RUNTIME_ENABLE_CACHE": "1",
            "FLYDSL_RUNTIME_CACHE_DIR": str(folder / "cache"),
        }
        cold = run([sys.executable, "-c", PROBE], **variables)
        warm = [run([sys.executable, "-c", PROBE], **variables) for _ in range(options.repeats)]
    rows = [
        {"name": "first_call/cold", "value": round(cold["cpu"], 2), "unit": "ms"},
        {
            "name": "first_call/warm",
            "value": round(statistics.median(row["cpu"] for row in warm), 2),
            "unit": "ms",
        },
        {
            "name": "first_call/warm_compiler_modules_imported",
            "value": max(row["heavy"] for row in warm),
            "unit": "modules",
        },
    ]
    to_stdout = options.json == "-"
    for row in rows:
        text = f"{row['name']:45} {row['value']:8} {row['unit']}"
        print(json.dumps(row) if to_stdout else text)
    if options.json and not to_stdout:
        Path(options.json).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
