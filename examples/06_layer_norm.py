"""LayerNorm and a clamped SwiGLU of every row of a 515 x 1000 float16 matrix.

One workgroup per row, of a size that no warp divides. Mean and variance come from one pass over the
row by merging Welford statistics in order; a struct carries the parameters.

Run it with ``python examples/06_layer_norm.py --target gfx1201``; no GPU is needed.
"""

from __future__ import annotations

import sys

import numpy as np
from example_report import Measured, example_arguments, measure, print_report

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.ext import activation, coop

THREADS = 168


@fx.struct
class Norm(fx.Struct):
    """Parameters of the normalisation of rows."""

    columns: fx.Int32
    epsilon: fx.Float32
    limit: fx.Constexpr[float]

    def gated(self, value, whole):
        """Return the activation of a normalised value; it is its own gate."""
        scaled = (value - whole.mean) * fx.rsqrt(whole.variance() + self.epsilon)
        return activation.swiglu(scaled, scaled, limit=self.limit)


@flyc.kernel
def normalise_rows(X: fx.Tensor, Y: fx.Tensor, norm: Norm):
    """Write one row; a thread handles columns `thread + k * THREADS`."""
    row, thread = fx.block_idx.x, fx.thread_idx.x
    mine = coop.Welford.of(fx.Float32(0.0), False)
    for column in range(thread, norm.columns, THREADS):
        mine = coop.merge_welford(mine, coop.Welford.of(X[row, column].to(fx.Float32)))
    whole = coop.block_reduce(mine, coop.merge_welford)
    for column in range(thread, norm.columns, THREADS):
        value = X[row, column].to(fx.Float32)
        Y[row, column] = norm.gated(value, whole).to(fx.Float16)


@flyc.jit
def launch(X: fx.Tensor, Y: fx.Tensor, rows: fx.Int32, norm: Norm):
    """Launch one workgroup per row."""
    normalise_rows(X, Y, norm).launch(grid=(rows,), block=(THREADS,))


def run(target: str, rows: int = 515, columns: int = 1000) -> list[Measured]:
    """Normalise a random matrix on `target` and compare with float64."""
    random = np.random.default_rng(6)
    x = (50 + 2 * random.standard_normal((rows, columns))).astype(np.float16)
    y = np.full_like(x, np.nan)
    figures = measure(target, launch, (x, y, rows, Norm(columns, 1e-5, limit=2.0)))
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    gate = np.minimum(scaled, 2.0)
    expected = gate / (1 + np.exp(-gate)) * np.clip(scaled, -2.0, 2.0)
    # Results are below 4, so rounding to float16 costs at most 2^-10; the statistics, relative to
    # a mean 25 times the deviation, and the rest stay below an eighth of that.
    error = float(np.abs(y - expected).max())
    return [figure.checked(error, 1.125 * 2.0**-10) for figure in figures]


if __name__ == "__main__":
    sys.exit(print_report(run(example_arguments(__doc__).target)))
