"""Tiles moved by the tensor data mover of gfx1250, by value and with the sanitizer on."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu
from flydsl.config import scope
from flydsl.errors import TargetError, UserTypeError, UserValueError

cdna5 = fx.rocdl.cdna5
ROWS, COLUMNS = 16, 32


@flyc.kernel
def _through_lds(
    a: fx.Tensor, out: fx.Tensor, rows: fx.Int32, columns: fx.Int32, layout: fx.Constexpr,
    options: fx.Constexpr, words: fx.Constexpr[int],
) -> None:  # fmt: skip
    """Load a tile of `a` bounded by `rows` and `columns`, store it to `out`."""
    size = fx.const_expr(words)
    space = fx.SharedAllocator().allocate(fx.Array[a.element, size], alignment=16)
    shape, strides = layout
    lds = fx.make_view(space.ptr, fx.make_layout(shape, strides))
    first = fx.block_idx.x * ROWS
    chosen = dict(options)
    atom = cdna5.make_tdm_atom(a, (None, None), **chosen)
    tile = fx.slice(fx.zipped_divide(a, (ROWS, COLUMNS)), (None, (fx.block_idx.x, 0)))
    fx.copy(atom, tile, lds, extent_0=rows - first, extent_1=columns)
    fx.rocdl.tdm_ops.tensor_wait()
    fx.barrier()
    store = cdna5.make_tdm_atom(out, (None, None), num_warps=chosen.get("num_warps", 1))
    there = fx.slice(fx.zipped_divide(out, (ROWS, COLUMNS)), (None, (fx.block_idx.x, 0)))
    fx.copy(store, lds, there)
    fx.rocdl.tdm_ops.tensor_wait()


@flyc.jit
def _launch(
    a: fx.Tensor, out: fx.Tensor, rows: fx.Int32, columns: fx.Int32, layout: fx.Constexpr,
    options: fx.Constexpr, words: fx.Constexpr[int], threads: fx.Constexpr[int],
) -> None:  # fmt: skip
    _through_lds(a, out, rows, columns, layout, options, words).launch(
        grid=(3,), block=(threads, 1, 1)
    )


def _check(
    dtype: Any, strides: tuple[int, int], options: dict[str, Any], *, threads: int = 32,
    rows: int = 41, columns: int = COLUMNS,
) -> None:  # fmt: skip
    generator = np.random.default_rng(len(options) + threads)
    a = generator.integers(1, 100, (3 * ROWS, COLUMNS + 8)).astype(dtype)[:, :COLUMNS]
    out = np.full((3 * ROWS, COLUMNS), 7).astype(dtype)
    layout = ((ROWS, COLUMNS), strides)
    with scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize():
        _launch(a, out, rows, columns, layout, tuple(options.items()), ROWS * strides[0], threads)
    expected = np.zeros_like(out)
    expected[:rows, :columns] = a[:rows, :columns]
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, ml_dtypes.bfloat16, np.int32, np.int64])
def test_every_element_width(dtype: Any) -> None:
    _check(dtype, (COLUMNS, 1), {})
    _check(dtype, (COLUMNS, 1), {}, rows=0)
    _check(dtype, (COLUMNS, 1), {}, columns=31, rows=48)


@pytest.mark.parametrize("waves", [1, 2, 4, 8])
def test_waves_share_tiles(waves: int) -> None:
    _check(np.float16, (COLUMNS, 1), {"num_warps": waves}, threads=32 * waves)
    _check(np.float16, (COLUMNS + 4, 1), {"num_warps": waves}, threads=32 * waves, rows=33)


def test_more_waves_than_share() -> None:
    _check(np.float16, (COLUMNS, 1), {"num_warps": 2}, threads=128)


@pytest.mark.parametrize("pad", [2, 8, 64, 256])
def test_pads_follow_the_layout_in_lds(pad: int) -> None:
    _check(np.float16, (COLUMNS + pad, 1), {})
    _check(np.float16, (COLUMNS + pad, 1), {"pad_interval": COLUMNS, "pad_amount": pad})


@flyc.kernel
def _columns_of_waves(a: fx.Tensor, out: fx.Tensor) -> None:
    """Eight waves share a tile of 4 rows: two of them share each row, which makes gaps."""
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 4 * 64], alignment=16)
    lds = fx.make_view(space.ptr, fx.make_layout((4, 64), (64, 1)))
    atom = cdna5.make_tdm_atom(a, (None, None), num_warps=8)
    fx.copy(atom, a, lds)
    fx.rocdl.s_wait_tensorcnt(0)
    fx.barrier()
    thread = fx.thread_idx.x
    out[thread // 64, thread % 64] = lds[thread // 64, thread % 64]


@flyc.jit
def _launch_columns(a: fx.Tensor, out: fx.Tensor) -> None:
    view = fx.make_view(fx.get_iter(a), fx.make_layout((4, 64), (64, 1)))
    _columns_of_waves(view, out).launch(grid=(1,), block=(256, 1, 1))


def test_waves_share_rows() -> None:
    a = np.random.default_rng(1).random((4, 64), np.float32)
    out = np.zeros_like(a)
    with scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize():
        _launch_columns(a, out)
    assert np.array_equal(a, out)


@flyc.kernel
def _many_modes(a: fx.Tensor, out: fx.Tensor, shape: fx.Constexpr, strides: fx.Constexpr,
                extents: fx.Constexpr, waves: fx.Constexpr[int]) -> None:  # fmt: skip
    count = fx.const_expr(int(np.prod(shape)))
    space = fx.SharedAllocator().allocate(fx.Array[fx.Int32, count], alignment=16)
    dense = fx.const_expr(tuple(int(np.prod(shape[k + 1 :])) for k in range(len(shape))))
    lds = fx.make_view(space.ptr, fx.make_layout(shape, dense))
    tile = fx.make_view(fx.get_iter(a), fx.make_layout(shape, strides))
    fx.copy(cdna5.make_tdm_atom(tile, extents, num_warps=waves), tile, lds)
    fx.rocdl.s_wait_tensorcnt(0)
    fx.barrier()
    flat = fx.make_view(space.ptr, fx.make_layout(count, 1))
    for i in range(fx.thread_idx.x, count, 64):
        out[i] = flat[i]


@flyc.jit
def _launch_many(a: fx.Tensor, out: fx.Tensor, shape: fx.Constexpr, strides: fx.Constexpr,
                 extents: fx.Constexpr, waves: fx.Constexpr[int]) -> None:  # fmt: skip
    _many_modes(a, out, shape, strides, extents, waves).launch(grid=(1,), block=(64, 1, 1))


@pytest.mark.parametrize(
    ("shape", "strides", "extents"),
    [
        ((70,), (1,), (65,)),
        ((3, 4, 8), (100, 20, 1), (2, None, 7)),
        ((5, 3, 2, 4), (60, 17, 5, 1), (4, 2, None, None)),
        ((2, 3, 2, 2, 4), (300, 90, 40, 10, 1), (None, 2, 1, 2, 3)),
    ],
)
@pytest.mark.parametrize("waves", [1, 2])
def test_one_to_five_modes(
    shape: tuple[int, ...], strides: tuple[int, ...], extents: tuple[int | None, ...], waves: int
) -> None:
    a = np.arange(1, 2001, dtype=np.int32)
    out = np.zeros(int(np.prod(shape)), np.int32)
    with scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize():
        _launch_many(a, out, shape, strides, extents, waves)
    view = np.lib.stride_tricks.as_strided(a, shape, [4 * s for s in strides]).copy()
    for axis, extent in enumerate(extents):
        if extent is not None:
            view[(slice(None),) * axis + (slice(extent, None),)] = 0
    assert np.array_equal(out.reshape(shape), view)


@flyc.kernel
def _bumped(a: fx.Tensor, out: fx.Tensor, steps: fx.Int32) -> None:
    """Add up tiles that are found by one atom and a growing offset, two in flight."""
    thread = fx.thread_idx.x
    space = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 2 * 64], alignment=16)
    stages = fx.make_view(space.ptr, fx.make_layout((2, 2, 32), (64, 32, 1)))
    tile = fx.make_view(fx.get_iter(a), fx.make_layout((2, 32), (32, 1)))
    atom = cdna5.make_tdm_atom(tile, (None, None))
    fx.copy(atom, tile, stages[0, None, None])
    total = fx.Int32(0)
    last = steps - 1
    for step in range(last):
        following = fx.Int64(step + 1) * 64
        fx.copy(atom, tile, stages[(step + 1) % 2, None, None], imm_offset=following)
        fx.rocdl.s_wait_tensorcnt(1)
        total = total + stages[step % 2, 0, thread] - stages[step % 2, 1, thread]
    fx.rocdl.s_wait_tensorcnt(0)
    total = total + stages[last % 2, 0, thread] - stages[last % 2, 1, thread]
    out[thread] = total


@flyc.jit
def _launch_bumped(a: fx.Tensor, out: fx.Tensor, steps: fx.Int32) -> None:
    _bumped(a, out, steps).launch(grid=(1,), block=(32, 1, 1))


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_two_tiles_in_flight(steps: int) -> None:
    a = np.random.default_rng(steps).integers(0, 1000, (steps, 2, 32)).astype(np.int32)
    out = np.zeros(32, np.int32)
    with scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize():
        _launch_bumped(a.reshape(-1), out, steps)
    assert np.array_equal(out, (a[:, 0] - a[:, 1]).sum(0))


def test_a_missing_wait_is_found() -> None:
    a, out = np.zeros((4, 64), np.float32), np.zeros((4, 64), np.float32)
    with scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize(action="collect") as found:
        _launch_unwaited(a, out)
    assert any(f.code in ("FLY-U731", "FLY-U733") for f in found.findings)


@flyc.kernel
def _unwaited(a: fx.Tensor, out: fx.Tensor) -> None:
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 4 * 64], alignment=16)
    lds = fx.make_view(space.ptr, fx.make_layout((4, 64), (64, 1)))
    fx.copy(cdna5.make_tdm_atom(a, (None, None)), a, lds)
    out[0, fx.thread_idx.x] = lds[0, fx.thread_idx.x]


@flyc.jit
def _launch_unwaited(a: fx.Tensor, out: fx.Tensor) -> None:
    view = fx.make_view(fx.get_iter(a), fx.make_layout((4, 64), (64, 1)))
    _unwaited(view, out).launch(grid=(1,), block=(32, 1, 1))


@pytest.mark.parametrize(
    ("strides", "options", "error", "code"),
    [
        ((COLUMNS + 1, 1), {}, UserValueError, "FLY-U655"),  # half a dword
        ((COLUMNS + 258, 1), {}, UserValueError, "FLY-U655"),  # more than 128 dwords
        ((1, ROWS), {}, UserValueError, "FLY-U656"),  # transposed
        ((COLUMNS + 2, 1), {"pad_interval": 32, "pad_amount": 4}, UserValueError, "FLY-U656"),
        ((COLUMNS, 1), {"pad_interval": 32}, UserValueError, "FLY-U655"),
        ((COLUMNS, 1), {"pad_interval": 24, "pad_amount": 4}, UserValueError, "FLY-U655"),
        ((COLUMNS, 1), {"num_warps": 3}, UserValueError, "FLY-U655"),
        ((COLUMNS, 1), {"cache_modifier": 32}, UserValueError, "FLY-U632"),
        ((COLUMNS, 1), {"atomic_barrier": True}, UserValueError, "FLY-U655"),
    ],
)
def test_wrong_tiles_are_refused(
    strides: tuple[int, int], options: dict[str, Any], error: type[Exception], code: str
) -> None:
    with pytest.raises(error) as caught:
        _check(np.float16, strides, options)
    assert getattr(caught.value, "code", "") == code


def test_other_architectures_have_no_mover() -> None:
    a = np.zeros((3 * ROWS, COLUMNS), np.float16)
    layout = ((ROWS, COLUMNS), (COLUMNS, 1))
    for arch in ("gfx942", "gfx950", "gfx1100", "gfx1201"):
        with scope(FLYDSL_TARGET=arch, COMPILE_ONLY=True), pytest.raises(TargetError) as caught:
            flyc.compile(_launch, a, a, 1, 1, layout, (), ROWS * COLUMNS, 32)
        assert caught.value.code == "FLY-T646"
        assert arch in str(caught.value)


@flyc.kernel
def _misused(a: fx.Tensor, how: fx.Constexpr[str]) -> None:
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64], alignment=16)
    lds = fx.make_view(space.ptr, fx.make_layout((2, 32), (32, 1)))
    tile = fx.make_view(fx.get_iter(a), fx.make_layout((2, 32), (32, 1)))
    if fx.const_expr(how == "extents"):
        cdna5.make_tdm_atom(tile, (None,))
    if fx.const_expr(how == "strides"):
        cdna5.make_tdm_atom(tile, (None, None), (1, 2, 3))
    if fx.const_expr(how == "inner"):
        cdna5.make_tdm_atom(tile, (None, None), (32, 2))
    atom = cdna5.make_tdm_atom(tile, (None, None))
    if fx.const_expr(how == "spaces"):
        fx.copy(atom, lds, lds)
    if fx.const_expr(how == "tile"):
        fx.copy(atom, tile, fx.make_view(space.ptr, fx.make_layout((4, 16), (16, 1))))
    if fx.const_expr(how == "state"):
        fx.copy(atom, tile, lds, extent_2=3)


@flyc.jit
def _launch_misused(a: fx.Tensor, how: fx.Constexpr[str]) -> None:
    _misused(a, how).launch(grid=(1,), block=(32, 1, 1))


@pytest.mark.parametrize("how", ["extents", "strides", "inner", "spaces", "tile", "state"])
def test_misuse_is_told_at_the_users_line(how: str) -> None:
    a = np.zeros(64, np.float32)
    with (
        scope(FLYDSL_TARGET="gfx1250", COMPILE_ONLY=True),
        pytest.raises((UserTypeError, UserValueError)) as caught,
    ):
        flyc.compile(_launch_misused, a, how)
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


def test_rank_is_one_to_five() -> None:
    for rank in (0, 6):
        with pytest.raises(UserValueError, match="1 to 5 modes"):
            cdna5.TDM(rank)


def test_the_instructions() -> None:
    a = np.zeros((3 * ROWS, COLUMNS), np.float16)
    layout = ((ROWS, COLUMNS), (COLUMNS, 1))
    with scope(FLYDSL_TARGET="gfx1250", COMPILE_ONLY=True):
        text = flyc.compile(_launch, a, a, 1, 1, layout, (("cache_modifier", 3),),
                            ROWS * COLUMNS, 32).isa  # fmt: skip
    scalars = r"s\[\d+:\d+\]"
    assert re.search(rf"tensor_load_to_lds {scalars}, {scalars} th:TH_LOAD_LU\n", text)
    assert re.search(rf"tensor_store_from_lds {scalars}, {scalars}\n", text)
    assert text.count("s_wait_tensorcnt 0x0") == 2
