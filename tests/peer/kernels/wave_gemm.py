"""C = A B^T on RDNA matrix units: 32 x 32 tiles of four waves, fragments from global memory."""

import flydsl.compiler as flyc
import flydsl.expr as fx

TILE_M, TILE_N, TILE_K = 32, 32, 16


@flyc.kernel
def wave_gemm(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, K: fx.Constexpr[int]):
    tid = fx.thread_idx.x
    bid_m = fx.block_idx.x
    bid_n = fx.block_idx.y
    atom = fx.make_mma_atom(fx.rocdl.WMMA(16, 16, 16, fx.Float16))
    mma = fx.make_tiled_mma(atom, fx.make_layout((2, 2, 1), (1, 2, 0)))
    load = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16)
    store = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    copy_a = fx.make_tiled_copy_A(load, mma).get_slice(tid)
    copy_b = fx.make_tiled_copy_B(load, mma).get_slice(tid)
    copy_c = fx.make_tiled_copy_C(store, mma).get_slice(tid)
    tile_c = fx.slice(fx.zipped_divide(C, (TILE_M, TILE_N)), (None, (bid_m, bid_n)))
    frag_c = mma.make_fragment_C(tile_c)
    frag_c.fill(0)
    for k in fx.range_constexpr(K // TILE_K):
        tile_a = fx.slice(fx.zipped_divide(A, (TILE_M, TILE_K)), (None, (bid_m, k)))
        tile_b = fx.slice(fx.zipped_divide(B, (TILE_N, TILE_K)), (None, (bid_n, k)))
        frag_a = mma.make_fragment_A(tile_a)
        frag_b = mma.make_fragment_B(tile_b)
        fx.copy(load, copy_a.partition_S(tile_a), copy_a.retile(frag_a))
        fx.copy(load, copy_b.partition_S(tile_b), copy_b.retile(frag_b))
        fx.gemm(mma, frag_c, frag_a, frag_b, frag_c)
    fx.copy(store, copy_c.retile(frag_c), copy_c.partition_D(tile_c))


@flyc.jit
def launch(
    A: fx.Tensor, B: fx.Tensor, C: fx.Tensor,
    M: fx.Int32, N: fx.Int32, K: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):  # fmt: skip
    wave_gemm(A, B, C, K).launch(
        grid=(M // TILE_M, N // TILE_N, 1), block=(128, 1, 1), stream=stream
    )
