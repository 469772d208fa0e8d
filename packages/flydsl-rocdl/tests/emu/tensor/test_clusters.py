"""Clusters of workgroups on gfx1250: numbers, barrier, shared loads, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu
from flydsl.config import scope
from flydsl.errors import TargetError, UserError

cdna5, cluster = fx.rocdl.cdna5, fx.rocdl.cluster


@flyc.kernel
def _numbers(out: fx.Tensor) -> None:
    rocdl = fx.rocdl
    found = [
        fx.block_idx.x, fx.block_idx.y, fx.block_idx.z,
        rocdl.cluster_id_x(), rocdl.cluster_id_y(), rocdl.cluster_id_z(),
        rocdl.cluster_workgroup_id_x(), rocdl.cluster_workgroup_id_y(),
        rocdl.cluster_workgroup_id_z(), cluster.cluster_workgroup_flat_id(),
        cluster.cluster_workgroup_max_flat_id(), rocdl.wave_id(),
    ]  # fmt: skip
    at = fx.block_idx.x + fx.grid_dim.x * (fx.block_idx.y + fx.grid_dim.y * fx.block_idx.z)
    if fx.thread_idx.x == 32:
        for k in fx.range_constexpr(len(found)):
            out[at, k] = fx.Int32(found[k])


@flyc.jit
def _launch_numbers(out: fx.Tensor, grid: fx.Constexpr, size: fx.Constexpr) -> None:
    _numbers(out).launch(grid=grid, block=(64, 1, 1), cluster=size)


@flyc.jit
def _launch_two_sizes(out: fx.Tensor, again: fx.Tensor, x: fx.Int32) -> None:
    kernel = _numbers(out)
    kernel.launch(grid=(4, 2, 1), block=(64, 1, 1), cluster=(2, 2, 1))
    _numbers(again).launch(grid=(4, 2, 1), block=(64, 1, 1), cluster=(x, 1, 1))


def _expected(grid: tuple[int, int, int], size: tuple[int, int, int]) -> Any:
    rows = []
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                at = (x, y, z)
                inside = [c % s for c, s in zip(at, size, strict=True)]
                flat = inside[0] + size[0] * (inside[1] + size[1] * inside[2])
                ids = [c // s for c, s in zip(at, size, strict=True)]
                rows.append([*at, *ids, *inside, flat, int(np.prod(size)) - 1, 1])
    return np.array(rows, np.int32)


@pytest.mark.parametrize(
    ("grid", "size"),
    [((4, 1, 1), (2, 1, 1)), ((6, 4, 2), (3, 2, 2)), ((2, 6, 1), (1, 3, 1)),
     ((16, 1, 1), (16, 1, 1))],
)  # fmt: skip
def test_workgroups_have_numbers_in_their_cluster(
    grid: tuple[int, int, int], size: tuple[int, int, int]
) -> None:
    out = np.full((int(np.prod(grid)), 12), -1, np.int32)
    with scope(FLYDSL_TARGET="gfx1250"):
        _launch_numbers(out, grid, size)
    assert np.array_equal(out, _expected(grid, size))


def test_sizes_known_only_at_run_time() -> None:
    out, again = (np.full((8, 12), -1, np.int32) for _ in range(2))
    with scope(FLYDSL_TARGET="gfx1250"):
        _launch_two_sizes(out, again, 4)
    assert np.array_equal(out, _expected((4, 2, 1), (2, 2, 1)))
    assert np.array_equal(again, _expected((4, 2, 1), (4, 1, 1)))
    with scope(FLYDSL_TARGET="gfx1250"), pytest.raises(UserError, match="whole clusters"):
        _launch_two_sizes(out, again, 3)


@flyc.kernel
def _exchange(a: fx.Tensor, out: fx.Tensor) -> None:
    """Each workgroup of a cluster loads its part for all of them."""
    thread = fx.thread_idx.x
    place, size = cluster.cluster_workgroup_flat_id(), cluster.cluster_workgroup_max_flat_id() + 1
    space = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 4 * 256], alignment=16)
    lds = fx.make_view(space.ptr, fx.make_layout(4 * 256, 1))
    first = place * 256 + thread * 4
    block = fx.block_idx.x // size * 1024
    source = fx.add_offset(fx.get_iter(a), block + first)
    cluster.cluster_load_async_to_lds(source, fx.add_offset(space.ptr, first), 16)
    fx.rocdl.s_wait_asynccnt(0)
    fx.rocdl.cluster_barrier()
    total = fx.Int32(0)
    for part in fx.range_constexpr(4):
        total = total + lds[part * 256 + thread] * (part + 1)
    out[fx.block_idx.x, thread] = total


@flyc.jit
def _launch_exchange(a: fx.Tensor, out: fx.Tensor) -> None:
    _exchange(a, out).launch(grid=(8,), block=(64, 1, 1), cluster=(4, 1, 1))


def test_a_load_serves_a_cluster() -> None:
    a = np.random.default_rng(4).integers(0, 1000, 2048).astype(np.int32)
    out = np.zeros((8, 64), np.int32)
    with scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize():
        _launch_exchange(a, out)
    parts = a.reshape(2, 4, 256)[:, :, :64]
    want = (parts * np.arange(1, 5)[None, :, None]).sum(1)
    assert np.array_equal(out, np.repeat(want, 4, axis=0))


@flyc.kernel
def _multicast(a: fx.Tensor, out: fx.Tensor, mask: fx.Int32) -> None:
    """The first workgroup of a cluster loads a tile for those in `mask`."""
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 4 * 32], alignment=16)
    lds = fx.make_view(space.ptr, fx.make_layout((4, 32), (32, 1)))
    for row in fx.range_constexpr(4):
        lds[row, fx.thread_idx.x] = fx.Float16(-1.0)
    fx.rocdl.cluster_barrier()
    tile = fx.make_view(
        fx.add_offset(fx.get_iter(a), cluster.cluster_id_x() * 128),
        fx.make_layout((4, 32), (32, 1)),
    )
    atom = cdna5.make_tdm_atom(tile, (None, None))
    first = cluster.cluster_workgroup_flat_id() == 0
    fx.copy(atom, tile, lds, pred=first, workgroup_mask=mask)
    fx.rocdl.s_wait_tensorcnt(0)
    fx.rocdl.cluster_barrier()
    for row in fx.range_constexpr(4):
        out[fx.block_idx.x, row, fx.thread_idx.x] = lds[row, fx.thread_idx.x]


@flyc.jit
def _launch_multicast(a: fx.Tensor, out: fx.Tensor, mask: fx.Int32) -> None:
    _multicast(a, out, mask).launch(grid=(8,), block=(32, 1, 1), cluster=(4, 1, 1))


@pytest.mark.parametrize("mask", [0b1111, 0b1010, 0b0001, 0])
def test_a_tile_serves_a_cluster(mask: int) -> None:
    a = np.random.default_rng(mask).random((2, 4, 32)).astype(np.float16)
    out = np.zeros((8, 4, 32), np.float16)
    with scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize():
        _launch_multicast(a, out, mask)
    served = mask or 1
    for group in range(8):
        want = a[group // 4] if served >> group % 4 & 1 else np.full((4, 32), -1)
        assert np.array_equal(out[group], want), group


def test_a_mask_outside_the_cluster_is_an_error() -> None:
    a, out = np.zeros((2, 4, 32), np.float16), np.zeros((8, 4, 32), np.float16)
    with scope(FLYDSL_TARGET="gfx1250"), pytest.raises(UserError, match="workgroup 4 of a cluster"):
        _launch_multicast(a, out, 0b10000)


def test_the_instructions() -> None:
    a, out = np.zeros(2048, np.int32), np.zeros((8, 64), np.int32)
    with scope(FLYDSL_TARGET="gfx1250", COMPILE_ONLY=True):
        text = flyc.compile(_launch_exchange, a, out).isa
        plain = flyc.compile(_launch_plain, out).isa
    assert "s_barrier_signal -3" in text
    assert "s_barrier_wait -3" in text
    assert "s_wait_asynccnt 0x0" in text
    assert re.search(r"cluster_load_async_to_lds_b128 v\d+, v\S+, (s\[|off)", text)
    # Without clusters the number of a workgroup is a register, not a computation.
    assert "IB_STS2" not in plain
    assert "ttmp6" not in plain


@flyc.kernel
def _plain(out: fx.Tensor) -> None:
    out[fx.block_idx.x, fx.thread_idx.x] = fx.block_idx.x


@flyc.jit
def _launch_plain(out: fx.Tensor) -> None:
    _plain(out).launch(grid=(8,), block=(64, 1, 1))


@flyc.jit
def _launch_clustered(out: fx.Tensor, size: fx.Constexpr) -> None:
    _plain(out).launch(grid=(24,), block=(64, 1, 1), cluster=size)


def test_what_clusters_cannot_be() -> None:
    out = np.zeros((24, 64), np.int32)
    for arch in ("gfx942", "gfx950", "gfx1100", "gfx1201"):
        with scope(FLYDSL_TARGET=arch, COMPILE_ONLY=True), pytest.raises(TargetError) as caught:
            flyc.compile(_launch_clustered, out, (2, 1, 1))
        assert caught.value.code == "FLY-T647"
        with scope(FLYDSL_TARGET=arch):
            _launch_clustered(out, (1, 1, 1))  # which is none
        with scope(FLYDSL_TARGET=arch, COMPILE_ONLY=True), pytest.raises(TargetError) as caught:
            flyc.compile(_launch_numbers, out, (2, 1, 1), (1, 1, 1))
        assert caught.value.code == "FLY-T647"
    with scope(FLYDSL_TARGET="gfx1250", COMPILE_ONLY=True):
        with pytest.raises(UserError, match="whole clusters along x") as user:
            flyc.compile(_launch_clustered, out, (5, 1, 1))
        assert user.value.code == "FLY-U654"
        with pytest.raises(TargetError, match="24 workgroups"):
            flyc.compile(_launch_clustered, out, (24, 1, 1))


@flyc.kernel
def _wrong(a: fx.Tensor, what: fx.Constexpr) -> None:
    space = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 256], alignment=16)
    what(fx.get_iter(a), space.ptr)


@flyc.jit
def _launch_wrong(a: fx.Tensor, what: fx.Constexpr) -> None:
    _wrong(a, what).launch(grid=(2,), block=(32, 1, 1), cluster=(2, 1, 1))


@pytest.mark.parametrize(
    ("what", "code"),
    [
        (lambda a, lds: cluster.cluster_load_async_to_lds(a, lds, 2), "FLY-U654"),
        (lambda a, lds: cluster.cluster_load_async_to_lds(lds, a, 4), "FLY-U633"),
        (lambda a, lds: cluster.cluster_load_async_to_lds(a, lds, 4, mask="all"), "FLY-U614"),
        (lambda a, lds: cluster.cluster_load_async_to_lds(a, lds, 4, cpol=99), "FLY-U613"),
    ],
)
def test_wrong_cluster_loads_are_refused(what: Any, code: str) -> None:
    a = np.zeros(256, np.int32)
    with scope(FLYDSL_TARGET="gfx1250", COMPILE_ONLY=True), pytest.raises(UserError) as caught:
        flyc.compile(_launch_wrong, a, what)
    assert caught.value.code == code
