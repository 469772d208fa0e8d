"""Buffers that pass 4 GiB: both ways to address them, at the places where 32 bits end.

Row B23 of the project's list of known faults.
"""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope

GIB = 1 << 30
PLACES = tuple(
    base + delta for base in (2 * GIB, 4 * GIB) for delta in (-16, -4, 0, 4, 16)
)  # fmt: skip
"""Byte offsets around the ends of signed and unsigned 32-bit numbers."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs MAP_NORESERVE")


def sparse(size: int) -> Any:
    """Return `size` zero bytes of address space; only touched pages take memory."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint8)


@flyc.kernel
def _gather(a: fx.Tensor, at: fx.Tensor, out: fx.Tensor) -> None:
    lane = fx.thread_idx.x
    buffer = fx.rocdl.make_buffer_tensor(a)
    index = at[lane]
    value = buffer[index]
    out[lane] = value
    buffer[index] = value + 1.0


@flyc.jit
def _launch_gather(a: fx.Tensor, at: fx.Tensor, out: fx.Tensor) -> None:
    _gather(a, at, out).launch(grid=(1,), block=(64, 1, 1))


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100", "gfx1201", "gfx1250"])
def test_any_lane_reaches_any_byte(arch: str) -> None:
    count = GIB + 8
    a = sparse(4 * (count + 64)).view(np.float32)
    inside = np.array([place // 4 for place in PLACES] + [0, 1, count - 1], np.int64)
    a[inside] = np.arange(1, len(inside) + 1)
    a[count] = -7
    at = np.full(64, 3, np.int32)
    at[: len(inside)] = inside
    at[32:36] = [count, count + 5, -1, -(2**31)]
    out = np.full(64, 5, np.float32)
    with scope(FLYDSL_TARGET=arch):
        _launch_gather(a[:count], at, out)
    assert np.array_equal(out[: len(inside)], np.arange(1, len(inside) + 1))
    assert np.array_equal(out[32:36], np.zeros(4))
    assert np.array_equal(a[inside], np.arange(2, len(inside) + 2))
    assert a[count] == -7


@flyc.kernel
def _tiles(a: fx.Tensor, first: fx.Int32, out: fx.Tensor) -> None:
    lane = fx.thread_idx.x
    buffer = fx.logical_divide(fx.rocdl.make_buffer_tensor(a), fx.make_layout(4, 1))
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), fx.Float32)
    value = fx.make_rmem_tensor(4, fx.Float32)
    tile = first + fx.block_idx.x * 64 + lane
    fx.copy_atom_call(atom, fx.slice(buffer, (None, tile)), value)
    loaded = fx.memref_load_vec(value)
    rows = fx.logical_divide(out, fx.make_layout(4, 1))
    fx.copy_atom_call(
        fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32),
        value,
        fx.slice(rows, (None, fx.block_idx.x * 64 + lane)),
    )
    fx.memref_store_vec(loaded + 1.0, value)
    fx.copy_atom_call(atom, value, fx.slice(buffer, (None, tile)))


@flyc.jit
def _launch_tiles(a: fx.Tensor, first: fx.Int32, out: fx.Tensor) -> None:
    _tiles(a, first, out).launch(grid=(2,), block=(64, 1, 1))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
@pytest.mark.parametrize("start", [0, 2 * GIB - 1024, 4 * GIB - 1024, 4 * GIB + 512])
def test_tiles_move_the_base(arch: str, start: int) -> None:
    """Two blocks of 1 KiB, the last one ending outside in the middle of a vector."""
    a = sparse(start + 4096).view(np.float32)
    first = start // 4
    generator = np.random.default_rng(start % 1009)
    data = generator.integers(-1000, 1000, 512).astype(np.float32)
    a[first : first + 512] = data
    length = first + 510
    out = np.full(512, 5, np.float32)
    with scope(FLYDSL_TARGET=arch):
        _launch_tiles(a[:length], start // 16, out)
    assert np.array_equal(out[:510], data[:510])
    assert np.array_equal(out[510:], np.zeros(2))
    assert np.array_equal(a[first : first + 510], data[:510] + 1)
    assert np.array_equal(a[first + 510 : first + 512], data[510:])


@flyc.kernel
def _row_sums(a: fx.Tensor, out: fx.Tensor) -> None:
    lane = fx.thread_idx.x
    buffer = fx.rocdl.make_buffer_tensor(a)
    total = fx.Float32(0.0)
    for row in range(2):
        total = total + fx.Float32(buffer[fx.block_idx.x, row, lane])
    out[fx.block_idx.x, lane] = total


@flyc.jit
def _launch_row_sums(a: fx.Tensor, out: fx.Tensor) -> None:
    _row_sums(a, out).launch(grid=(2,), block=(64, 1, 1))


def test_an_outer_stride_beyond_31_bits() -> None:
    """Rows of a slice of a (2, 139811, 15360) array of 16-bit numbers."""
    outer, middle, inner = 2, 139811, 15360
    whole = sparse(2 * outer * middle * inner).view(np.float16).reshape(outer, middle, inner)
    part = whole[:, :, :5120]
    expected = np.zeros((2, 64), np.float32)
    for block in range(2):
        for row in range(2):
            values = np.arange(64) + 100 * block + 7 * row
            part[block, row, :64] = values
            expected[block] += values
    out = np.zeros((2, 64), np.float32)
    with scope(FLYDSL_TARGET="gfx942"):
        _launch_row_sums(part, out)
    assert np.array_equal(out, expected)


@flyc.kernel
def _flat(a: fx.Tensor, at: fx.Tensor, out: fx.Tensor) -> None:
    lane = fx.thread_idx.x
    index = at[lane]
    out[lane] = a[index]
    a[index] = a[index] + 1.0


@flyc.jit
def _launch_flat(a: fx.Tensor, at: fx.Tensor, out: fx.Tensor) -> None:
    _flat(a, at, out).launch(grid=(1,), block=(64, 1, 1))


def test_plain_tensors_reach_beyond_4_gib_too() -> None:
    a = sparse(4 * (GIB + 64)).view(np.float32)
    at = np.arange(64, dtype=np.int32)
    at[: len(PLACES)] = [place // 4 for place in PLACES]
    a[at] = np.arange(64)
    out = np.zeros(64, np.float32)
    with scope(FLYDSL_TARGET="gfx942"):
        _launch_flat(a, at, out)
    assert np.array_equal(out, np.arange(64))
    assert np.array_equal(a[at], np.arange(1, 65))
