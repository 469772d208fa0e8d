"""Waits, barriers and pipelines: what the instructions are, and that kernels get it right."""

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
from flydsl_rocdl.arch import lookup


@flyc.kernel
def _waits(out: fx.Tensor, calls: fx.Constexpr) -> None:
    for i in fx.range_constexpr(len(calls)):
        name, arguments = calls[i]
        getattr(fx.rocdl, name)(**dict(arguments))
    out[0] = 1


@flyc.jit
def _launch_waits(out: fx.Tensor, calls: fx.Constexpr) -> None:
    _waits(out, calls).launch(grid=(1,), block=(64, 1, 1))


def _isa(arch: str, function: Any, *arguments: Any) -> str:
    with scope(FLYDSL_TARGET=arch):
        compiled = flyc.compile(function, *arguments)
        text: str = compiled.isa
    return text


@pytest.mark.parametrize("arch", ["gfx1201", "gfx1250"])
def test_split_waits_become_their_instructions(arch: str) -> None:
    counters = lookup(arch).split_counters
    pause = ("s_setprio", (("priority", 1),))  # LLVM joins neighbouring waits
    calls: list[Any] = []
    for name, limit in counters.items():
        for value in sorted({0, 1, limit}):
            calls += [(f"s_wait_{name}", (("count", value),)), pause]
    text = _isa(arch, _launch_waits, np.zeros(1, np.int32), tuple(calls))
    for name, limit in counters.items():
        for value in sorted({0, 1, limit}):
            assert re.search(rf"s_wait_{name} {value:#x}\b", text), (name, value)


def test_scheduling_directions_compile_everywhere() -> None:
    calls = (
        ("sched_barrier", ()), ("sched_mfma", (("count", 1),)), ("sched_vmem", (("count", 2),)),
        ("sched_dsrd", (("count", 1),)), ("sched_dswr", (("count", 1),)),
        ("iglp_opt", (("variant", 0),)), ("s_setprio", (("priority", 2),)),
        ("sched_group_barrier", (("mask", "valu"), ("size", 3), ("group", 1))),
        ("s_nop", (("cycles", 3),)), ("s_sleep", (("units", 1),)),
    )  # fmt: skip
    for arch in ("gfx942", "gfx950", "gfx1100", "gfx1201"):
        text = _isa(arch, _launch_waits, np.zeros(1, np.int32), calls)
        for line in (r"s_setprio 2", r"s_nop 3", r"s_sleep 1", r"sched_group_barrier mask\(0x"):
            assert re.search(line, text), (arch, line)


@flyc.kernel
def _halves(out: fx.Tensor) -> None:
    thread = fx.thread_idx.x
    storage = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 128], alignment=16)
    lds = fx.make_view(storage.ptr, fx.make_layout(128, 1))
    lds[thread] = thread * 3
    fx.rocdl.s_waitcnt(lgkmcnt=0)
    fx.rocdl.s_barrier_signal(-1)
    fx.rocdl.s_barrier_wait(-1)
    out[thread] = lds[127 - thread]


@flyc.jit
def _launch_halves(out: fx.Tensor) -> None:
    _halves(out).launch(grid=(1,), block=(128, 1, 1))


def test_split_barriers() -> None:
    out = np.zeros(128, np.int32)
    with scope(FLYDSL_TARGET="gfx1201"):
        _launch_halves(out)
    assert np.array_equal(out, np.arange(127, -1, -1) * 3)
    with scope(FLYDSL_TARGET="gfx942"), pytest.raises(TargetError) as caught:
        _launch_halves(out)
    assert caught.value.code == "FLY-T643"


@flyc.kernel
def _pipelined(a: fx.Tensor, out: fx.Tensor, steps: fx.Int32, stages: fx.Constexpr[int],
               copies: fx.Constexpr[int], first: fx.Constexpr[bool]) -> None:  # fmt: skip
    """Sums rows of 256 * copies numbers through a ring of stages."""
    thread = fx.thread_idx.x
    width = fx.const_expr(256 * copies)
    storage = fx.SharedAllocator().allocate(fx.Array[fx.Int32, width * stages], alignment=1024)
    lds = fx.make_view(storage.ptr, fx.make_layout((1, 256, copies, stages),
                                                   (1, 1, 256, width)))  # fmt: skip
    rows = fx.make_view(fx.get_iter(fx.rocdl.make_buffer_tensor(a, max_size=True)),
                        fx.make_layout((1, 256, copies), (1, 1, 256)))  # fmt: skip
    atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS32b(), fx.Int32)
    pipe = fx.rocdl.pipeline(stages - 2)
    for stage in fx.range_constexpr(stages - 1):
        for part in fx.range_constexpr(copies):
            fx.copy_atom_call(
                atom, rows[None, thread, part], lds[None, thread, part, stage],
                soffset=stage * width,
            )  # fmt: skip
        pipe.commit()
    total = fx.Int32(0)
    for step in range(steps):
        following = step + stages - 1
        if fx.const_expr(first):
            pipe.wait()
        for part in fx.range_constexpr(copies):
            fx.copy_atom_call(
                atom, rows[None, thread, part], lds[None, thread, part, following % stages],
                soffset=following * width,
            )  # fmt: skip
        pipe.commit()
        if fx.const_expr(not first):
            pipe.wait(stages - 1)
        for part in fx.range_constexpr(copies):
            total = total + lds[0, (thread + 1) % 256, part, step % stages]
        fx.rocdl.lds_barrier()
    out[thread] = total


@flyc.jit
def _launch_pipelined(a: fx.Tensor, out: fx.Tensor, steps: fx.Int32, stages: fx.Constexpr[int],
                      copies: fx.Constexpr[int], first: fx.Constexpr[bool]) -> None:  # fmt: skip
    _pipelined(a, out, steps, stages, copies, first).launch(grid=(1,), block=(256, 1, 1))


@pytest.mark.parametrize(("stages", "copies", "first"), [(2, 1, True), (3, 2, True),
                                                         (3, 2, False), (4, 1, False)])  # fmt: skip
def test_the_wait_is_counted_around_the_loop(stages: int, copies: int, first: bool) -> None:
    generator = np.random.default_rng(stages)
    steps = 6
    width = 256 * copies
    a = generator.integers(-1000, 1000, (steps + stages) * width).astype(np.int32)
    out = np.zeros(256, np.int32)
    arguments = (a, out, steps, stages, copies, first)
    for arch in ("gfx942", "gfx950"):
        with scope(FLYDSL_TARGET=arch), flydsl_emu.sanitize():
            _launch_pipelined(*arguments)
        rows = a.reshape(steps + stages, copies, 256)[:steps]
        assert np.array_equal(out, np.roll(rows.sum((0, 1)), -1))
    # Of `stages` - 1 stages in flight (and the new one), all but the oldest may stay.
    allowed = copies * (stages - 2 if first else stages - 1)
    text = _isa("gfx942", _launch_pipelined, *arguments)
    loop = text[text.index("Inner Loop") : text.index("s_cbranch_scc1 .LBB0_2")]
    assert re.findall(r"vmcnt\((\d+)\)", loop) == [str(allowed)]


def test_pipelines_elsewhere_are_refused() -> None:
    with scope(FLYDSL_TARGET="gfx1100"), pytest.raises(TargetError):
        _launch_waits(np.zeros(1, np.int32), (("asyncmark", ()),))
    with pytest.raises(UserError):
        fx.rocdl.pipeline(64)
