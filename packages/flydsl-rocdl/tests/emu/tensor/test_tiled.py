"""Tiled tensor transfers: tiles named by coordinates, shared by waves through `tdm_partition`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu
from flydsl.config import scope
from flydsl.errors import UserError

cdna5 = fx.rocdl.cdna5
STAGES = 2


@flyc.kernel
def _copy(a: fx.Tensor, out: fx.Tensor, tile: fx.Constexpr, pad: fx.Constexpr[int],
          waves: fx.Constexpr[int]) -> None:  # fmt: skip
    """Copy two tiles of a row of tiles; `out` may have other extents than `a`."""
    rows, columns = tile
    pitch = fx.const_expr(columns + pad)
    size = fx.const_expr(rows * pitch)
    space = fx.SharedAllocator().allocate(fx.Array[a.element, STAGES * size], alignment=16)
    stage = fx.make_layout((rows, columns), (pitch, 1))
    lds = fx.make_view(space.ptr, fx.make_layout(((rows, columns), STAGES), ((pitch, 1), size)))
    load, source = cdna5.make_tiled_tdm_atom(cdna5.TensorLoad(), a, stage, tile, waves)
    store, target = cdna5.make_tiled_tdm_atom(cdna5.TensorStore(), out, stage, tile, waves)
    here = (None, (fx.block_idx.x, None))
    source = fx.slice(fx.zipped_divide(source, tile), here)
    target = fx.slice(fx.zipped_divide(target, tile), here)
    numbers = fx.make_layout(waves, 1)
    wave = fx.rocdl.wave_id()
    s, g = cdna5.tdm_partition(load, wave, numbers, lds, source)
    t, o = cdna5.tdm_partition(store, wave, numbers, lds, target)
    for k in fx.range_constexpr(STAGES):
        fx.copy(load, g[None, k], s[None, k])
    fx.rocdl.tdm_ops.tensor_wait()
    fx.barrier()
    for k in fx.range_constexpr(STAGES):
        fx.copy(store, t[None, k], o[None, k])
    fx.rocdl.tdm_ops.tensor_wait()


@flyc.jit
def _launch(a: fx.Tensor, out: fx.Tensor, tile: fx.Constexpr, pad: fx.Constexpr[int],
            waves: fx.Constexpr[int]) -> None:  # fmt: skip
    _copy(a, out, tile, pad, waves).launch(grid=(2,), block=(32 * waves, 1, 1))


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.int64])
@pytest.mark.parametrize(("waves", "pad"), [(1, 0), (2, 8), (4, 0), (8, 16)])
def test_tiles_at_the_edges(dtype: Any, waves: int, pad: int) -> None:
    generator = np.random.default_rng(waves)
    a = generator.integers(1, 100, (50, 112)).astype(dtype)[:, :100]
    out = np.zeros((60, 90), dtype)
    with scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize():
        _launch(a, out, (32, 64), pad, waves)
    expected = np.zeros_like(out)
    expected[:50] = a[:, :90]
    assert np.array_equal(out, expected)


@flyc.kernel
def _inner_first(a: fx.Tensor, out: fx.Tensor, order: fx.Constexpr, turns: fx.Constexpr[int]
                 ) -> None:  # fmt: skip
    """The contiguous mode first, and several instructions for a tile."""
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 32 * 16], alignment=16)
    stage = fx.make_layout((32, 16), (1, 32))
    atom, _ = cdna5.make_tiled_tdm_atom(
        cdna5.TensorLoad(), a, stage, (32, 16), init_boundary_check=order == "checked"
    )
    shape = ((32, 16 // turns, turns), ((fx.Basis(1, (0,)), fx.Basis(1, (1,)),
                                         fx.Basis(16 // turns, (1,)))))  # fmt: skip
    g = fx.make_view((4, 3 if order == "checked" else 2), fx.make_layout(*shape))
    s = fx.make_view(space.ptr, fx.make_layout(shape[0], (1, 32, 32 * 16 // turns)))
    fx.copy(atom, g, s)
    fx.rocdl.s_wait_tensorcnt(0)
    for i in fx.range_constexpr(16):
        out[i, fx.thread_idx.x] = fx.make_view(space.ptr, stage)[fx.thread_idx.x, i]


@flyc.jit
def _launch_inner(a: fx.Tensor, out: fx.Tensor, order: fx.Constexpr, turns: fx.Constexpr[int]
                  ) -> None:  # fmt: skip
    shape = fx.make_layout((40, 18), (1, 40))
    _inner_first(fx.make_view(fx.get_iter(a), shape), out, order, turns).launch(
        grid=(1,), block=(32, 1, 1)
    )


@pytest.mark.parametrize("turns", [1, 2, 4])
def test_modes_in_any_order(turns: int) -> None:
    a = np.random.default_rng(turns).random((20, 40), np.float32)
    out = np.zeros((16, 32), np.float32)
    with scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize():
        _launch_inner(a, out, "checked", turns)
    expected = np.zeros_like(out)
    expected[:15] = a[3:18, 4:36]
    assert np.array_equal(out, expected)
    with scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize():
        _launch_inner(a, out, "unchecked", turns)
    assert np.array_equal(out, a[2:18, 4:36])


@flyc.kernel
def _wrong(a: fx.Tensor, what: fx.Constexpr) -> None:
    space = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 4096], alignment=16)
    what(a, space.ptr)


@flyc.jit
def _launch_wrong(a: fx.Tensor, what: fx.Constexpr) -> None:
    view = fx.make_view(fx.get_iter(a), fx.make_layout((32, 64), (64, 1)))
    _wrong(view, what).launch(grid=(1,), block=(32, 1, 1))


def _made(a: Any, op: Any = None, stage: Any = None, tile: Any = (16, 32), waves: int = 1) -> Any:
    stage = fx.make_layout((16, 32), (32, 1)) if stage is None else stage
    return cdna5.make_tiled_tdm_atom(op or cdna5.TensorLoad(), a, stage, tile, waves)


def _parted(a: Any, lds: Any, numbers: Any, waves: int = 4) -> Any:
    atom, g = _made(a, waves=waves)
    s = fx.make_view(lds, fx.make_layout(((16, 32), 1), ((32, 1), 512)))
    return cdna5.tdm_partition(atom, 0, numbers, s, fx.zipped_divide(g, (16, 32)))


@pytest.mark.parametrize(
    "what",
    [
        lambda a, _: _made(a, op="load"),
        lambda a, _: _made(a, op=cdna5.TensorLoad),
        lambda a, _: _made(a, tile=(16,)),
        lambda a, _: _made(a, tile=(12, 32), waves=8),
        lambda a, _: _made(a, tile=(2, 32), waves=16),
        lambda a, _: _made(a, stage=fx.make_layout((16, 32), (1, 16))),
        lambda a, lds: _parted(a, lds, fx.make_layout(4, 2)),
        lambda a, lds: _parted(a, lds, fx.make_layout(2, 1)),
        lambda a, lds: _parted(a, lds, fx.make_layout((2, 2), (1, 1))),
        lambda a, _: fx.copy(_made(a)[0], a, a),
        lambda a, _: fx.copy(_made(a)[0], _made(a)[1], a),
        lambda a, lds: fx.copy(
            _made(a)[0], fx.slice(fx.zipped_divide(_made(a)[1], (16, 32)), (None, (0, 0))),
            fx.make_view(lds, fx.make_layout((16, 16), (16, 1))),
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_moved_is_refused(what: Any) -> None:
    a = np.zeros((32, 64), np.float16)
    with scope(FLYDSL_TARGET="gfx1250", COMPILE_ONLY=True), pytest.raises(UserError) as caught:
        flyc.compile(_launch_wrong, a, what)
    assert caught.value.code in ("FLY-U655", "FLY-U656")
