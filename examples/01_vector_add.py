"""C = A + B on 1,000,003 float32 values, a count that no tile divides.

Every thread moves four neighbouring values with one 128-bit copy. The workgroup whose tile reaches
past the end falls back to single values, each behind a bounds check.

Run it with ``python examples/01_vector_add.py --target gfx942``; no GPU is needed.
"""

from __future__ import annotations

import sys

import numpy as np
from example_report import Measured, example_arguments, measure, print_report

import flydsl.compiler as flyc
import flydsl.expr as fx

THREADS = 256
PER_THREAD = 4
TILE = THREADS * PER_THREAD


@flyc.kernel
def vector_add(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, n: fx.Int32):
    """Add one tile of `TILE` values per workgroup."""
    block = fx.block_idx.x
    thread = fx.thread_idx.x
    if (block + 1) * TILE <= n:
        # ((value, thread), tile): mode 0 is one workgroup's tile, split again for each thread.
        layout = fx.make_layout((PER_THREAD, THREADS), (1, PER_THREAD))
        copy = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)

        def mine(tensor):
            tile = fx.slice(fx.zipped_divide(tensor, fx.make_tile(TILE)), (None, block))
            return fx.slice(fx.composition(tile, layout), (None, thread))

        a = fx.make_rmem_tensor(PER_THREAD, fx.Float32)
        b = fx.make_rmem_tensor(PER_THREAD, fx.Float32)
        c = fx.make_rmem_tensor(PER_THREAD, fx.Float32)
        fx.copy_atom_call(copy, mine(A), a)
        fx.copy_atom_call(copy, mine(B), b)
        fx.memref_store_vec(fx.memref_load_vec(a) + fx.memref_load_vec(b), c)
        fx.copy_atom_call(copy, c, mine(C))
    else:
        for step in fx.range_constexpr(PER_THREAD):
            i = block * TILE + step * THREADS + thread
            if i < n:
                C[i] = A[i] + B[i]


@flyc.jit
def launch(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, n: fx.Int32):
    """Cover `n` values with tiles."""
    vector_add(A, B, C, n).launch(grid=((n + TILE - 1) // TILE,), block=(THREADS,))


def run(target: str, count: int = 1_000_003) -> list[Measured]:
    """Add two random vectors of `count` values on `target` and compare with float64."""
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(count, dtype=np.float32) for _ in range(2))
    c = np.full(count, np.nan, dtype=np.float32)
    figures = measure(target, launch, (a, b, c, count))
    expected = a.astype(np.float64) + b
    # One correctly rounded addition: half a unit in the last place.
    tolerance = 2.0**-24 * np.abs(expected).max()
    error = float(np.abs(c - expected).max())
    return [figure.checked(error, tolerance) for figure in figures]


if __name__ == "__main__":
    sys.exit(print_report(run(example_arguments(__doc__).target)))
