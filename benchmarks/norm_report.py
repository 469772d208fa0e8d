"""What the row kernels execute and move, from the emulator's report: no GPU, no timing.

Rows of 8192 bf16 elements, aligned to lines: bytes of distinct lines against the least possible
(each input and output once), widths of the global accesses, LDS bank conflicts, registers, spills,
and instructions per element. Beside them registers and instructions per element of another
project's kernels for the same rows (one workgroup of 256 threads, 32 elements each): waves execute
every instruction of theirs and ours once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
from figures import add_json, of_kernel, show, shown

import flydsl_emu
from flydsl.config import scope
from flydsl_kernels.norm import (
    QuantFormat,
    fused_add_rmsnorm,
    layernorm,
    log_softmax,
    rmsnorm,
    rmsnorm_quantised,
    softmax,
)

COLUMNS = 8192
LINE = 128
# Registers, and instructions per element of a thread.
REFERENCE = {
    ("rmsnorm", "gfx942"): (60, 363 / 32),
    ("layernorm", "gfx942"): (76, 455 / 32),
    ("softmax", "gfx942"): (42, 584 / 32),
}
OPERATIONS = (
    "rmsnorm",
    "layernorm",
    "softmax",
    "log_softmax",
    "fused_add_rmsnorm",
    "rmsnorm_quantised",
    "rmsnorm_quantised in groups",
)


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
    x, other, y, kept = (aligned(rows, COLUMNS) for _ in range(4))
    w, b = aligned(COLUMNS), aligned(COLUMNS)
    small, row_scales = np.empty((rows, COLUMNS), np.int8), np.empty(rows, np.float32)
    group_scales = np.empty((rows, COLUMNS // 128), np.float32)
    form = QuantFormat("int8", 128)
    for array in (x, other, w, b):
        array[...] = random.standard_normal(array.shape)
    calls: dict[str, tuple[Callable[[], object], tuple[np.ndarray, ...]]] = {
        "rmsnorm": (lambda: rmsnorm(x, w, out=y), (x, w, y)),
        "layernorm": (lambda: layernorm(x, w, b, out=y), (x, w, b, y)),
        "softmax": (lambda: softmax(x, out=y), (x, y)),
        "log_softmax": (lambda: log_softmax(x, out=y), (x, y)),
        "fused_add_rmsnorm": (
            lambda: fused_add_rmsnorm(x, other, w, out=y, residual_out=kept),
            (x, other, w, y, kept),
        ),
        "rmsnorm_quantised": (
            lambda: rmsnorm_quantised(x, w, out=(small, row_scales)),
            (x, w, small, row_scales),
        ),
        "rmsnorm_quantised in groups": (
            lambda: rmsnorm_quantised(x, w, dtype=form, out=(small, group_scales)),
            (x, w, small, group_scales),
        ),
    }
    call, arrays = calls[name]
    with scope(FLYDSL_TARGET=target), flydsl_emu.collect() as reports:
        call()
    report = reports[0]
    least = sum(array.nbytes for array in arrays)
    kernel = [a for a in report.accesses if a.space == "global" and a.executions]
    widths = {a.text.split()[0].rpartition("_")[2] for a in kernel}
    lanes = 64 if target in ("gfx942", "gfx950") else 32
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
        "valu per element": valu * lanes / (rows * COLUMNS),
        "instructions per element": report.total_instructions * lanes / (rows * COLUMNS),
        "reference vgprs": reference[0],
        "reference instructions per element": reference[1],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--target", action="append", help="default: gfx942 and gfx950")
    add_json(parser)
    options = parser.parse_args(arguments)
    for target in options.target or ("gfx942", "gfx950"):
        for name in OPERATIONS:
            figures = measure(name, target, options.rows)
            show(of_kernel(f"{name} {target}", figures, UNITS), options.json, shown(figures))
    return 0


UNITS = {
    "least bytes": "B",
    "moved / least": "ratio",
    "bank conflicts": "ratio",
    "vgprs": "VGPR",
    "scratch": "B",
    "waves per simd": "waves",
    "valu per element": "instructions",
    "instructions per element": "instructions",
}


if __name__ == "__main__":
    sys.exit(main())
