"""What the row kernels execute and move, from the emulator's report: no GPU, no timing.

Rows of 8192 bf16 elements, aligned to lines: bytes of distinct lines against the least possible
(each input and output once), widths of the global accesses, LDS bank conflicts, registers, spills,
and vector instructions per element. Beside them registers and static vector instructions per
element of another project's kernels for the same rows (one workgroup of 256 threads, 32 elements
each).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np

import flydsl_emu
from flydsl.config import scope
from flydsl_kernels.norm import layernorm, log_softmax, rmsnorm, softmax

COLUMNS = 8192
LINE = 128
# Registers, and vector instructions of the code per element of a thread.
REFERENCE = {("rmsnorm", "gfx942"): (60, 363 / 32), ("layernorm", "gfx942"): (76, 455 / 32)}


def aligned(*shape: int) -> np.ndarray:
    """Return an uninitialised bf16 array that begins at a line."""
    dtype = np.dtype(ml_dtypes.bfloat16)
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.empty(size + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + size].view(dtype).reshape(shape)


def measure(name: str, target: str, rows: int) -> dict[str, object]:
    """Run one operation on one architecture and return its figures."""
    random = np.random.default_rng(0)
    x, y, w, b = aligned(rows, COLUMNS), aligned(rows, COLUMNS), aligned(COLUMNS), aligned(COLUMNS)
    for array in (x, w, b):
        array[...] = random.standard_normal(array.shape)
    calls: dict[str, tuple[Callable[[], object], int]] = {
        "rmsnorm": (lambda: rmsnorm(x, w, out=y), 1),
        "layernorm": (lambda: layernorm(x, w, b, out=y), 2),
        "softmax": (lambda: softmax(x, out=y), 0),
        "log_softmax": (lambda: log_softmax(x, out=y), 0),
    }
    call, vectors = calls[name]
    with scope(FLYDSL_TARGET=target), flydsl_emu.collect() as reports:
        call()
    report = reports[0]
    least = x.nbytes + y.nbytes + vectors * w.nbytes
    kernel = [a for a in report.accesses if a.space == "global" and a.executions]
    widths = {a.text.split()[0].rpartition("_")[2] for a in kernel}
    waves = report.block[0] // 64 if target in ("gfx942", "gfx950") else report.block[0] // 32
    valu = sum(report.instructions.get(kind, 0) for kind in ("valu", "transcendental"))
    reference = REFERENCE.get((name, target), (None, None))
    return {
        "operation": name,
        "target": target,
        "least bytes": least,
        "moved / least": report.distinct_bytes / least,
        "accesses": ", ".join(sorted(widths)),
        "bank conflicts": max((t.conflict_ratio for t in report.traffic), default=1.0),
        "vgprs": report.resources.vgprs,
        "scratch": report.resources.scratch_bytes,
        "waves per simd": report.resources.waves_per_simd,
        "valu per element": valu * report.block[0] / waves / (rows * COLUMNS),
        "reference vgprs": reference[0],
        "reference valu per element": reference[1],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--target", action="append", help="default: gfx942 and gfx950")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    found = []
    for target in options.target or ("gfx942", "gfx950"):
        for name in ("rmsnorm", "layernorm", "softmax", "log_softmax"):
            figures = measure(name, target, options.rows)
            found.append(figures)
            print(", ".join(f"{k} {_shown(v)}" for k, v in figures.items() if v is not None))
    if options.json:
        options.json.write_text(json.dumps({"rows": options.rows, "kernels": found}, indent=1))
    return 0


def _shown(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
