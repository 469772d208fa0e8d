"""A matrix product through LDS tiles, used by tests that look at source lines."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

TILE = 16


def load_tiles(A, B, tile_a, tile_b, step, row, column):
    """Copy one tile of each operand to LDS."""
    x = fx.thread_idx.x
    y = fx.thread_idx.y
    tile_a[y * TILE + x] = A[row, step * TILE + x]
    tile_b[y * TILE + x] = B[step * TILE + y, column]


@flyc.kernel
def product(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, steps: fx.Int32):
    shared = fx.SharedAllocator()
    tile_a = shared.allocate(fx.Array[fx.Float32, TILE * TILE])
    tile_b = shared.allocate(fx.Array[fx.Float32, TILE * TILE])
    x = fx.thread_idx.x
    y = fx.thread_idx.y
    row = fx.block_idx.y * TILE + y
    column = fx.block_idx.x * TILE + x
    total = fx.Float32(0.0)
    for step in range(steps):
        load_tiles(A, B, tile_a, tile_b, step, row, column)
        fx.gpu.barrier()
        for k in fx.range_constexpr(TILE):
            total = total + tile_a[y * TILE + k] * tile_b[k * TILE + x]
        fx.gpu.barrier()
    C[row, column] = total


@flyc.jit
def launch(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, n: fx.Int32):
    product(A, B, C, n // TILE).launch(grid=(n // TILE, n // TILE), block=(TILE, TILE))
