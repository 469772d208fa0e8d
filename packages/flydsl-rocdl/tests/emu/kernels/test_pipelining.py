"""Software pipelines: any number of tiles, each used once and in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu
from flydsl.config import scope
from flydsl.errors import ConfigError
from flydsl_rocdl.kernels.pipelining import load_ahead, pipelined

THREADS = 64


def _ordered(A: Any, Out: Any, count: Any, turns: tuple[int, int, bool], guard: bool) -> None:
    """Out[t] = a polynomial of the column t of A, which depends on the order of the rows."""
    thread = fx.thread_idx.x
    stages, ahead, closed = turns
    ring = [A[0, thread] for _ in fx.range_constexpr(stages)]
    for step in fx.range_constexpr(ahead):
        if fx.const_expr(guard):
            if step < count:
                ring[step] = A[step, thread]
        elif fx.const_expr(step < count):
            ring[step] = A[step, thread]

    def body(step, slot, state, more):  # type: ignore[no-untyped-def]
        total, held = state
        held = list(held)
        if fx.const_expr(more):
            held[(slot + ahead) % stages] = A[step + ahead, thread]
        return total * 3 + held[slot], held

    total, _ = pipelined(count, body, (fx.Int32(1), ring), stages=stages, ahead=ahead,
                         closed=closed)  # fmt: skip
    Out[thread] = total


@flyc.kernel
def _static(A: fx.Tensor, Out: fx.Tensor, count: fx.Constexpr[int], stages: fx.Constexpr[int],
            ahead: fx.Constexpr[int], closed: fx.Constexpr[bool]) -> None:  # fmt: skip
    _ordered(A, Out, count, (stages, ahead, closed), False)


@flyc.kernel
def _dynamic(A: fx.Tensor, Out: fx.Tensor, count: fx.Int32, stages: fx.Constexpr[int],
             ahead: fx.Constexpr[int]) -> None:  # fmt: skip
    _ordered(A, Out, count, (stages, ahead, False), True)


@flyc.jit
def _launch_static(A: fx.Tensor, Out: fx.Tensor, count: fx.Constexpr[int],
                   stages: fx.Constexpr[int], ahead: fx.Constexpr[int],
                   closed: fx.Constexpr[bool] = False) -> None:  # fmt: skip
    _static(A, Out, count, stages, ahead, closed).launch(grid=1, block=THREADS)


@flyc.jit
def _launch_dynamic(A: fx.Tensor, Out: fx.Tensor, count: fx.Int32, stages: fx.Constexpr[int],
                    ahead: fx.Constexpr[int]) -> None:  # fmt: skip
    _dynamic(A, Out, count, stages, ahead).launch(grid=1, block=THREADS)


def _expected(a: Any) -> Any:
    total = np.ones(THREADS, np.int64)
    for row in a:
        total = total * 3 + row
    return total.astype(np.int32)


@pytest.mark.parametrize(("stages", "ahead"), [(2, 1), (3, 2), (4, 3), (4, 1)])
def test_run_time_counts(stages: int, ahead: int) -> None:
    a = np.random.default_rng(stages).integers(-9, 9, (13, THREADS)).astype(np.int32)
    with scope(FLYDSL_TARGET="gfx942"):
        for count in (0, 1, 2, 3, 4, 5, 7, 13):
            out = np.zeros(THREADS, np.int32)
            _launch_dynamic(a, out, count, stages, ahead)
            assert np.array_equal(out, _expected(a[:count])), count


@pytest.mark.parametrize("count", [0, 1, 2, 3, 6, 9])
def test_compile_time_counts(count: int) -> None:
    a = np.random.default_rng(count).integers(-9, 9, (13, THREADS)).astype(np.int32)
    out = np.zeros(THREADS, np.int32)
    with scope(FLYDSL_TARGET="gfx942"):
        _launch_static(a, out, count, 3, 2)
    assert np.array_equal(out, _expected(a[:count]))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 6, 8])
def test_closed_loops_load_ahead_past_the_end(count: int) -> None:
    a = np.random.default_rng(count).integers(-9, 9, (13, THREADS)).astype(np.int32)
    out = np.zeros(THREADS, np.int32)
    with scope(FLYDSL_TARGET="gfx942"):
        _launch_static(a, out, count, 3, 2, closed=True)
    assert np.array_equal(out, _expected(a[:count]))


def test_loops_are_not_unrolled() -> None:
    a, out = np.zeros((13, THREADS), np.int32), np.zeros(THREADS, np.int32)
    with scope(FLYDSL_TARGET="gfx942"):
        lengths = [
            len(flyc.compile(_launch_static, a, out, count, 2, 1).isa) for count in (51, 5001)
        ]
    assert abs(lengths[0] - lengths[1]) < 200


def _through_lds(A: Any, Out: Any, count: Any, stages: int) -> None:
    """Out[t] = the same polynomial of the column 255 - t, through local data share."""
    thread = fx.thread_idx.x
    array: Any = fx.Array
    kind = array[fx.Int32, 256 * stages]
    lds = fx.SharedAllocator().allocate(kind, alignment=1024).ptr
    source = fx.make_view(
        fx.get_iter(fx.rocdl.make_buffer_tensor(A, max_size=True)),
        fx.make_layout((1, 256), (1, 1)),
    )
    rows = fx.make_view(lds, fx.make_layout((1, 256, stages), (1, 1, 256)))
    atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS32b(), fx.Int32)

    def load(step, slot):  # type: ignore[no-untyped-def]
        fx.copy_atom_call(
            atom, source[None, thread], rows[None, thread, slot], soffset=fx.Int32(step * 256)
        )

    def use(step, slot, total):  # type: ignore[no-untyped-def]
        return total * 3 + (lds + slot * 256 + (255 - thread)).load()

    Out[thread] = load_ahead(count, load, use, fx.Int32(1), stages=stages)


@flyc.kernel
def _lds_dynamic(A: fx.Tensor, Out: fx.Tensor, count: fx.Int32,
                 stages: fx.Constexpr[int]) -> None:  # fmt: skip
    _through_lds(A, Out, count, stages)


@flyc.kernel
def _lds_static(A: fx.Tensor, Out: fx.Tensor, count: fx.Constexpr[int],
                stages: fx.Constexpr[int]) -> None:  # fmt: skip
    _through_lds(A, Out, count, stages)


@flyc.jit
def _launch_lds(A: fx.Tensor, Out: fx.Tensor, count: fx.Int32,
                stages: fx.Constexpr[int]) -> None:  # fmt: skip
    _lds_dynamic(A, Out, count, stages).launch(grid=1, block=256)


@flyc.jit
def _launch_lds_static(A: fx.Tensor, Out: fx.Tensor, count: fx.Constexpr[int],
                       stages: fx.Constexpr[int]) -> None:  # fmt: skip
    _lds_dynamic(A, Out, count, stages).launch(grid=1, block=256)


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_loads_into_lds_run_ahead_without_hazards(stages: int) -> None:
    a = np.random.default_rng(stages).integers(-9, 9, (9, 256)).astype(np.int32)
    with scope(FLYDSL_TARGET="gfx950", FLYDSL_SANITIZE="all"):
        for count in (0, 1, 2, 3, 4, 9):
            for launch in (_launch_lds, _launch_lds_static):
                out = np.zeros(256, np.int32)
                launch(a, out, count, stages)
                expected = np.ones(256, np.int64)
                for row in a[:count]:
                    expected = expected * 3 + row[::-1]
                assert np.array_equal(out, expected.astype(np.int32)), (count, launch)


@pytest.mark.parametrize(
    ("stages", "ahead"), [(1, 1), (9, 1), (2, 2), (3, 0)], ids=["few", "many", "far", "near"]
)
def test_impossible_pipelines_are_refused(stages: int, ahead: int) -> None:
    a, out = np.zeros((4, THREADS), np.int32), np.zeros(THREADS, np.int32)
    with scope(FLYDSL_TARGET="gfx942"), pytest.raises(ConfigError) as caught:
        _launch_dynamic(a, out, 3, stages, ahead)
    assert caught.value.code == "FLY-C605"


def test_the_emulator_is_what_runs() -> None:
    a, out = np.zeros((2, THREADS), np.int32), np.zeros(THREADS, np.int32)
    with scope(FLYDSL_TARGET="gfx942"), flydsl_emu.collect() as reports:
        _launch_dynamic(a, out, 2, 2, 1)
    assert len(reports) == 1
