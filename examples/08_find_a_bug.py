"""Finding a wrong line with a trace, a breakpoint, printf and a device assertion.

The kernel adds each row's neighbours, but for one wrong index: its last thread reads the element
after its row. This script shows how each tool of the emulator leads to that line.

Run it with ``python examples/08_find_a_bug.py --target gfx950``; no GPU is needed.
"""

from __future__ import annotations

import sys

import numpy as np
from example_report import Measured, example_arguments, measure, print_report

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu
from flydsl.config import scope
from flydsl.errors import DeviceAssertionError
from flydsl_emu.debug import Stop

WIDTH = 64


@flyc.kernel
def neighbours(X: fx.Tensor, Y: fx.Tensor, last: fx.Int32, careful: fx.Constexpr[bool]):
    """Add each element and its right neighbour; the last of a row has none."""
    row = fx.block_idx.x
    i = fx.thread_idx.x
    j = fx.min(i + 1, last)
    if fx.const_expr(careful):
        fx.device_assert(j < WIDTH, "row {} reads element {}", row, j)
    right = X[row * WIDTH + j]
    Y[row * WIDTH + i] = X[row * WIDTH + i] + right


@flyc.jit
def launch(X: fx.Tensor, Y: fx.Tensor, rows: fx.Int32, last: fx.Int32, careful: fx.Constexpr[bool]):
    """Launch one workgroup per row; `last` is the last element that may be read."""
    neighbours(X, Y, last, careful).launch(grid=(rows,), block=(WIDTH,))


def explain(x: np.ndarray, y: np.ndarray, rows: int) -> None:
    """Compare the wrong kernel with the right one, step by step."""
    lanes = flyc.compile(launch, x, y, rows, WIDTH, False).kernels[0].wave_size
    wave = WIDTH // lanes - 1
    right = flydsl_emu.trace(launch, (x, y, rows, WIDTH - 1, False), wave=wave)
    wrong = flydsl_emu.trace(launch, (x, y, rows, WIDTH, False), wave=wave)
    # The argument that differs is loaded first; what it does to the lanes is of interest.
    found = flydsl_emu.diff(right, wrong, ignore=lambda step: step.text.startswith("s_load"))
    print("where the traces part:")
    print("  " + str(found).replace("\n", "\n  "))

    def stop(at: Stop) -> None:
        print(f"stopped at {at.source} in workgroup {at.workgroup}, wave {at.wave}: {at.text}")

    line = neighbours.location.line + 8
    with flydsl_emu.breakpoint_at(stop, line=line, workgroup=0, wave=wave):
        launch(x, y, rows, WIDTH, False)
    try:
        launch(x, y, rows, WIDTH, True)
    except DeviceAssertionError as error:
        print(f"the assertion: {error.message} in {error.value}")


def run(target: str, rows: int = 5) -> list[Measured]:
    """Show the tools on the wrong kernel, then measure the right one on `target`."""
    x = np.random.default_rng(3).standard_normal(rows * WIDTH + 1, dtype=np.float32)
    y = np.full(rows * WIDTH, np.nan, np.float32)
    with scope(FLYDSL_TARGET=target):
        explain(x, y, rows)
    figures = measure(target, launch, (x, y, rows, WIDTH - 1, True))
    table = x[:-1].astype(np.float64).reshape(rows, WIDTH)
    expected = table + np.concatenate((table[:, 1:], table[:, -1:]), axis=1)
    error = float(np.abs(y.reshape(rows, WIDTH) - expected).max())
    # One rounding of a sum below 16.
    return [figure.checked(error, 2.0**-21) for figure in figures]


if __name__ == "__main__":
    sys.exit(print_report(run(example_arguments(__doc__).target)))
