"""A product of several tiles: global memory to swizzled LDS to fragments, in a loop over K."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

TILE_M, TILE_N, TILE_K = 64, 64, 32
THREADS = 256


def shared_tile(allocator, rows):
    """Return a tile of LDS whose 16-byte pieces are swizzled over the banks."""
    storage = allocator.allocate(fx.Array[fx.Float16, rows * TILE_K], alignment=1024)
    layout = fx.make_layout((rows, TILE_K), (TILE_K, 1))
    return fx.make_view(storage.ptr, fx.make_composed_layout(fx.Swizzle(2, 3, 3), layout))


@flyc.kernel
def staged_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, steps: fx.Int32,
                  buffers: fx.Constexpr[bool]):  # fmt: skip
    thread = fx.thread_idx.x
    if fx.const_expr(buffers):
        A, B = fx.rocdl.make_buffer_tensor(A), fx.rocdl.make_buffer_tensor(B)
        wide = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), fx.Float16)
    else:
        wide = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16)
    allocator = fx.SharedAllocator()
    lds_a, lds_b = shared_tile(allocator, TILE_M), shared_tile(allocator, TILE_N)
    mma = fx.make_tiled_mma(
        fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16)),
        fx.make_layout((2, 2, 1), (1, 2, 0)),
        (None, None, TILE_K),
    )
    # Global to registers to LDS: 64 rows of four pieces of eight.
    fill = fx.make_tiled_copy_tv(
        wide, fx.make_layout((64, 4), (4, 1)), fx.make_layout((1, 8), (1, 1))
    )
    to_lds = fx.make_tiled_copy_tv(
        fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16),
        fx.make_layout((64, 4), (4, 1)),
        fx.make_layout((1, 8), (1, 1)),
    )
    from_lds = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16)
    read_a, read_b = fx.make_tiled_copy_A(from_lds, mma), fx.make_tiled_copy_B(from_lds, mma)
    tiles_a = fx.zipped_divide(A, (TILE_M, TILE_K))
    tiles_b = fx.zipped_divide(B, (TILE_N, TILE_K))
    tile_c = fx.zipped_divide(C, (TILE_M, TILE_N))[None, (fx.block_idx.x, fx.block_idx.y)]
    a, b = mma.make_fragment_A(lds_a), mma.make_fragment_B(lds_b)
    c = mma.make_fragment_C(tile_c)
    c.fill(0.0)
    share = fill.get_slice(thread)
    store = to_lds.get_slice(thread)
    for k in range(steps):
        from_a = share.partition_S(tiles_a[None, (fx.block_idx.x, k)])
        from_b = share.partition_S(tiles_b[None, (fx.block_idx.y, k)])
        register_a, register_b = fx.make_fragment_like(from_a), fx.make_fragment_like(from_b)
        fx.copy(fill, from_a, register_a)
        fx.copy(fill, from_b, register_b)
        fx.barrier()  # the tile before has been read
        fx.copy(to_lds, register_a, store.partition_D(lds_a))
        fx.copy(to_lds, register_b, store.partition_D(lds_b))
        fx.barrier()
        fx.copy(read_a, read_a.get_slice(thread).partition_S(lds_a), read_a.retile(a))
        fx.copy(read_b, read_b.get_slice(thread).partition_S(lds_b), read_b.retile(b))
        fx.gemm(mma, c, a, b, c)
    write = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    fx.copy(write, c, mma.get_slice(thread).partition_C(tile_c))


@flyc.jit
def staged(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, m: fx.Int32, n: fx.Int32, k: fx.Int32,
           buffers: fx.Constexpr[bool]):  # fmt: skip
    staged_kernel(A, B, C, k // TILE_K, buffers).launch(
        grid=(m // TILE_M, n // TILE_N), block=THREADS
    )


@pytest.mark.parametrize("buffers", [False, True], ids=["global", "buffer"])
def test_a_product_of_many_tiles(mfma_target, buffers):
    m, n, k = 128, 192, 96
    random = np.random.default_rng(11)
    a = random.standard_normal((m, k)).astype(np.float16)
    b = random.standard_normal((n, k)).astype(np.float16)
    c = np.full((m, n), np.nan, np.float32)
    staged(a, b, c, m, n, k, buffers)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    # Products are exact in float32; each of the k additions errs by 2^-24 of the magnitudes so far.
    bound = k * 2.0**-24 * (np.abs(wide_a) @ np.abs(wide_b).T)
    assert (np.abs(c - wide_a @ wide_b.T) <= bound).all()
