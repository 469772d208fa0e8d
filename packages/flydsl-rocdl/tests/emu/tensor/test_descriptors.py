"""`fx.rocdl.tdm_ops`: descriptors of tiles and of gathered rows, and their addresses."""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu
from flydsl.config import scope
from flydsl.errors import TargetError, UserError

ops = fx.rocdl.tdm_ops
GIB = 1 << 30


@flyc.kernel
def _gather(a: fx.Tensor, rows: fx.Tensor, out: fx.Tensor, count: fx.Constexpr[int],
            size: fx.Constexpr[int], pad: fx.Constexpr[int]) -> None:  # fmt: skip
    pitch = fx.const_expr(32 + pad)
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 16 * pitch], alignment=16)
    numbers = [rows[i] for i in range(count)]
    found = ops.make_tensor_gather_descriptor(
        a, space.ptr, numbers, 32, 30, 24, 40, elem_bytes=2, index_size=size,
        pad_interval=32 if pad else 0, pad_amount=pad,
    )  # fmt: skip
    ops.tensor_load_gather(found)
    ops.tensor_wait()
    fx.barrier()
    lds = fx.make_view(space.ptr, fx.make_layout((16, 32), (pitch, 1)))
    for row in fx.range_constexpr(count):
        out[row, fx.thread_idx.x] = lds[row, fx.thread_idx.x]


@flyc.jit
def _launch_gather(a: fx.Tensor, rows: fx.Tensor, out: fx.Tensor, count: fx.Constexpr[int],
                   size: fx.Constexpr[int], pad: fx.Constexpr[int]) -> None:  # fmt: skip
    _gather(a, rows, out, count, size, pad).launch(grid=(1,), block=(32, 1, 1))


@pytest.mark.parametrize(("count", "size"), [(1, 32), (5, 32), (8, 32), (7, 16), (16, 16)])
@pytest.mark.parametrize("pad", [0, 8])
def test_rows_by_number(count: int, size: int, pad: int) -> None:
    generator = np.random.default_rng(count + pad)
    a = generator.random((30, 40)).astype(np.float16)
    rows = generator.integers(0, 28, count).astype(np.int32)  # 24 exist
    out = np.full((count, 32), 9, np.float16)
    with scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize():
        _launch_gather(a, rows, out, count, size, pad)
    expected = a[rows][:, :32].copy()
    expected[rows >= 24] = 0
    expected[:, 30:] = 0
    assert np.array_equal(out, expected)


@flyc.kernel
def _scatter(a: fx.Tensor, out: fx.Tensor) -> None:
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 4 * 32], alignment=16)
    tile = ops.make_tensor_descriptor_2d(a, space.ptr, (3, 4), (40, 40), (40, 1), (4, 32), 2)
    ops.tensor_load_2d(tile)
    ops.tensor_wait()
    rows = ops.make_tensor_gather_descriptor(
        out, space.ptr, (7, 2, 30, 0), 32, 32, 20, 32, elem_bytes=2
    )
    ops.tensor_store_gather(rows)
    ops.tensor_wait()


@flyc.jit
def _launch_scatter(a: fx.Tensor, out: fx.Tensor) -> None:
    _scatter(a, out).launch(grid=(1,), block=(32, 1, 1))


def test_rows_are_stored_by_number() -> None:
    a = np.random.default_rng(2).random((40, 40)).astype(np.float16)
    out = np.zeros((20, 32), np.float16)
    with scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize():
        _launch_scatter(a, out)
    expected = np.zeros_like(out)
    for at, row in enumerate((7, 2, 30, 0)):
        if row < 20:
            expected[row] = a[3 + at, 4:36]
    assert np.array_equal(out, expected)


