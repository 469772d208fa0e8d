"""Softmax of every row of a 1823 x 781 float32 matrix.

One workgroup per row. Each thread keeps its share of the row in registers; maxima and sums are
combined within a wave by shuffles, then between the waves through LDS.

Run it with ``python examples/02_row_softmax.py --target gfx950``; no GPU is needed.
"""

from __future__ import annotations

import sys

import numpy as np
from example_report import Measured, example_arguments, measure, print_report

import flydsl.compiler as flyc
import flydsl.expr as fx

THREADS = 256
LOG2_E = 1.4426950408889634


def wave_reduce(value, combine, width):
    """Combine a value over the lanes of a wave; every lane gets the result."""
    offset = width // 2
    while offset:
        value = combine(value, fx.gpu.shuffle_xor(value, offset, width))
        offset //= 2
    return value


def block_reduce(value, combine, scratch, width):
    """Combine a value over the workgroup; `scratch` holds one LDS value per wave."""
    value = wave_reduce(value, combine, width)
    wave = fx.thread_idx.x // width
    scratch[wave] = value  # the lanes of a wave write the same value to the same place
    fx.gpu.barrier()
    total = scratch[0]
    for other in range(1, THREADS // width):
        total = combine(total, scratch[other])
    return total


@flyc.kernel
def row_softmax(X: fx.Tensor, Y: fx.Tensor, columns: fx.Int32, steps: fx.Constexpr[int]):
    """Write the softmax of one row; a thread handles columns `thread + k * THREADS`."""
    row = fx.block_idx.x
    thread = fx.thread_idx.x
    width = fx.gpu.num_warp_threads()
    shared = fx.SharedAllocator()
    maxima = shared.allocate(fx.Array[fx.Float32, THREADS // width])
    sums = shared.allocate(fx.Array[fx.Float32, THREADS // width])

    values = []
    for step in fx.range_constexpr(steps):
        column = thread + step * THREADS
        value = fx.Float32(float("-inf"))
        if column < columns:
            value = X[row, column]
        values.append(value)

    high = values[0]
    for value in values[1:]:
        high = fx.max(high, value)
    high = block_reduce(high, fx.max, maxima, width)

    values = [fx.math.exp2((value - high) * LOG2_E) for value in values]
    total = values[0]
    for value in values[1:]:
        total = total + value
    total = block_reduce(total, lambda a, b: a + b, sums, width)

    for step in fx.range_constexpr(steps):
        column = thread + step * THREADS
        if column < columns:
            Y[row, column] = values[step] / total


@flyc.jit
def launch(X: fx.Tensor, Y: fx.Tensor, rows: fx.Int32, columns: fx.Int32, steps: fx.Constexpr[int]):
    """Launch one workgroup per row."""
    row_softmax(X, Y, columns, steps).launch(grid=(rows,), block=(THREADS,))


def run(target: str, rows: int = 1823, columns: int = 781) -> list[Measured]:
    """Apply softmax to a random matrix on `target` and compare with float64."""
    random = np.random.default_rng(2)
    x = 4 * random.standard_normal((rows, columns), dtype=np.float32)
    y = np.full_like(x, np.nan)
    steps = -(-columns // THREADS)
    figures = measure(target, launch, (x, y, rows, columns, steps))
    wide = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    expected = wide / wide.sum(axis=1, keepdims=True)
    # In units of 2^-24, relative to a probability p = 2^-t: rounding the exponent's argument costs
    # 3 t ln 2, which p scales down to less than 2; exp2 one; the sum at most its 14 additions in a
    # row; the division one and a half. Together below 24.
    error = float(np.abs(y - expected).max())
    return [figure.checked(error, 24 * 2.0**-24) for figure in figures]


if __name__ == "__main__":
    sys.exit(print_report(run(example_arguments(__doc__).target)))
