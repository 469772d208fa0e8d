"""Instructions that addressing costs in compiled kernels, counted while they run."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl_emu import collect


@flyc.kernel
def add_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor):
    def mine(tensor):
        block = fx.slice(fx.logical_divide(tensor, fx.make_layout(1024, 1)), (None, fx.block_idx.x))
        return fx.slice(fx.logical_divide(block, fx.make_layout(4, 1)), (None, fx.thread_idx.x))

    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    a, b = fx.make_rmem_tensor(4, fx.Float32), fx.make_rmem_tensor(4, fx.Float32)
    fx.copy_atom_call(atom, mine(A), a)
    fx.copy_atom_call(atom, mine(B), b)
    a.store(a.load() + b.load())
    fx.copy_atom_call(atom, a, mine(C))


@flyc.jit
def add(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor):
    add_kernel(A, B, C).launch(grid=4, block=256)


@flyc.kernel
def tile_kernel(A: fx.Tensor, C: fx.Tensor):
    """Move a 128 x 64 tile through a tiled copy, four instructions a thread."""
    copy = fx.make_tiled_copy_tv(
        fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16),
        fx.make_layout((32, 8), (8, 1)),
        fx.make_layout((1, 8), (1, 1)),
    )
    share = copy.get_slice(fx.thread_idx.x)
    layout = fx.make_layout((128, 64), (64, 1))
    source = share.partition_S(fx.make_view(A.iter, layout))
    fragment = fx.make_fragment_like(source)
    fx.copy(copy, source, fragment)
    fx.copy(copy, fragment, share.partition_D(fx.make_view(C.iter, layout)))


@flyc.jit
def tile(A: fx.Tensor, C: fx.Tensor):
    tile_kernel(A, C).launch(grid=1, block=256)


@flyc.kernel
def swizzle_kernel(A: fx.Tensor, C: fx.Tensor):
    """Read what an MMA needs of a 64 x 64 tile in swizzled LDS, eight values at a time."""
    thread = fx.thread_idx.x
    storage = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 64 * 64], alignment=1024)
    layout = fx.make_layout((64, 64), (64, 1))
    shared = fx.make_view(storage.ptr, fx.make_composed_layout(fx.Swizzle(3, 3, 3), layout))
    wide = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16)
    fill = fx.make_tiled_copy_tv(
        wide, fx.make_layout((32, 8), (8, 1)), fx.make_layout((1, 8), (1, 1))
    )
    source = fill.get_slice(thread).partition_S(fx.make_view(A.iter, layout))
    staged = fx.make_fragment_like(source)
    fx.copy(fill, source, staged)
    fx.copy(fill, staged, fill.get_slice(thread).partition_D(shared))
    fx.barrier()
    mma = fx.make_tiled_mma(
        fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16)),
        fx.make_layout((2, 2, 1), (1, 2, 0)),
        (None, None, fx.make_layout((4, 4, 2), (1, 8, 4))),
    )
    copy = fx.make_tiled_copy_A(wide, mma)
    fragment = mma.make_fragment_A(shared)
    fx.copy(copy, copy.get_slice(thread).partition_S(shared), copy.retile(fragment))
    fx.memref_store_vec(fragment.load(), fx.make_view(C.iter + thread * 32, fx.make_layout(32, 1)))


@flyc.jit
def swizzle(A: fx.Tensor, C: fx.Tensor):
    swizzle_kernel(A, C).launch(grid=1, block=256)


def halves(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float16)


def floats():
    return np.random.default_rng(1).standard_normal(4096).astype(np.float32)


@pytest.mark.parametrize(
    ("launch", "arguments", "vector", "scalar"),
    [
        # One shift for three addresses, two packed additions; the blocks' addresses are scalar.
        (add, (floats(), floats(), floats()), 3, 8),
        # Eight 16-byte accesses, three of each side beyond the immediate offsets' reach.
        (tile, (halves(128, 64), halves(128, 64)), 16, 1),
        # Twelve accesses of 16 bytes, half of them through a swizzle.
        (swizzle, (halves(64, 64), halves(256, 32)), 30, 1),
    ],
    ids=["add", "tile", "swizzle"],
)
def test_a_wave_executes_few_instructions(mfma_target, launch, arguments, vector, scalar):
    with collect() as reports:
        launch(*arguments)
    (report,) = reports
    waves = report.grid[0] * report.block[0] // 64
    assert report.instructions["valu"] <= vector * waves, report.instructions
    assert report.instructions["salu"] <= scalar * waves, report.instructions