@flyc.kernel
def _bounded(a: fx.Tensor, out: fx.Tensor, first: fx.Int32, rows: fx.Int32, columns: fx.Int32,
             pad: fx.Constexpr[int]) -> None:  # fmt: skip
    pitch = fx.const_expr(16 + pad)
    space = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 8 * pitch], alignment=16)
    options = {"pad_interval": 16, "pad_amount": pad} if fx.const_expr(pad) else {}
    load = ops.make_tensor_descriptor_2d(
        a, space.ptr, (first, 0), (rows, columns), (20, 1), (8, 16), 4,
        oob_outer_bound=rows, oob_inner_bound=columns, **options,
    )  # fmt: skip
    ops.tensor_load_2d(load)
    ops.tensor_wait()
    store = ops.make_tensor_descriptor_2d(
        out, space.ptr, (0, 0), (8, 16), (16, 1), (8, 16), 4, for_store=True, **options
    )
    ops.tensor_store_2d(store)
    ops.tensor_wait()


@flyc.jit
def _launch_bounded(a: fx.Tensor, out: fx.Tensor, first: fx.Int32, rows: fx.Int32,
                    columns: fx.Int32, pad: fx.Constexpr[int]) -> None:  # fmt: skip
    _bounded(a, out, first, rows, columns, pad).launch(grid=(1,), block=(32, 1, 1))


@pytest.mark.parametrize("pad", [0, 4])
@pytest.mark.parametrize(("first", "rows"), [(0, 30), (25, 30), (29, 30), (30, 30), (40, 30)])
def test_bounds_are_of_the_tensor(first: int, rows: int, pad: int) -> None:
    a = np.arange(1, 50 * 20 + 1, dtype=np.int32).reshape(50, 20)
    out = np.full((8, 16), -1, np.int32)
    with scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize():
        _launch_bounded(a, out, first, rows, 13, pad)
    expected = np.zeros_like(out)
    left = max(0, min(8, rows - first))
    expected[:left, :13] = a[first : first + left, :13]
    assert np.array_equal(out, expected)


@flyc.kernel
def _far(a: fx.Tensor, out: fx.Tensor, near: fx.Int64, bump: fx.Int64, how: fx.Constexpr[str]
         ) -> None:  # fmt: skip
    """Read 16 bytes at `near`, then at `near` + `bump`, from one descriptor."""
    space = fx.SharedAllocator().allocate(fx.Array[fx.Uint8, 128], alignment=16)
    base = fx.ptrtoint(fx.get_iter(a)) + near
    kind = fx.PointerType.get(fx.Uint8, fx.AddressSpace.Global, 1)
    start = fx.inttoptr(kind, base)
    desc = ops.make_tensor_descriptor_2d(start, space.ptr, (0, 0), (1, 16), (16, 1), (1, 16), 1)
    ops.tensor_load_2d(desc)
    low, high = ops.add_addr_with_carry(desc.dgroup0[2], desc.dgroup0[3] & 0x1FFFFFF, bump)
    if fx.const_expr(how == "low"):
        desc = ops.update_tensor_descriptor_2d_addr_lo(desc, low)
    elif fx.const_expr(how == "both"):
        desc = ops.update_tensor_descriptor_2d_addr_lo_hi(desc, low, high)
    else:
        desc = ops.update_tensor_descriptor_2d_addr64(desc, base + bump)
    desc = ops.update_tensor_descriptor_2d_lds_addr(desc, fx.ptrtoint(space.ptr) + 64)
    ops.tensor_load_2d(desc)
    ops.tensor_wait()
    lds = fx.make_view(space.ptr, fx.make_layout((2, 16), (64, 1)))
    thread = fx.thread_idx.x
    out[thread] = lds[thread // 16, thread % 16]


@flyc.jit
def _launch_far(a: fx.Tensor, out: fx.Tensor, near: fx.Int64, bump: fx.Int64,
                how: fx.Constexpr[str]) -> None:  # fmt: skip
    _far(a, out, near, bump, how).launch(grid=(1,), block=(32, 1, 1))


def _sparse(size: int) -> Any:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint8)


