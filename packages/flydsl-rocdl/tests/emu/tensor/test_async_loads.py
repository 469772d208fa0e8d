"""Asynchronous loads of gfx1250 into LDS: widths, free destinations, waits and pipelines."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu
from flydsl.config import scope
from flydsl.errors import TargetError


@flyc.kernel
def _load(a: fx.Tensor, out: fx.Tensor, bits: fx.Constexpr[int], form: fx.Constexpr[str]) -> None:
    thread = fx.thread_idx.x
    words = fx.const_expr(bits // 32)
    space = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 128 * words], alignment=16)
    rows = fx.make_layout((words, 128), (1, words))
    source, lds = fx.make_view(a.iter, rows), fx.make_view(space.ptr, rows)
    place = thread
    if fx.const_expr(form == "wave"):
        place = fx.rocdl.read_first_lane(thread // 32) * 32
    if fx.const_expr(form == "turned"):
        place = 127 - thread
    atom = fx.make_copy_atom(fx.rocdl.cdna5.GlobalLoadAsyncLDS(bits), fx.Int32)
    fx.copy_atom_call(atom, source[None, thread], lds[None, place])
    if fx.const_expr(form == "counted"):
        fx.rocdl.s_wait_asynccnt(0)
    fx.barrier()
    for k in fx.range_constexpr(words):
        out[thread, k] = lds[k, thread ^ 1]


@flyc.jit
def _launch(a: fx.Tensor, out: fx.Tensor, bits: fx.Constexpr[int], form: fx.Constexpr[str]) -> None:
    _load(a, out, bits, form).launch(grid=(1,), block=(128, 1, 1))


@pytest.mark.parametrize("bits", [32, 64, 128])
@pytest.mark.parametrize("form", ["lanes", "wave", "turned", "counted"])
def test_destinations(bits: int, form: str) -> None:
    words = bits // 32
    a = np.random.default_rng(bits).integers(-(2**31), 2**31, (128, words)).astype(np.int32)
    out = np.zeros_like(a)
    with scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize():
        _launch(a.reshape(-1), out, bits, form)
        text = flyc.compile(_launch, a.reshape(-1), out, bits, form).isa
    rows = a[::-1] if form == "turned" else a
    assert np.array_equal(out, rows[np.arange(128) ^ 1])
    assert f"global_load_async_to_lds_b{bits} v" in text
    assert "s_wait_asynccnt 0x0" in text


def test_widths_that_do_not_exist() -> None:
    a = np.zeros(128 * 3, np.int32)
    for arch, bits in (("gfx1250", 96), ("gfx950", 64), ("gfx942", 128), ("gfx1201", 32)):
        with scope(FLYDSL_TARGET=arch, COMPILE_ONLY=True), pytest.raises(TargetError) as caught:
            flyc.compile(_launch, a, a.reshape(128, 3), bits, "lanes")
        assert caught.value.code == "FLY-T636"
    with scope(FLYDSL_TARGET="gfx950", COMPILE_ONLY=True), pytest.raises(TargetError) as caught:
        flyc.compile(_launch, a, a.reshape(128, 3), 32, "turned")
    assert caught.value.code == "FLY-T639"


@flyc.kernel
def _pipelined(a: fx.Tensor, out: fx.Tensor, steps: fx.Int32, stages: fx.Constexpr[int]) -> None:
    thread = fx.thread_idx.x
    space = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 512 * stages], alignment=16)
    lds = fx.make_view(space.ptr, fx.make_layout((4, 128, stages), (1, 4, 512)))
    atom = fx.make_copy_atom(fx.rocdl.cdna5.GlobalLoadAsyncLDS(128), fx.Int32)

    def load(step: Any, stage: Any) -> None:
        row = fx.make_view(fx.add_offset(a.iter, step * 512 + thread * 4), fx.make_layout(4, 1))
        fx.copy_atom_call(atom, row, lds[None, thread, stage])

    pipe = fx.rocdl.pipeline(stages - 2)
    for stage in fx.range_constexpr(stages - 1):
        load(stage, stage)
        pipe.commit()
    total = fx.Int32(0)
    for step in range(steps):
        pipe.wait()
        load(fx.min(step + stages - 1, steps - 1), (step + stages - 1) % stages)
        pipe.commit()
        for k in fx.range_constexpr(4):
            total = total + lds[k, (thread + 1) % 128, step % stages]
        fx.rocdl.lds_barrier()
    pipe.wait(0)
    out[thread] = total


@flyc.jit
def _launch_pipelined(a: fx.Tensor, out: fx.Tensor, steps: fx.Int32, stages: fx.Constexpr[int]
                      ) -> None:  # fmt: skip
    _pipelined(a, out, steps, stages).launch(grid=(1,), block=(128, 1, 1))


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_pipelines_count_asynchronous_loads(stages: int) -> None:
    a = np.random.default_rng(stages).integers(-1000, 1000, (6, 128, 4)).astype(np.int32)
    out = np.zeros(128, np.int32)
    with scope(FLYDSL_TARGET="gfx1250"), flydsl_emu.sanitize():
        _launch_pipelined(a.reshape(-1), out, 6, stages)
        text = flyc.compile(_launch_pipelined, a.reshape(-1), out, 6, stages).isa
    assert np.array_equal(out, np.roll(a.sum((0, 2)), -1))
    waits = [int(x, 16) for x in re.findall(r"s_wait_asynccnt (0x[0-9a-f]+)", text)]
    assert waits == [stages - 2, 0]
