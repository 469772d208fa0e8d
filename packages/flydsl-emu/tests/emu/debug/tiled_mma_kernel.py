"""A product of tiles on matrix instructions, for the tests of line tables."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

TILE, DEPTH = 64, 32


@flyc.kernel
def product(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, steps: fx.Int32):
    thread = fx.thread_idx.x
    mma = fx.make_tiled_mma(
        fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16)),
        fx.make_layout((2, 2, 1), (1, 2, 0)),
        (None, None, DEPTH),
    )
    load = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16)
    read_a, read_b = fx.make_tiled_copy_A(load, mma), fx.make_tiled_copy_B(load, mma)
    tiles_a = fx.zipped_divide(A, (TILE, DEPTH))
    tiles_b = fx.zipped_divide(B, (TILE, DEPTH))
    tile_c = fx.zipped_divide(C, (TILE, TILE))[None, (fx.block_idx.x, fx.block_idx.y)]
    first = (fx.block_idx.x, 0), (fx.block_idx.y, 0)
    a = mma.make_fragment_A(tiles_a[None, first[0]])
    b = mma.make_fragment_B(tiles_b[None, first[1]])
    c = mma.make_fragment_C(tile_c)
    c.fill(0.0)
    for k in range(steps):
        from_a = read_a.get_slice(thread).partition_S(tiles_a[None, (fx.block_idx.x, k)])
        from_b = read_b.get_slice(thread).partition_S(tiles_b[None, (fx.block_idx.y, k)])
        fx.copy(read_a, from_a, read_a.retile(a))
        fx.copy(read_b, from_b, read_b.retile(b))
        fx.gemm(mma, c, a, b, c)
    store = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    fx.copy(store, c, mma.get_slice(thread).partition_C(tile_c))


@flyc.jit
def launch(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, steps: fx.Int32):
    product(A, B, C, steps).launch(grid=(2, 2), block=256)