@pytest.mark.skipif(sys.platform != "linux", reason="needs MAP_NORESERVE")
@pytest.mark.parametrize("how", ["low", "both", "64"])
@pytest.mark.parametrize("back", [False, True])
def test_addresses_carry_past_4_gib(how: str, back: bool) -> None:
    """The first read ends just before an address that is a multiple of 4 GiB (or after it)."""
    a = _sparse(9 * GIB)
    edge = -(-a.ctypes.data // (4 * GIB)) * 4 * GIB - a.ctypes.data
    if edge < GIB:
        edge += 4 * GIB
    places = [edge - 100, edge + 1000]
    if back:
        places.reverse()
    generator = np.random.default_rng(int(back))
    data = generator.integers(1, 255, (2, 16)).astype(np.uint8)
    for place, row in zip(places, data, strict=True):
        a[place : place + 16] = row
    out = np.zeros(32, np.uint8)
    with scope(FLYDSL_TARGET="gfx1250"):
        _launch_far(a, out, places[0], places[1] - places[0], how)
    assert np.array_equal(out.reshape(2, 16), data)


@flyc.kernel
def _prefetch(a: fx.Tensor, at: fx.Constexpr) -> None:
    ops.l2_prefetch_tile(a, (4, 8), (16, 64), (128, 1), 2, thread_id=fx.thread_idx.x,
                         block_threads=64)  # fmt: skip


@flyc.jit
def _launch_prefetch(a: fx.Tensor, at: fx.Constexpr) -> None:
    _prefetch(a, at).launch(grid=(1,), block=(64, 1, 1))


def test_prefetches_reach_the_instruction() -> None:
    a = np.zeros((32, 128), np.float16)
    with scope(FLYDSL_TARGET="gfx1250", COMPILE_ONLY=True):
        text = flyc.compile(_launch_prefetch, a, 0).isa
    assert "global_prefetch_b8" in text
    assert "scope:SCOPE_SE" in text
    with scope(FLYDSL_TARGET="gfx1250"):
        _launch_prefetch(a, 1)


@flyc.kernel
def _wrong(a: fx.Tensor, what: fx.Constexpr) -> None:
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 4096], alignment=16)
    what(a, space.ptr)


@flyc.jit
def _launch_wrong(a: fx.Tensor, what: fx.Constexpr) -> None:
    _wrong(a, what).launch(grid=(1,), block=(32, 1, 1))


def _tile(a: Any, lds: Any, strides: Any = (32, 1), **options: Any) -> None:
    ops.make_tensor_descriptor_2d(a, lds, (0, 4), (32, 32), strides, (8, 16), 2, **options)


def _rows(a: Any, lds: Any, rows: Any = (1, 2), width: int = 32, **options: Any) -> None:
    ops.make_tensor_gather_descriptor(a, lds, rows, width, 32, 32, 32, elem_bytes=2, **options)


@pytest.mark.parametrize(
    "what",
    [
        lambda a, lds: _tile(a, lds, ("x", 1)),
        lambda a, lds: _tile(a, lds, (32, 2)),
        lambda a, lds: _tile(a, lds, oob_inner_bound=5),
        lambda a, lds: _tile(a, lds, num_warps=6),
        lambda a, lds: _tile(a, lds, pad_interval=3, pad_amount=4),
        lambda a, lds: _tile(a, lds, nonsense=1),
        lambda a, lds: _tile(lds, a),
        lambda a, lds: _rows(a, lds, range(9)),
        lambda a, lds: _rows(a, lds, range(17), index_size=16),
        lambda a, lds: _rows(a, lds, ()),
        lambda a, lds: _rows(a, lds, width=31),
        lambda a, lds: _rows(a, lds, index_size=8),
        lambda a, lds: _rows(a, lds, nonsense=1),
    ],
)
def test_wrong_descriptors_are_refused(what: Any) -> None:
    a = np.zeros((32, 32), np.float16)
    with scope(FLYDSL_TARGET="gfx1250", COMPILE_ONLY=True), pytest.raises(UserError) as caught:
        flyc.compile(_launch_wrong, a, what)
    assert caught.value.code in ("FLY-U655", "FLY-U656")
    with scope(FLYDSL_TARGET="gfx950", COMPILE_ONLY=True), pytest.raises(TargetError) as caught:
        flyc.compile(_launch_wrong, a, _tile)
    assert caught.value.code == "FLY-T646"
