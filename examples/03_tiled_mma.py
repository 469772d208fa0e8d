"""One tile of a matrix product, C = A Bᵀ, by four waves with matrix instructions.

A tiled MMA repeats one instruction over the waves and over the tile. Tiled copies made for it bring
every thread its own values of A and B from global memory, `fx.gemm` multiplies the fragments, and
a third tiled copy stores C. Where there is no MFMA, the same kernel runs on one multiplication and
one addition per thread and step, in float32.

Run it with ``python examples/03_tiled_mma.py --target gfx950``; no GPU is needed.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from example_report import Measured, example_arguments, measure, print_report

import flydsl.compiler as flyc
import flydsl.expr as fx

THREADS = 256


@dataclass(frozen=True)
class Plan:
    """What is decided before the kernel is traced.

    Attributes:
        shape: Extents M, N, K of the tile.
        instruction: Extents of the MFMA, or None for the plain multiply-add.
    """

    shape: tuple[int, int, int]
    instruction: tuple[int, int, int] | None


PLANS = {
    "gfx942": Plan((64, 64, 64), (16, 16, 16)),
    "gfx950": Plan((64, 64, 64), (16, 16, 32)),
}
PLAIN = Plan((32, 32, 32), None)


@flyc.kernel
def tile_product(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, plan: fx.Constexpr[Plan]):
    """Multiply the whole tile with one workgroup."""
    m, n, k = plan.shape
    thread = fx.thread_idx.x
    if plan.instruction is not None:
        operation = fx.rocdl.MFMA(*plan.instruction, fx.Float16)
        # Four waves: two along M, two along N.
        mma = fx.make_tiled_mma(operation, fx.make_layout((2, 2, 1), (1, 2, 0)))
        bits = 16 * plan.instruction[2] // 4  # a lane's neighbours along K, in one load
    else:
        mma = fx.make_tiled_mma(
            fx.UniversalFMA(fx.Float32), fx.make_layout((16, 16, 1), (16, 1, 0))
        )
        bits = 32

    def known(tensor, rows, columns):
        return fx.make_view(fx.get_iter(tensor), fx.make_layout((rows, columns), (columns, 1)))

    tile_a, tile_b, tile_c = known(A, m, k), known(B, n, k), known(C, m, n)
    load = fx.make_copy_atom(fx.UniversalCopy(bits), A.dtype)
    store = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    copy_a = fx.make_tiled_copy_A(load, mma)
    copy_b = fx.make_tiled_copy_B(load, mma)
    copy_c = fx.make_tiled_copy_C(store, mma)

    a, b, c = mma.make_fragment_A(tile_a), mma.make_fragment_B(tile_b), mma.make_fragment_C(tile_c)
    fx.copy(copy_a, copy_a.get_slice(thread).partition_S(tile_a), copy_a.retile(a))
    fx.copy(copy_b, copy_b.get_slice(thread).partition_S(tile_b), copy_b.retile(b))
    c.fill(0.0)
    fx.gemm(mma, c, a, b, c)
    fx.copy(copy_c, copy_c.retile(c), copy_c.get_slice(thread).partition_D(tile_c))


@flyc.jit
def launch(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, plan: fx.Constexpr[Plan]):
    """Launch one workgroup."""
    tile_product(A, B, C, plan).launch(grid=1, block=THREADS)


def run(target: str) -> list[Measured]:
    """Multiply random matrices on `target` and compare with float64."""
    plan = PLANS.get(target, PLAIN)
    m, n, k = plan.shape
    dtype = np.float32 if plan.instruction is None else np.float16
    random = np.random.default_rng(3)
    a = random.standard_normal((m, k)).astype(dtype)
    b = random.standard_normal((n, k)).astype(dtype)
    c = np.full((m, n), np.nan, np.float32)
    figures = measure(target, launch, (a, b, c, plan))
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    # Products of float16 are exact in float32; each product of float32, and each of the k
    # additions, errs by 2^-24 of what is summed so far, at most the sum of the magnitudes.
    bound = 2 * k * 2.0**-24 * (np.abs(wide_a) @ np.abs(wide_b).T).max()
    error = float(np.abs(c - wide_a @ wide_b.T).max())
    return [figure.checked(error, float(bound)) for figure in figures]


if __name__ == "__main__":
    sys.exit(print_report(run(example_arguments(__doc__).target)))
