"""C = A Bᵀ in tiles by four waves, pipelined, with preshuffled B: the shape of a fast GEMM.

The weights B are rearranged once so that the values of one lane for one step of a matrix
instruction lie together: B goes from global memory straight to registers. A goes through LDS, whose
16-byte pieces are swizzled over the banks. While one tile is multiplied, the next one is on its
way from global memory, and LDS holds two tiles, so there is one barrier per tile.

Run it with ``python examples/04_preshuffle_gemm.py --target gfx950``; no GPU is needed.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from example_report import Measured, example_arguments, measure, only_for, print_report

import flydsl.compiler as flyc
import flydsl.expr as fx

TILE_M, TILE_N, TILE_K = 64, 64, 32
THREADS = 256


def preshuffled(n: int, k: int) -> fx.Layout:
    """Return the layout (N, K) of the preshuffled weights.

    Blocks of 16 rows and 32 columns are 64 lanes of eight values; lane
    ``n % 16 + 16 * (k // 4 % 4)`` holds four values of each of two instructions of 16 columns.
    """
    return fx.Layout(
        ((16, n // 16), (4, 4, 2, k // 32)), ((8, 16 * k), (1, 128, 4, 512))
    )  # fmt: skip


def preshuffle(b: np.ndarray) -> np.ndarray:
    """Rearrange weights (N, K) as `preshuffled` says."""
    n, k = b.shape
    blocks = b.reshape(n // 16, 16, k // 32, 2, 4, 4)  # n1 n0 k3 k2 k1 k0
    return np.ascontiguousarray(blocks.transpose(0, 2, 4, 1, 3, 5)).reshape(-1)


@flyc.kernel
def gemm_kernel(
    A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, n: fx.Constexpr[int], k: fx.Constexpr[int]
):
    """Multiply one tile of C by one block; A (M, K) float16, B preshuffled, C (M, N) float32."""
    thread = fx.thread_idx.x
    steps = fx.const_expr(k // TILE_K)
    tiles: Any = fx.Array[fx.Float16, 2 * TILE_M * TILE_K]
    storage = fx.SharedAllocator().allocate(tiles, alignment=1024)
    plain = fx.make_layout((TILE_M, TILE_K, 2), (TILE_K, 1, TILE_M * TILE_K))
    lds = fx.make_view(storage.ptr, fx.make_composed_layout(fx.Swizzle(2, 3, 3), plain))
    mma = fx.make_tiled_mma(
        fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16)),
        fx.make_layout((2, 2, 1), (1, 2, 0)),
        (None, None, TILE_K),
    )
    rows, pieces = fx.make_layout((64, 4), (4, 1)), fx.make_layout((1, 8), (1, 1))
    wide = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16)
    half = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16)
    fill = fx.make_tiled_copy_tv(wide, rows, pieces)
    read_a, read_b = fx.make_tiled_copy_A(half, mma), fx.make_tiled_copy_B(half, mma)
    share, own_b = fill.get_slice(thread), read_b.get_slice(thread)
    weights = fx.make_view(fx.get_iter(B), preshuffled(n, k))
    tiles_a = fx.zipped_divide(A, (TILE_M, TILE_K))
    tiles_b = fx.zipped_divide(weights, (TILE_N, TILE_K))
    tile_c = fx.zipped_divide(C, (TILE_M, TILE_N))[None, (fx.block_idx.x, fx.block_idx.y)]
    a = mma.make_fragment_A(lds[None, None, 0])
    c = mma.make_fragment_C(tile_c)
    c.fill(0.0)

    def load(step):
        from_a = share.partition_S(tiles_a[None, (fx.block_idx.x, step)])
        tile_b = tiles_b[None, (fx.block_idx.y, step)]
        next_a, next_b = fx.make_fragment_like(from_a), mma.make_fragment_B(tile_b)
        fx.copy(fill, from_a, next_a)
        fx.copy(read_b, own_b.partition_S(tile_b), read_b.retile(next_b))
        return next_a, next_b

    ahead_a, ahead_b = load(0)
    for step in fx.range_constexpr(steps):
        here = lds[None, None, step % 2]
        b = ahead_b
        fx.copy(fill, ahead_a, share.partition_D(here))
        fx.barrier()
        if fx.const_expr(step + 1 < steps):
            ahead_a, ahead_b = load(step + 1)
        fx.copy(read_a, read_a.get_slice(thread).partition_S(here), read_a.retile(a))
        fx.gemm(mma, c, a, b, c)
    write = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    fx.copy(write, c, mma.get_slice(thread).partition_C(tile_c))


@flyc.jit
def gemm(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, m: fx.Int32, n: fx.Constexpr[int],
         k: fx.Constexpr[int]):  # fmt: skip
    """Launch one block per tile; M and N in tiles of 64, K of 32."""
    gemm_kernel(A, B, C, n, k).launch(grid=(m // TILE_M, n // TILE_N), block=THREADS)


def run(target: str, m: int = 128, n: int = 128, k: int = 160) -> list[Measured]:
    """Multiply on the emulator and compare with float64."""
    random = np.random.default_rng(7)
    a = random.standard_normal((m, k)).astype(np.float16)
    b = random.standard_normal((n, k)).astype(np.float16)
    c = np.full((m, n), np.nan, np.float32)
    figures = measure(target, gemm, (a, preshuffle(b), c, m, n, k))
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    # Products are exact in float32; each of the k additions errs by 2^-24 of the magnitudes so far.
    bound = k * 2.0**-24 * (np.abs(wide_a) @ np.abs(wide_b).T).max()
    error = float(np.abs(c - wide_a @ wide_b.T).max())
    return [figure.checked(error, float(bound)) for figure in figures]


if __name__ == "__main__":
    chosen = example_arguments(__doc__).target
    only_for(chosen, "gfx942", "gfx950")
    sys.exit(print_report(run(chosen)))
