"""A transposed copy whose barrier is missing, and what the sanitizer says of it.

Each workgroup moves a 16 x 16 tile through LDS. Without a barrier some threads read what others
have not written yet. On the emulator, as on many runs of a GPU, the result still looks right: waves
happen to run in step. The sanitizer names both accesses, their lines and what to change.

Run it with ``python examples/07_find_a_race.py --target gfx950``; no GPU is needed.
"""

from __future__ import annotations

import sys

import numpy as np
from example_report import example_arguments

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl_emu import SanitizerReport, sanitize

SIDE = 16


@flyc.kernel
def transpose(X: fx.Tensor, Y: fx.Tensor, ordered: fx.Constexpr[bool]):
    """Write the transpose of one tile."""
    column, row = fx.thread_idx.x % SIDE, fx.thread_idx.x // SIDE
    left, top = fx.block_idx.x * SIDE, fx.block_idx.y * SIDE
    tile = fx.SharedAllocator().allocate(fx.Array[fx.Float32, SIDE * SIDE])
    tile[row * SIDE + column] = X[top + row, left + column]
    if fx.const_expr(ordered):
        fx.gpu.barrier()
    Y[left + row, top + column] = tile[column * SIDE + row]


@flyc.jit
def launch(X: fx.Tensor, Y: fx.Tensor, tiles: fx.Int32, ordered: fx.Constexpr[bool]):
    """Transpose a square matrix of `tiles` x `tiles` tiles."""
    transpose(X, Y, ordered).launch(grid=(tiles, tiles), block=(SIDE * SIDE,))


def check(target: str, ordered: bool, tiles: int = 4) -> tuple[bool, SanitizerReport]:
    """Return whether the result is right, and the sanitizer's findings."""
    x = np.random.default_rng(0).random((tiles * SIDE, tiles * SIDE), np.float32)
    y = np.zeros_like(x)
    # Line tables let the findings name lines of this file.
    with (
        scope(FLYDSL_TARGET=target, FLYDSL_DEBUG_INFO=True),
        sanitize(action="collect") as report,
    ):
        launch(x, y, tiles, ordered)
    return bool(np.array_equal(y, x.T)), report


def main() -> int:
    """Check both versions; return 0 if exactly the one without the barrier has a race."""
    target = example_arguments(__doc__).target
    outcomes = []
    for ordered in (True, False):
        right, report = check(target, ordered)
        print(f"{'with' if ordered else 'without'} a barrier, on {target}:")
        print(f"  result is {'right' if right else 'wrong'}; sanitizer: {report}")
        outcomes.append([f.check for f in report.findings])
    return 0 if outcomes == [[], ["race"]] else 1


if __name__ == "__main__":
    sys.exit(main())
