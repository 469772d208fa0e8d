"""Named barriers: producers and consumers that wait for each other and for nobody else."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl.errors import TargetError, UserError

WAVES = 4


@flyc.kernel
def _relay(a: fx.Tensor, out: fx.Tensor, turns: fx.Int32) -> None:
    """Waves 0 and 1 exchange rows through LDS over and over, and so do waves 2 and 3."""
    thread = fx.thread_idx.x
    wave = fx.rocdl.read_first_lane(thread // 32)
    lane = thread % 32
    space = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 2 * 32 * WAVES], alignment=16)
    lds = fx.make_view(space.ptr, fx.make_layout((2, WAVES, 32), (32 * WAVES, 32, 1)))
    low, high = fx.rocdl.NamedBarrier(2), fx.rocdl.NamedBarrier(2)
    if wave == 0:
        low.init()
        high.init()
    fx.barrier()
    if wave < 2:
        low.join()
    else:
        high.join()
    value = a[wave, lane]
    for turn in range(turns):
        lds[turn % 2, wave, lane] = value + turn
        fx.rocdl.s_wait_dscnt(0)
        if wave < 2:
            low.signal()
        else:
            high.signal()
        low.wait()
        value = lds[turn % 2, wave ^ 1, 31 - lane]
    low.leave()
    out[wave, lane] = value


@flyc.jit
def _launch(a: fx.Tensor, out: fx.Tensor, turns: fx.Int32) -> None:
    _relay(a, out, turns).launch(grid=(1,), block=(32 * WAVES, 1, 1))


@pytest.mark.parametrize("arch", ["gfx1201", "gfx1250"])
@pytest.mark.parametrize("turns", [1, 4, 7])
def test_pairs_of_waves_meet(arch: str, turns: int) -> None:
    a = np.random.default_rng(turns).integers(0, 1000, (WAVES, 32)).astype(np.int32)
    out = np.zeros_like(a)
    with scope(FLYDSL_TARGET=arch):
        _launch(a, out, turns)
    rows = a.copy()
    for turn in range(turns):
        rows = (rows + turn)[[1, 0, 3, 2], ::-1]
    assert np.array_equal(out, rows)


def test_the_instructions_and_the_refusals() -> None:
    a = np.zeros((WAVES, 32), np.int32)
    with scope(FLYDSL_TARGET="gfx1250", COMPILE_ONLY=True):
        text = flyc.compile(_launch, a, a.copy(), 1).isa
    for name in ("init", "join", "signal", "wait 1", "leave"):
        assert f"s_barrier_{name}" in text
    assert ".amdhsa_named_barrier_count 1" in text
    for arch in ("gfx942", "gfx950", "gfx1100"):
        with scope(FLYDSL_TARGET=arch, COMPILE_ONLY=True), pytest.raises(TargetError) as caught:
            flyc.compile(_launch, a, a.copy(), 1)
        assert caught.value.code == "FLY-T643"


@flyc.kernel
def _wrong(out: fx.Tensor, count: fx.Constexpr[int], members: fx.Constexpr[int]) -> None:
    for _ in fx.range_constexpr(count):
        fx.rocdl.NamedBarrier(members)


@flyc.jit
def _launch_wrong(out: fx.Tensor, count: fx.Constexpr[int], members: fx.Constexpr[int]) -> None:
    _wrong(out, count, members).launch(grid=(1,), block=(64, 1, 1))


@pytest.mark.parametrize(("count", "members"), [(17, 2), (1, 0), (1, 33)])
def test_numbers_out_of_range(count: int, members: int) -> None:
    with scope(FLYDSL_TARGET="gfx1250", COMPILE_ONLY=True), pytest.raises(UserError) as caught:
        flyc.compile(_launch_wrong, np.zeros(4), count, members)
    assert caught.value.code == "FLY-U613"
